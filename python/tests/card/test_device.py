"""The device as PyTorch sees it."""

import copy
import io
import os
import pickle
import subprocess
import sys

import pytest
import torch
from zellige import DataFormats, SpyreTensorLayout


def run(code, **env):
    """A program in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_import_torch_is_enough():
    out, _ = run("import torch; print(torch.ones(2, 3).to('spyre').device, torch.spyre.is_available())")
    assert out == "spyre:0 True"


def test_autoload_can_be_turned_off():
    out, _ = run("import torch; print(hasattr(torch, 'spyre'))", ZELLIGE_AUTOLOAD="0")
    assert out == "False"


def test_a_mistake_in_the_environment_never_breaks_torch():
    out, err = run("import torch; print(torch.ones(2).sum().item())", SENCORES="33")
    assert out == "2.0" and "SENCORES" in err


def test_sencores():
    out, _ = run("import torch; print(torch.spyre.get_device_properties()['cores'])", SENCORES="7")
    assert out == "7"


def test_properties():
    x = torch.rand(5, 100, 150, dtype=torch.float16)
    y = x.to("spyre")
    assert y.device == torch.device("spyre:0") and y.is_spyre and not x.is_spyre
    assert y.dtype == x.dtype and y.shape == x.shape and y.stride() == x.stride() and y.is_contiguous()
    assert str(y.device_tensor_layout()) == (
        "SpyreTensorLayout(device_size=[100, 3, 5, 64], stride_map =[150, 64, 15000, 1], "
        "device_dtype=DataFormats.SEN169_FP16)"
    )
    assert x.device_tensor_layout() is None
    assert x.spyre().device == y.device
    assert torch.get_device_module("spyre") is torch.spyre
    assert torch.accelerator.current_accelerator().type == "spyre"
    torch.accelerator.synchronize()


def test_round_trip_loses_at_most_the_last_bit():
    x = torch.randn(300, 77, dtype=torch.float16)
    y = x.to("spyre").cpu()
    assert ((y - x).abs() <= x.abs() * 2**-10).all()
    # What DLFloat16 holds comes back bit for bit.
    assert torch.equal(y.to("spyre").cpu(), y)
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, torch.uint8):
        z = torch.randint(0, 2 if dtype == torch.bool else 100, (13, 70)).to(dtype)
        assert torch.equal(z.to("spyre").cpu(), z)


def test_ieee_mode_keeps_float16():
    code = "import torch; x = torch.randn(99, 70).half(); print(torch.equal(x.to('spyre').cpu(), x))"
    assert run(code, ZELLIGE_FLOAT16="ieee")[0] == "True"


def test_float32_is_narrowed_and_says_so_once():
    code = "import torch; [torch.ones(3).to('spyre') for _ in range(3)]; print(torch.ones(3).to('spyre').device_tensor_layout().device_dtype)"
    out, err = run(code)
    assert out == "DataFormats.SEN169_FP16" and err.count("stored in 16 bits") == 1
    assert "16 bits" not in run(code, TORCH_SPYRE_DOWNCAST_WARN="0")[1]
    out, err = run(code, ZELLIGE_FP32="keep")
    assert out == "DataFormats.IEEE_FP32" and "16 bits" not in err
    assert torch.ones(3).to("spyre").dtype == torch.float32
    layout = SpyreTensorLayout([3], torch.float32)
    wide = torch.tensor([1 / 3, 2 / 3, 1.0]).to("spyre", device_layout=layout)
    assert wide.device_tensor_layout() == layout and torch.equal(wide.cpu(), torch.tensor([1 / 3, 2 / 3, 1.0]))


def test_int64_narrowing_warns_once():
    code = "import torch; [torch.ones(3, dtype=torch.int64).to('spyre') for _ in range(3)]"
    assert run(code)[1].count("32 bits") == 1


def test_layouts_of_the_users_choice():
    x = torch.rand(5, 100, 150, dtype=torch.float16)
    layout = SpyreTensorLayout((5, 100, 150), torch.float16, [1, 0, 2])
    y = x.to("spyre", device_layout=layout)
    assert y.device_tensor_layout() == layout
    default = x.to("spyre")
    assert torch.equal(y.cpu(), default.cpu())
    moved = default.to("spyre", device_layout=layout)
    assert moved.device_tensor_layout() == layout and torch.equal(moved.cpu(), default.cpu())
    assert default.to(device_layout=layout).device_tensor_layout() == layout
    assert torch.equal((y + default).cpu(), (default + default).cpu())
    assert y.clone().device_tensor_layout() == layout and y.detach().device_tensor_layout() == layout
    assert y[1:3].device_tensor_layout() == layout
    assert torch.nn.Parameter(y).device_tensor_layout() == layout
    for made in (
        torch.empty(5, 100, 150, dtype=torch.float16, device="spyre", device_layout=layout),
        torch.empty((5, 100, 150), dtype=torch.float16, device="spyre", device_layout=layout),
        torch.empty_strided((5, 100, 150), (15000, 150, 1), dtype=torch.float16, device="spyre", device_layout=layout),
        default.new_empty(5, 100, 150, device_layout=layout),
        default.new_empty_strided((5, 100, 150), (15000, 150, 1), device_layout=layout),
        torch.spyre.new_empty_with_layout(default, (5, 100, 150), layout),
        torch.spyre.to_with_layout(x, layout),
    ):
        assert made.device_tensor_layout() == layout and made.shape == (5, 100, 150)
    with pytest.raises(RuntimeError, match="device spyre"):
        x.to("cpu", device_layout=layout)
    with pytest.raises(ValueError):
        torch.rand(5, 100, 151, dtype=torch.float16).to("spyre", device_layout=layout)


def test_restickify():
    x = torch.rand(70, 130, dtype=torch.float16).to("spyre")
    y = torch.spyre.restickify(x, 0)
    assert y.device_tensor_layout() == x.device_tensor_layout().restickify(0)
    assert torch.equal(y.cpu(), x.cpu())
    assert torch.equal(torch.ops.spyre.restickify(x.t(), 0).cpu(), x.t().cpu())


def test_ops_namespace():
    x, w = torch.randn(4, 64).to("spyre"), torch.rand(64).to("spyre")
    F = torch.nn.functional
    assert torch.allclose(torch.ops.spyre.rms_norm(x, [64], w, 1e-5).cpu(), F.rms_norm(x.cpu(), (64,), w.cpu(), 1e-5), atol=2e-2)
    assert torch.allclose(torch.ops.spyre.layer_norm(x, [64], w).cpu(), F.layer_norm(x.cpu(), (64,), w.cpu()), atol=2e-2)
    assert torch.allclose(torch.ops.spyre.gelu(x, "tanh").cpu(), F.gelu(x.cpu(), approximate="tanh"), atol=2e-2)
    assert torch.ops.spyre.constant(2.5, torch.float16, torch.device("spyre")).item() == 2.5
    x.requires_grad_()
    torch.ops.spyre.gelu(x).sum().backward()
    assert x.grad is not None


def test_views_share_storage():
    x = torch.zeros(4, 130, device="spyre")
    v = x.view(2, 2, 130)[1].t()[60:70]
    assert v._is_view() and v.untyped_storage()._cdata == x.untyped_storage()._cdata
    v.fill_(3)
    want = torch.zeros(4, 130)
    want.view(2, 2, 130)[1].t()[60:70].fill_(3)
    assert torch.equal(x.cpu(), want)
    assert torch.equal(x[1:, ::2].cpu(), want[1:, ::2])


def test_out_arguments():
    x = torch.rand(3, 70).to("spyre")
    out = torch.empty(3, 70, device="spyre")
    assert torch.exp(x, out=out) is out and torch.allclose(out.cpu(), x.cpu().exp(), rtol=1e-2)
    wide = torch.zeros(3, 140, device="spyre")
    torch.add(x, x, out=wide[:, ::2])
    assert torch.equal(wide[:, ::2].cpu(), (x + x).cpu()) and not wide[:, 1::2].cpu().any()
    small = torch.empty(0, device="spyre")
    torch.mul(x, 2, out=small)
    assert small.shape == (3, 70)
    with pytest.raises(RuntimeError):
        torch.exp(x, out=torch.empty(3, 70, dtype=torch.int32, device="spyre"))


def test_factories():
    d = dict(device="spyre")
    pairs = [
        (torch.zeros(3, 4, **d), torch.zeros(3, 4)), (torch.ones(3, 4, **d), torch.ones(3, 4)),
        (torch.full((3, 4), 2.5, **d), torch.full((3, 4), 2.5)), (torch.arange(5, **d), torch.arange(5)),
        (torch.arange(1, 10, 2, **d), torch.arange(1, 10, 2)), (torch.arange(0, 1, 0.25, **d), torch.arange(0, 1, 0.25)),
        (torch.linspace(0, 1, 5, **d), torch.linspace(0, 1, 5)), (torch.eye(3, **d), torch.eye(3)),
        (torch.tensor([[1, 2], [3, 4]], **d), torch.tensor([[1, 2], [3, 4]])),
        (torch.zeros_like(torch.rand(2, 3).to("spyre")), torch.zeros(2, 3)),
        (torch.empty(3, 0, **d), torch.empty(3, 0)), (torch.tensor(7, **d), torch.tensor(7)),
        (torch.rand(2, 3).to("spyre").new_full((2,), 4.0), torch.full((2,), 4.0)),
        (torch.full((2, 2), True, **d), torch.full((2, 2), True)),
    ]
    for got, want in pairs:
        assert got.device.type == "spyre" and got.dtype == want.dtype and torch.equal(got.cpu(), want)
    with torch.device("spyre"):
        assert torch.zeros(2).device.type == "spyre" and torch.nn.Linear(3, 3).weight.device.type == "spyre"


def test_random_numbers_follow_the_seed():
    def draw():
        return [f().cpu() for f in (
            lambda: torch.rand(50, 3, device="spyre"), lambda: torch.randn(200, device="spyre"),
            lambda: torch.randint(0, 10, (50,), device="spyre"), lambda: torch.empty(9, device="spyre").uniform_(2, 3),
            lambda: torch.nn.functional.dropout(torch.ones(100, device="spyre"), 0.5),
            lambda: torch.bernoulli(torch.full((40,), 0.5, device="spyre")),
        )]
    torch.manual_seed(3)
    first, other = draw(), draw()
    torch.manual_seed(3)
    again = draw()
    assert all(torch.equal(a, b) for a, b in zip(first, again))
    assert not any(torch.equal(a, b) for a, b in zip(first, other))
    assert 0 <= first[0].min() and first[0].max() <= 1 and abs(first[1].mean()) < 0.3
    assert set(first[4].tolist()) <= {0.0, 2.0} and 2 <= first[3].min() and first[3].max() <= 3
    state = torch.spyre.get_rng_state()
    a = torch.rand(5, device="spyre").cpu()
    torch.spyre.set_rng_state(state)
    assert torch.equal(a, torch.rand(5, device="spyre").cpu())
    torch.spyre.manual_seed(1)
    assert torch.spyre.initial_seed() == 1


def test_modules_move():
    m = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4))
    x = torch.randn(3, 16)
    want = m(x)
    m.to("spyre")
    assert all(p.device.type == "spyre" and type(p) is torch.nn.Parameter for p in m.parameters())
    assert torch.allclose(m(x.to("spyre")).cpu(), want, atol=2e-2)
    for linear in (m[0], m[3]):
        size = list(linear.weight.shape)
        order = SpyreTensorLayout.in_format(size, DataFormats.SEN169_FP16).restickify(0)
        assert linear.weight.device_tensor_layout() == order, "sticks along the outputs"
    half = torch.nn.Linear(70, 130).half().to("spyre")
    assert half.weight.device_tensor_layout() == SpyreTensorLayout([130, 70], torch.float16, [1, 0])
    copied = copy.deepcopy(m)
    assert torch.equal(copied[0].weight.cpu(), m[0].weight.cpu()) and copied[0].weight is not m[0].weight
    back = m.cpu()
    assert back[0].weight.device.type == "cpu"


def test_save_load_pickle():
    x = torch.rand(4, 70, dtype=torch.float16).to("spyre")
    file = io.BytesIO()
    torch.save({"x": x, "n": 3}, file)
    for where, device in ((None, "spyre"), ("cpu", "cpu"), ("spyre:1", "spyre")):
        file.seek(0)
        got = torch.load(file, map_location=where, weights_only=True)
        assert got["n"] == 3 and got["x"].device.type == device and torch.equal(got["x"].cpu(), x.cpu())
    again = pickle.loads(pickle.dumps(x))
    assert again.device == x.device and torch.equal(again.cpu(), x.cpu())
    p = torch.nn.Parameter(x)
    assert isinstance(copy.deepcopy(p), torch.nn.Parameter) and copy.deepcopy(x).device == x.device


def test_repr():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="spyre")
    assert repr(x) == "tensor([[1., 2.],\n        [3., 4.]], device='spyre:0')"
    assert "requires_grad=True" in repr(x.clone().requires_grad_())
    assert "Parameter containing" in repr(torch.nn.Parameter(x))
    assert repr(torch.zeros(0, 3, device="spyre")).startswith("tensor([]")
    assert f"{x[0, 0]:.2f}" == "1.00"


def test_several_devices():
    a = torch.rand(3, 70, dtype=torch.float16).to("spyre:1")
    assert a.device.index == 1 and (a + a).device.index == 1
    b = a.to("spyre:0")
    assert b.device.index == 0 and torch.equal(a.cpu(), b.cpu())
    with pytest.raises(RuntimeError, match="same device"):
        a + b
    with torch.spyre.device(1):
        assert torch.zeros(2, device="spyre").device.index == 1
    assert torch.spyre.current_device() == 0
    with pytest.raises(RuntimeError, match=r"Device index 7 out of range \[0, 2\)"):
        torch.spyre.set_device(7)
    with pytest.raises(RuntimeError, match="7"):
        torch.zeros(2, device="spyre:7")


def test_memory_statistics():
    before = torch.spyre.memory_allocated()
    x = torch.zeros(1024, 1024, dtype=torch.float16, device="spyre")
    assert torch.spyre.memory.memory_allocated() - before == 2 << 20
    torch.spyre.reset_peak_memory_stats()
    y = x + x
    del y
    assert torch.spyre.max_memory_allocated() - before == 4 << 20
    del x
    assert torch.spyre.memory_allocated() == before
    assert torch.accelerator.memory_allocated() == before


def test_streams_order_simulated_time():
    start, end = torch.spyre.Event(enable_timing=True), torch.spyre.Event(enable_timing=True)
    x = torch.rand(256, 256).to("spyre")
    s = torch.spyre.Stream()
    with torch.spyre.stream(s):
        assert torch.spyre.current_stream() == s
        start.record()
        x @ x
        end.record()
    assert torch.spyre.current_stream() == torch.spyre.default_stream()
    torch.spyre.default_stream().wait_event(end)
    s.synchronize()
    torch.spyre.synchronize()
    assert end.query() and start.elapsed_time(end) > 0


def test_autocast_and_inference_mode():
    x = torch.rand(4, 4).to("spyre")
    with torch.autocast("spyre", dtype=torch.float16):
        assert (x @ x).device.type == "spyre"
    with torch.inference_mode():
        y = x.view(16)[2:8] * 2
        assert y.is_inference() and y.shape == (6,)


def test_autograd():
    torch.manual_seed(0)
    m = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 3), torch.nn.LogSoftmax(-1))
    d = copy.deepcopy(m).to("spyre")
    x = torch.randn(5, 8)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    m(a).pow(2).mean().backward()
    d(b.to("spyre")).pow(2).mean().backward()
    assert torch.allclose(a.grad, b.grad, atol=2e-2)
    for p, q in zip(m.parameters(), d.parameters()):
        assert q.grad.device.type == "spyre" and torch.allclose(p.grad, q.grad.cpu(), atol=3e-2)


def test_training_lowers_the_loss():
    torch.manual_seed(0)
    m = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to("spyre")
    opt = torch.optim.SGD(m.parameters(), lr=0.1)
    x = torch.rand(64, 4)
    y = x.sum(-1, keepdim=True)
    x, y = x.to("spyre"), y.to("spyre")
    losses = []
    for _ in range(30):
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(m(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 5


def test_fallbacks_are_visible():
    code = (
        "import torch\n"
        "x = torch.rand(3, 3).to('spyre')\n"
        "for _ in range(3): x.det()\n"
        "f = torch.spyre.fallbacks()['aten::_linalg_det.result']\n"
        "print(f.count, f.bytes > 0, list(f.places)[0].split(':')[-1], 'no kernel' in f.reason)\n"
        "torch.spyre.reset_fallbacks(); print(torch.spyre.fallbacks())\n"
    )
    out, err = run(code)
    # The program is a text: it has no file, so the place is unknown.
    assert out.splitlines()[0].startswith("3 True") and out.splitlines()[1] == "{}"
    assert err.count("FallbackWarning: aten::_linalg_det.result is falling back to cpu") == 1
    torch.spyre.reset_fallbacks()
    torch.rand(3, 3).to("spyre").det()
    (place,) = torch.spyre.fallbacks()["aten::_linalg_det.result"].places
    assert place.split(":")[0] == __file__
    with pytest.warns(torch.spyre.FallbackWarning):
        torch.spyre.reset_fallbacks()
        torch.rand(3, 3).to("spyre").det()


def test_the_table_agrees_with_the_schemas_of_pytorch():
    from zellige import _native

    for name, kernel in _native.kernels():
        base, _, overload = name.partition(".")
        schema = torch._C._get_schema("aten::" + base, overload)
        names = [a.name for a in schema.arguments if not (a.is_out or (a.alias_info and a.alias_info.is_write and a.kwarg_only))]
        given = kernel.arguments
        assert names[: len(given)] == given, f"{name}: {given}, and PyTorch has {names}"
        assert len(names) == len(given), f"{name}: {given}, and PyTorch has {names}"


def test_shallow_copies_share_the_storage():
    x = torch.zeros(3, 4, device="spyre")
    copy.copy(x).add_(1)
    assert x.sum().item() == 12
    assert copy.copy(torch.zeros(2)).shape == (2,)


def test_files_are_loaded_where_somebody_says():
    file = io.BytesIO()
    torch.save({"a": torch.ones(3).to("spyre"), "b": torch.ones(2)}, file)
    file.seek(0)
    assert torch.load(file, map_location=lambda storage, place: storage)["a"].device.type == "cpu"
    weight = torch.nn.Linear(3, 2)
    tied = torch.nn.Sequential(weight, weight)
    file = io.BytesIO()
    torch.save({"model": tied, "state": dict(tied.state_dict())}, file)
    file.seek(0)
    loaded = torch.load(file, map_location="spyre", weights_only=False)
    assert loaded["model"][0].weight.device.type == "spyre" and loaded["model"][0].weight is loaded["model"][1].weight
    assert loaded["state"]["0.weight"].device.type == "spyre"


def test_what_the_profile_leaves_to_the_host_is_listed():
    code = (
        "import torch, warnings\n"
        "warnings.simplefilter('always')\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    x = torch.rand(4, 64).half().to('spyre')\n"
        "    x + x\n"
        "    x.sin(); x.sin(); x.cumsum(1)\n"
        "found = torch.spyre.fallbacks()\n"
        "print(sorted((k, f.count, f.bytes) for k, f in found.items()))\n"
        "print([str(w.message).split(':')[0] for w in said if 'falling back' in str(w.message)])\n"
        "print({f.reason for f in found.values()} or '')\n"
    )

    def run(profile):
        env = {**os.environ, "ZELLIGE_PROFILE": profile}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    listed, warned, reason = run("card")
    assert listed == "[('cumsum', 1, 1024), ('sin', 2, 2048)]"
    assert warned == "['sin is falling back to cpu', 'cumsum is falling back to cpu']"
    assert "the card's profile leaves it to the host" in reason
    assert run("full")[:2] == ["[]", "[]"]
