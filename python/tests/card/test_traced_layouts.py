"""Layouts inside compiled functions: what the function sees is what it sees eagerly, and layouts that it names hold."""

import pytest
import torch

from zellige import DataFormats, SpyreTensorLayout

LAYOUT = SpyreTensorLayout([40, 70], torch.float16, [1, 0])
SPYRE = dict(dtype=torch.float16, device="spyre", device_layout=LAYOUT)


@pytest.fixture(autouse=True)
def forget_graphs():
    torch._dynamo.reset()


def inputs():
    """The same values in the default layout and in another."""
    x = torch.rand(40, 70).half()
    return x.to("spyre"), x.to("spyre", device_layout=LAYOUT)


def has_layout(t):
    return t.device_tensor_layout() == LAYOUT


BRANCHES = {
    "equal": has_layout,
    "fields": lambda x: x.device_tensor_layout().stride_map == LAYOUT.stride_map and x.device_tensor_layout().device_dtype == DataFormats.SEN169_FP16,
    "methods": lambda x: x.device_tensor_layout().dim_map() == LAYOUT.dim_map() and x.device_tensor_layout().elems_per_stick() == 64,
    "text": lambda x: str(x.device_tensor_layout()) == str(LAYOUT),
    "view": lambda x: has_layout(x[3:, 2:].t()),
    "written": lambda x: has_layout(x.clone().copy_(x).add_(1).new_zeros(40, 70)) or has_layout(x),
    "restickified": lambda x: has_layout(torch.spyre.restickify(x, 1)),
    "moved": lambda x: has_layout((x * 2).to("spyre", device_layout=x.device_tensor_layout())),
    "made": lambda x: has_layout(torch.zeros(40, 70, **SPYRE)) and not has_layout(x.new_zeros(40, 70)),
    "host": lambda x: x.cpu().device_tensor_layout() is None and has_layout(x),
}


@pytest.mark.parametrize("branch", BRANCHES.values(), ids=BRANCHES)
def test_a_branch_on_a_layout_is_the_eager_one(branch):
    def function(x):
        return x + 1 if branch(x) else x * 2

    traced = []
    compiled = torch.compile(function, backend="spyre", fullgraph=True)
    for _ in range(2):
        for x in inputs():
            assert torch.equal(compiled(x).cpu(), function(x).cpu())
            traced.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert traced[1:] == [traced[1]] * 3, "each layout is traced once"


def test_a_parameter_in_another_layout_is_traced_again():
    class Layer(torch.nn.Module):
        def __init__(self, w):
            super().__init__()
            self.w = torch.nn.Parameter(w)

        def forward(self, x):
            return x + self.w if has_layout(self.w) else x - self.w

    plain, other = inputs()
    for w in (plain, other):
        layer = Layer(w)
        assert torch.equal(torch.compile(layer, backend="spyre", fullgraph=True)(plain).cpu(), layer(plain).cpu())


def test_a_layout_that_kernels_choose_ends_the_graph():
    def function(x):
        y = x @ x.t()
        return y + 1 if y.device_tensor_layout() is not None else y

    x = inputs()[0]
    assert torch.equal(torch.compile(function, backend="spyre")(x).cpu(), function(x).cpu())
    (found,) = torch.spyre.last_report().breaks
    assert "choice of the kernel" in found.reason
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="choice of the kernel"):
        torch.compile(function, backend="spyre", fullgraph=True)(x)


MAKERS = {
    "empty": lambda x: torch.empty(40, 70, **SPYRE),
    "empty(size=)": lambda x: torch.empty(size=(40, 70), **SPYRE),
    "empty_strided": lambda x: torch.empty_strided((40, 70), (70, 1), **SPYRE),
    "zeros": lambda x: torch.zeros((40, 70), **SPYRE),
    "ones": lambda x: torch.ones(40, 70, **SPYRE),
    "full": lambda x: torch.full((40, 70), 3.5, **SPYRE),
    "empty_like": lambda x: torch.empty_like(x, device_layout=LAYOUT),
    "zeros_like": lambda x: torch.zeros_like(x, device_layout=LAYOUT),
    "ones_like": lambda x: torch.ones_like(x, device_layout=LAYOUT),
    "full_like": lambda x: torch.full_like(x, 2, device_layout=LAYOUT),
    "new_empty": lambda x: x.new_empty(40, 70, device_layout=LAYOUT),
    "new_empty_strided": lambda x: x.new_empty_strided((40, 70), (70, 1), device_layout=LAYOUT),
    "new_zeros": lambda x: x.new_zeros(40, 70, device_layout=LAYOUT),
    "new_ones": lambda x: x.new_ones((40, 70), device_layout=LAYOUT),
    "new_full": lambda x: x.new_full((40, 70), 4, device_layout=LAYOUT),
    "new_empty_with_layout": lambda x: torch.spyre.new_empty_with_layout(x, (40, 70), LAYOUT),
    "to": lambda x: torch.full((40, 70), 0.3, dtype=torch.float16, device="cpu").to("spyre", device_layout=LAYOUT),
    "written": lambda x: x.new_empty(40, 70, device_layout=LAYOUT).copy_(x).mul_(2),
}
VALUES = {"ones": 1, "full": 3.5, "ones_like": 1, "full_like": 2, "new_ones": 1, "new_full": 4, "to": 0.3}


@pytest.mark.parametrize("name", MAKERS)
def test_tensors_are_made_in_a_layout(name):
    make, x = MAKERS[name], inputs()[0]
    made = make(x)
    assert made.device_tensor_layout() == LAYOUT and made.shape == (40, 70) and made.dtype == torch.float16
    want = x * 2 if name == "written" else torch.full((40, 70), VALUES.get(name, 0), dtype=torch.float16).to("spyre")
    assert torch.equal(made.cpu(), want.cpu())
    got = torch.compile(make, backend="spyre", fullgraph=True)(x)
    assert got.device_tensor_layout() == LAYOUT and torch.equal(got.cpu(), want.cpu())
    got = torch.compile(lambda x: make(x) + x, backend="spyre", fullgraph=True)(x)
    assert torch.equal(got.cpu(), (want + x).cpu())
    if name not in ("to", "written"):
        assert str(LAYOUT) in [b["layout"] for b in torch.spyre.last_report().programs[0].report()["buffers"]]


@pytest.mark.parametrize("make", [lambda: torch.zeros(40, 70, dtype=torch.float16, device_layout=LAYOUT), lambda: torch.full((40, 70), 2.0, dtype=torch.float16, device_layout=LAYOUT)])
def test_the_default_device_of_a_layout(make):
    compiled = torch.compile(make, backend="spyre", fullgraph=True)
    for made in (make(), compiled()):
        assert made.device == torch.device("spyre:0") and made.device_tensor_layout() == LAYOUT
    with torch.device("spyre:1"):
        for made in (make(), compiled()):
            assert made.device == torch.device("spyre:1") and made.device_tensor_layout() == LAYOUT


def test_makers_without_a_layout_are_pytorchs():
    assert torch.zeros(2, 3).sum() == 0 and torch.full((2,), 3).dtype == torch.int64 and torch.ones(2).new_full((3,), 5.0).sum() == 15
    for function in (lambda n: torch.ones(n) + torch.zeros(n), lambda n: torch.ones(2).new_zeros(n)):
        assert torch.equal(torch.compile(function, backend="eager", fullgraph=True)(4), function(4))
    assert torch.jit.script(_scripted)(3).sum() == 6


def _scripted(n: int):
    return torch.ones(n) + torch.full((n,), 1.0) + torch.zeros_like(torch.empty(n))


def test_bad_arguments_beside_a_layout():
    x = inputs()[0]
    with pytest.raises(TypeError, match="'dtpye'.*accepted are dtype"):
        x.new_zeros(40, 70, device_layout=LAYOUT, dtpye=torch.float16)
    with pytest.raises(TypeError, match="given twice"):
        torch.zeros(40, 70, size=(40, 70), **SPYRE)
    with pytest.raises(ValueError, match="preserve_format"):
        torch.zeros_like(x, device_layout=LAYOUT, memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="needs the device spyre"):
        torch.zeros(40, 70, device="cpu", device_layout=LAYOUT)
    with pytest.raises(ValueError):
        torch.ones(100, 70, **SPYRE)


def test_fake_tensors_have_layouts():
    plain, other = inputs()
    with torch._subclasses.FakeTensorMode() as mode:
        fake = mode.from_tensor(other)
        assert fake.device_tensor_layout() == LAYOUT and fake.t().device_tensor_layout() == LAYOUT
        assert mode.from_tensor(plain).device_tensor_layout() == plain.device_tensor_layout()
        assert torch.zeros(40, 70, **SPYRE).device_tensor_layout() == LAYOUT
        with pytest.raises(RuntimeError, match="kernels choose"):
            (fake @ fake.t()).device_tensor_layout()


def test_a_layout_keeps_all_bits_on_the_way_to_the_card():
    layout = SpyreTensorLayout([40, 70], torch.float32, [1, 0])
    x = torch.rand(40, 70)
    assert layout.device_dtype == DataFormats.IEEE_FP32
    moved = x.requires_grad_().to("spyre", device_layout=layout)
    assert torch.equal(moved.detach().cpu(), x.detach()), "float32, and not the 16 bits of the default layout"
    moved.sum().backward()
    assert x.grad.device.type == "cpu" and torch.equal(x.grad, torch.ones(40, 70))
    compiled = torch.compile(lambda x: x.to("spyre", device_layout=layout), backend="spyre", fullgraph=True)
    assert torch.equal(compiled(x.detach()).cpu(), x.detach())
