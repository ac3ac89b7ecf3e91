"""The fast path of attention and encoder layers: as it was on the CPU, and by operators of the card on the device."""

import copy

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


class Operators(TorchDispatchMode):
    """The names of the operators that run."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.name())
        return func(*args, **(kwargs or {}))


def layer(**given):
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **given).eval()


MASKS = {
    "none": lambda: {},
    "of keys": lambda: dict(src_key_padding_mask=torch.arange(6).expand(3, 6) >= torch.tensor([[6], [4], [3]])),
    "causal": lambda: dict(src_mask=nn.Transformer.generate_square_subsequent_mask(6)),
    "of truth values": lambda: dict(src_mask=torch.triu(torch.ones(6, 6, dtype=torch.bool), 1)),
}


def placed(given, device):
    return {k: v.to(device) for k, v in given.items()}


def test_the_cpu_takes_its_fast_path():
    assert torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad(), Operators() as ran:
        layer()(torch.randn(3, 6, 16))
    assert "aten::_transformer_encoder_layer_fwd" in ran.names
    attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    with torch.no_grad(), Operators() as ran:
        attention(*[torch.randn(3, 6, 16)] * 3)
    assert "aten::_native_multi_head_attention" in ran.names


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("given", [{}, {"norm_first": True}, {"activation": "gelu"}], ids=str)
@pytest.mark.parametrize("compiled", [False, True])
def test_an_encoder_layer(mask, given, compiled):
    torch._dynamo.reset()
    model, x, masks = layer(**given), torch.randn(3, 6, 16), MASKS[mask]()
    torch.spyre.reset_fallbacks()
    with torch.no_grad():
        want = model(x, **masks)
        device = copy.deepcopy(model).to("spyre")
        got = (torch.compile(device, backend="spyre") if compiled else device)(x.to("spyre"), **placed(masks, "spyre"))
    assert torch.allclose(want, got.cpu(), atol=1e-5)
    assert not torch.spyre.fallbacks()


@pytest.mark.parametrize("weights", [None, "mean", "each"])
def test_attention_with_weights(weights):
    torch.manual_seed(0)
    attention, x = nn.MultiheadAttention(16, 4, batch_first=True).eval(), torch.randn(3, 6, 16)
    given = dict(need_weights=weights is not None, average_attn_weights=weights == "mean")
    mask = torch.arange(6).expand(3, 6) >= torch.tensor([[6], [4], [3]])
    with torch.no_grad():
        want, of_want = attention(x, x, x, key_padding_mask=mask, **given)
        y = x.to("spyre")
        got, of_got = copy.deepcopy(attention).to("spyre")(y, y, y, key_padding_mask=mask.to("spyre"), **given)
    assert torch.allclose(want, got.cpu(), atol=1e-5)
    assert of_got is None if weights is None else torch.allclose(of_want, of_got.cpu(), atol=1e-5)


def test_an_encoder_with_padded_sequences():
    model, x, masks = nn.TransformerEncoder(layer(), 2).eval(), torch.randn(3, 6, 16), MASKS["of keys"]()
    with torch.no_grad():
        want = model(x, **masks)
        got = copy.deepcopy(model).to("spyre")(x.to("spyre"), **placed(masks, "spyre"))
    kept = ~masks["src_key_padding_mask"]
    assert torch.allclose(want[kept], got.cpu()[kept], atol=1e-5)
