"""Generators, flexible attention, and libraries that choose a device."""

import math
import pickle

import pytest
import torch
import torch.nn as nn
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, flex_attention


def test_generators():
    g = torch.Generator("spyre").manual_seed(3)
    assert isinstance(g, torch.Generator) and g.device == torch.device("spyre:0") and torch.Generator("spyre:1").device.index == 1
    assert isinstance(torch.default_generator, torch.Generator) and not isinstance(3, torch.Generator)
    assert torch.Generator().device.type == "cpu" and torch.Generator(device="cpu").manual_seed(1).initial_seed() == 1
    draws = [
        lambda g: torch.randn(3, generator=g, device="spyre"), lambda g: torch.rand(3, generator=g, device="spyre"),
        lambda g: torch.randint(0, 9, (3,), generator=g, device="spyre"), lambda g: torch.randperm(5, generator=g, device="spyre"),
        lambda g: torch.empty(3, device="spyre").uniform_(generator=g), lambda g: torch.ones(4, device="spyre").multinomial(2, generator=g),
    ]
    for draw in draws:
        twin = pickle.loads(pickle.dumps(g))
        state = g.get_state()
        first = draw(g)
        assert torch.equal(first, draw(twin)), "the same state draws the same"
        g.set_state(state)
        assert torch.equal(first, draw(g))
    with pytest.raises(RuntimeError, match="out of range"):
        torch.Generator("spyre:7")


def window(b, h, q, kv):
    return (q >= kv) & (q - kv < 20)


CHANGES = {
    "nothing": (None, None),
    "causal": (lambda s, b, h, q, kv: torch.where(q >= kv, s, -math.inf), None),
    "a slope": (lambda s, b, h, q, kv: s + (q - kv) * 0.01 * (h + 1), None),
    "a window": (None, window),
    "both": (lambda s, b, h, q, kv: s * 0.5, window),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("compiled", [False, True])
def test_flexible_attention(name, compiled):
    torch._dynamo.reset()
    torch.manual_seed(0)
    score, mask = CHANGES[name]
    given = [torch.randn(2, 4, 96, 32) for _ in range(3)]

    def function(q, k, v):
        blocks = None if mask is None else masks[q.device.type]
        return flex_attention(q, k, v, score_mod=score, block_mask=blocks)

    masks = {d: create_block_mask(mask, None, None, 96, 96, device=d) for d in ("cpu", "spyre")} if mask else {}
    with torch.no_grad():
        want = function(*given)
        got = (torch.compile(function, backend="spyre") if compiled else function)(*[t.to("spyre") for t in given])
    torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-5)


def test_flexible_attention_and_what_else_it_gives():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 32, 16), torch.randn(1, 2, 32, 16), torch.randn(1, 2, 32, 16)
    on = [t.to("spyre") for t in (q, k, v)]
    want, logs = flex_attention(q, k, v, enable_gqa=True, return_aux=AuxRequest(lse=True))
    got, more = flex_attention(*on, enable_gqa=True, return_aux=AuxRequest(lse=True, max_scores=True))
    torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(more.lse.cpu(), logs.lse, rtol=1e-5, atol=1e-5)
    scores = q @ k.repeat_interleave(2, 1).transpose(-1, -2) / 4
    torch.testing.assert_close(more.max_scores.cpu(), scores.amax(-1), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="4 heads and key 2"):
        flex_attention(*on)
    # Blocks alone, and a query that sees nothing.
    blocks = BlockMask.from_kv_blocks(torch.tensor([[[1, 0]]]), torch.tensor([[[[0, 0], [0, 0]]]]), BLOCK_SIZE=16)
    out = flex_attention(on[0], on[1], on[2], enable_gqa=True, block_mask=blocks.to("spyre")).cpu()
    assert torch.equal(out[:, :, 16:], torch.zeros(1, 4, 16, 16)) and out[:, :, :16].abs().min() > 0


def test_gradients_of_flexible_attention():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 32, 16).to("spyre") for _ in range(3))
    grads = []
    for function in (lambda q: flex_attention(q, k, v), lambda q: nn.functional.scaled_dot_product_attention(q, k, v)):
        x = q.clone().requires_grad_()
        torch.compile(function, backend="spyre")(x).pow(2).sum().backward()
        grads.append(x.grad.cpu())
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)


def test_accelerate_takes_the_card():
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator()
    assert accelerator.device.type == "spyre"
    model = nn.Linear(4, 2)
    data = torch.utils.data.DataLoader([(torch.randn(4), torch.randn(2)) for _ in range(8)], batch_size=4)
    model, optimizer, data = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), data)
    before = model.weight.detach().cpu().clone()
    for x, y in data:
        assert x.device.type == "spyre"
        accelerator.backward(nn.functional.mse_loss(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
    assert not torch.equal(before, model.weight.detach().cpu())


def llama():
    transformers = pytest.importorskip("transformers")
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, vocab_size=64)
    )


def test_device_maps(tmp_path):
    pytest.importorskip("accelerate")
    from accelerate.utils import get_max_memory
    from transformers import AutoModelForCausalLM

    llama().save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, device_map="auto")
    assert {p.device.type for p in model.parameters()} == {"spyre"}
    assert model(torch.tensor([[1, 2, 3]], device="spyre")).logits.shape == (1, 3, 64)
    assert get_max_memory({0: "1GB"}) == {0: 10**9}
    with pytest.raises(ValueError, match="there are 2 cards"):
        get_max_memory({5: "1GB"})


def test_trainer(tmp_path):
    pytest.importorskip("accelerate")
    from transformers import Trainer, TrainingArguments

    data = [dict(input_ids=torch.arange(8), labels=torch.arange(8)) for _ in range(4)]
    arguments = TrainingArguments(str(tmp_path), max_steps=2, report_to=[], save_strategy="no", disable_tqdm=True)
    trainer = Trainer(model=llama(), args=arguments, train_dataset=data)
    trainer.train()
    assert arguments.device.type == "spyre" and trainer.model.device.type == "spyre"
