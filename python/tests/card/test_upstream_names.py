"""Names of torch-spyre's own tests and documents, with what they do."""

import itertools
import json
import logging
import math
import os
import pathlib
import pickle
import subprocess
import sys

import pytest
import torch

from zellige.spyre.visible_devices import count_visible

FLOAT8 = torch.float8_e4m3fn
DEVICES = ["cpu", "spyre", "compiled"]


def on(device, function):
    """The function for tensors of a device: eager, or compiled for the card."""
    return torch.compile(function, backend="spyre") if device == "compiled" else function


def place(device):
    return "cpu" if device == "cpu" else "spyre"


def test_the_device_module_has_the_layout():
    assert torch.spyre.SpyreTensorLayout([512, 256], torch.float16).device_size == [4, 512, 64]
    formats = torch.spyre.DataFormats
    assert torch.spyre.get_device_dtype(torch.float16) == formats.SEN169_FP16
    assert torch.spyre.get_device_dtype(torch.float32) == torch.spyre.SpyreTensorLayout([1], torch.float32).device_dtype


def test_the_native_module_has_its_functions():
    from torch_spyre import _C

    layout = _C.SpyreTensorLayout([4, 512, 64], [64, 256, 1], _C.get_device_dtype(torch.float16))
    x = torch.rand(512, 256).half()
    # Numbers of nine fraction bits are those of the card.
    x = x.to("spyre").cpu()
    assert torch.equal(_C.to_with_layout(x, layout).cpu(), x)
    made = _C.empty_with_layout((512, 256), layout, torch.float16, None, None, None)
    assert made.device_tensor_layout() == layout and made.shape == (512, 256)
    with pytest.raises(ValueError, match="contiguous_format"):
        _C.empty_with_layout((1, 2, 3, 4), layout, memory_format=torch.channels_last)
    _C.synchronize()
    assert _C.current_stream(torch.device("spyre")) == torch.spyre.current_stream()


def test_the_compiler_s_package_imports_the_code_cache():
    import torch_spyre._inductor  # noqa: F401

    assert torch._inductor.codecache.PyCodeCache


@pytest.mark.parametrize("device", DEVICES)
def test_overwrite(device):
    generator = torch.Generator().manual_seed(3)
    for dims, offsets, size in [([0], [3], (2, 128)), ([1], [64], (8, 64)), ([1, 0], [5, 1], (3, 7)), ([], [], (8, 128)), ([-1], [1], (8, 2))]:
        old = torch.randint(-64, 64, (8, 128), generator=generator).half()
        new = torch.randint(-64, 64, size, generator=generator).half()
        want = old.clone()
        part = want
        for dim, offset in zip(dims, offsets):
            part = part.narrow(dim, offset, new.size(dim))
        part.copy_(new)

        def write(new, into):
            torch.ops.spyre.overwrite(new, into, dims, offsets)
            return into + 0

        into = old.to(place(device), copy=True)
        made = on(device, write)(new.to(place(device)), into)
        assert torch.equal(into.cpu(), want) and torch.equal(made.cpu(), want)
        into = old.to(place(device), copy=True)
        made = on(device, lambda new, into: torch.ops.spyre.overwrite_f(new, into, dims, offsets))(new.to(place(device)), into)
        assert torch.equal(made.cpu(), want) and torch.equal(into.cpu(), old)


def test_overwrite_refuses_what_does_not_fit():
    new, into = torch.ones(2, 4), torch.zeros(8, 4)
    cases = [([0], [7], IndexError), ([0], [-1], IndexError), ([0], [1, 2], ValueError), ([], [], ValueError), ([1], [0], ValueError)]
    for dims, offsets, error in cases:
        with pytest.raises(error, match="overwrite"):
            torch.ops.spyre.overwrite(new, into, dims, offsets)
        assert not into.any()
    with pytest.raises(ValueError, match="1 dimensions into 2"):
        torch.ops.spyre.overwrite(torch.ones(4), into, [], [])


@pytest.mark.parametrize("device", DEVICES)
def test_eight_bits(device):
    x = (torch.randn(2, 64, 128, generator=torch.Generator().manual_seed(1)) * 100).half()
    # By a power of two nothing is rounded before the cast.
    scale = torch.tensor([0.25, 0.5, 1.0, 2.0]).repeat(32).view(2, 64, 1).half()
    ops = torch.ops.spyre
    want = (x / scale).clamp(-448, 448).to("spyre").cpu().to(FLOAT8)
    for quantize in (ops.quantize_fp8_with_scale, ops.quantize_weight_fp8_with_scale):

        def both(x, scale):
            small = quantize(x, scale)
            return small, ops.dequantize_fp8_with_scale(small, scale)

        small, back = on(device, both)(x.to("spyre").cpu().to(place(device)), scale.to(place(device)))
        assert small.dtype == FLOAT8 and back.dtype == torch.float16
        assert (small.cpu().float() - want.float()).abs().max() <= 0.0626 * want.float().abs().max()
        assert (small.cpu().float() == want.float()).float().mean() > 0.99
        assert torch.equal(back.cpu(), (small.cpu().half() * scale).to("spyre").cpu())
    plain = on(device, lambda x: ops.qfp8ch(x.clamp(-448, 448)))(x.to(place(device)))
    assert plain.dtype == FLOAT8 and plain.shape == x.shape
    with pytest.raises(TypeError, match="takes torch.float8_e4m3fn"):
        ops.dequantize_fp8_with_scale(x.to(place(device)), scale.to(place(device)))
    with pytest.raises(TypeError, match="takes floats"):
        ops.qfp8ch(torch.ones(4, dtype=torch.int32).to(place(device)))


def test_statistics_are_reset_through_both_modules():
    held = torch.ones(1024, 1024).half().to("spyre")
    for module in (torch.spyre, torch.accelerator):
        before = module.memory_allocated()
        module.reset_accumulated_memory_stats()
        module.empty_cache()
        assert module.memory_allocated() == before > 0
    with pytest.raises(RuntimeError, match="out of range"):
        torch.spyre.reset_accumulated_memory_stats(99)
    free, total = torch.spyre.mem_get_info()
    assert total - free >= held.numel() * 2


def test_memory_of_the_host_may_be_asked_to_be_pinned():
    assert torch.zeros(4, pin_memory=True).tolist() == [0.0] * 4
    assert torch.ones(2, pin_memory=True, device="cpu").tolist() == [1.0] * 2
    assert torch.full((2,), 3, pin_memory=True).tolist() == [3, 3]
    x = torch.zeros(3)
    for made in (torch.empty(3, pin_memory=True), torch.empty_strided((3,), (1,), pin_memory=True), x.new_empty(3, pin_memory=True)):
        assert made.shape == (3,) and made.device.type == "cpu"
    assert torch.ones_like(x, pin_memory=True).tolist() == [1.0] * 3
    with pytest.raises(RuntimeError, match="pin_memory is for host memory"):
        torch.zeros(4, device="spyre", pin_memory=True)


@pytest.mark.parametrize(
    "environment, count",
    [
        ({}, None),
        ({"AIU_WORLD_SIZE": "1"}, 1),
        ({"AIU_WORLD_SIZE": "9"}, 2),
        ({"AIU_WORLD_SIZE": "3", "ZELLIGE_DEVICES": "4"}, 3),
        ({"SPYRE_DEVICES": "0"}, 1),
        ({"SPYRE_DEVICES": "1,0"}, 2),
        ({"SPYRE_DEVICES": "0,1,1"}, 2),
        ({"SPYRE_DEVICES": "0, 2"}, 1),
        ({"SPYRE_VISIBLE_DEVICES": "1", "SPYRE_DEVICES": "0,1", "AIU_WORLD_SIZE": "2"}, 1),
        ({"SPYRE_VISIBLE_DEVICES": "3,5,6", "ZELLIGE_DEVICES": "8"}, 3),
    ],
)
def test_the_environment_counts_cards(environment, count):
    assert count_visible(environment) == count


@pytest.mark.parametrize("environment", [{"AIU_WORLD_SIZE": "0"}, {"AIU_WORLD_SIZE": "two"}, {"SPYRE_DEVICES": "a,b"}, {"SPYRE_DEVICES": "7"}])
def test_what_counts_nothing_is_ignored_with_a_warning(environment):
    (name,) = environment
    with pytest.warns(RuntimeWarning, match=name):
        assert count_visible(environment) is None


def test_cores_are_a_setting_while_a_program_runs():
    from torch_spyre._inductor import config

    x = torch.randn(256, 256).half().to("spyre")

    def cores(function):
        torch.compile(function, backend="spyre")(x)
        return max(s["cores"] for s in torch.spyre.last_report().steps if not s["is_move"])

    assert config.sencores == 32 and cores(lambda x: x @ x + 1) > 4
    with config.patch(sencores=4):
        assert config.sencores == 4 and cores(lambda x: x @ x + 2) <= 4
        # What a call asks for comes first.
        asked = torch.compile(lambda x: x @ x + 3, backend="spyre", options={"cores": 2})
        asked(x)
        assert max(s["cores"] for s in torch.spyre.last_report().steps if not s["is_move"]) <= 2
    assert config.sencores == 32
    for wrong in (0, 33, "4", True):
        with pytest.raises(ValueError, match="sencores"):
            config.sencores = wrong


def test_another_layout_is_a_recompilation_in_the_report(caplog):
    from zellige import SpyreTensorLayout

    x = torch.randn(64, 256).half()
    rows, columns = (x.to("spyre", device_layout=SpyreTensorLayout([64, 256], torch.float16, order)) for order in ([0, 1], [1, 0]))
    add = torch.compile(lambda x: x - 1, backend="spyre")
    add(rows)
    report = torch.spyre.last_report()
    assert not report.recompiles
    package = logging.getLogger("zellige")
    before = package.level, package.propagate
    package.setLevel(logging.WARNING)
    package.propagate = True
    try:
        with caplog.at_level(logging.WARNING, logger="zellige.compile"):
            add(columns)
    finally:
        package.level, package.propagate = before
    (again,) = report.recompiles
    assert "was in SpyreTensorLayout(device_size=[4, 64, 64]" in again.guards[0] and "[1, 256, 64]" in again.guards[0]
    assert "test_upstream_names.py" in again.at and str(again) in str(report) and str(again) in caplog.text
    # Both programs stay, and other sizes are no other layout.
    add(rows)
    add(columns)
    assert len(report.recompiles) == 1


def test_conversions_have_their_operations():
    from torch_spyre._C import DataFormats
    from torch_spyre._inductor.dtype_ops import DtypeOpTable, bool_equivalent_dtype

    assert DtypeOpTable.get_operator(torch.float16, torch.float32) == "dl16tofp32"
    assert DtypeOpTable.get_operator(torch.float32, torch.bfloat16) == "fp32todl16"
    assert DtypeOpTable.get_operator(torch.float16, torch.bool) == "identity"
    assert DtypeOpTable.get_operator(torch.int64, torch.float16) is None
    assert bool_equivalent_dtype(DataFormats.IEEE_FP32) == torch.float32 and bool_equivalent_dtype(DataFormats.IEEE_INT32) is None
    assert DtypeOpTable.get_bool_src_operator(DataFormats.SEN169_FP16, torch.float32) == "dl16tofp32"
    assert DtypeOpTable.bool_host_conversion_reorders_sticks(torch.float32)
    assert not DtypeOpTable.bool_host_conversion_reorders_sticks(torch.float16)
    assert DtypeOpTable.is_supported(torch.bool, torch.float32) and not DtypeOpTable.is_supported(torch.bool, torch.int64)
    assert DtypeOpTable.is_dtype_op("fp8todl16") and not DtypeOpTable.is_dtype_op("add")
    assert set(DtypeOpTable.get_table()) == DtypeOpTable.get_dtype_pairs()


def test_errors_and_loggers_are_the_compiler_s():
    from torch_spyre._inductor.errors import Unsupported
    from torch_spyre._inductor.logging_utils import get_inductor_logger, is_inductor_logging_enabled
    from zellige import DeviceError

    with pytest.raises(DeviceError, match="Spyre backend does not support: a loop"):
        raise Unsupported("a loop")
    logger = get_inductor_logger("lowering")
    assert logger.name == "zellige.compile.lowering" and get_inductor_logger("lowering") is logger
    package = logging.getLogger("zellige")
    before = package.level
    try:
        for level, enabled in ((logging.CRITICAL + 1, False), (logging.INFO, True)):
            package.setLevel(level)
            assert is_inductor_logging_enabled() == enabled == logger.isEnabledFor(logging.ERROR)
    finally:
        package.setLevel(before)


def test_a_process_sees_the_cards_of_its_environment():
    script = "import os, torch; print(torch.spyre.device_count(), os.environ.get('ZELLIGE_DEVICES'))"
    for given, count in [({"SPYRE_VISIBLE_DEVICES": "2"}, 1), ({"AIU_WORLD_SIZE": "3"}, 3), ({"AIU_WORLD_SIZE": "9"}, 4)]:
        environment = {**os.environ, "ZELLIGE_DEVICES": "4", **given}
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
        # What this process may start counts for itself.
        assert done.stdout.split() == [str(count), "4"], done.stdout + done.stderr


def contiguous(size, name="x"):
    """A FixedLayout of a size, and a read of it with a loop for every dimension that is longer than 1."""
    import sympy
    from torch._inductor.dependencies import MemoryDep
    from torch._inductor.ir import FixedLayout

    stride = [math.prod(size[d + 1 :]) for d in range(len(size))]
    loops = [(sympy.Symbol(f"d{d}", integer=True, nonnegative=True), n, s) for d, (n, s) in enumerate(zip(size, stride)) if n > 1]
    index = sum((v * s for v, _, s in loops), sympy.S.Zero)
    dep = MemoryDep(name, index, tuple(v for v, _, _ in loops), tuple(sympy.Integer(n) for _, n, _ in loops))
    return FixedLayout(torch.device("cpu"), torch.float16, list(size), stride), dep


def values_of(expression, loops):
    """An expression in loops as a function of their values, which knows nothing of how it was made."""
    import sympy
    from torch.utils._sympy.functions import FloorDiv

    plain = sympy.sympify(expression).replace(FloorDiv, lambda a, b: sympy.floor(a / b))
    return lambda at: int(plain.subs(dict(zip(loops, at))))


def test_coordinates_reach_the_element():
    import sympy
    from torch.utils._sympy.functions import FloorDiv, ModularIndexing
    from torch_spyre._inductor.views import compute_coordinates

    p, q, r = sympy.symbols("p q r", integer=True, nonnegative=True)
    cases = [
        # Host and device boxes, rows with padding behind them, offsets, remainders that Inductor writes.
        ([4, 6, 10], [60, 10, 1], {p: 24, q: 10}, 10 * p + q),
        ([6, 2, 4, 8], [16, 8, 96, 1], {p: 24, q: 16}, 16 * p + q),
        ([2, 5, 8], [8, 12, 1], {p: 3, q: 12}, 24 + 12 * p + q),
        ([4, 6, 10], [60, 10, 1], {p: 24, q: 10}, 10 * ModularIndexing(p, 1, 6) + q),
        ([4, 6, 10], [60, 10, 1], {p: 240}, 60 * ModularIndexing(p, 60, 4) + 10 * sympy.Mod(FloorDiv(p, 10), 6) + sympy.Mod(p, 10)),
        ([8, 128], [128, 1], {p: 8, q: 42}, 128 * p + 3 * q + 1),
        ([3, 1, 8], [8, -1, 1], {p: 3, q: 1, r: 8}, 8 * p + r),
    ]
    for size, stride, ranges, index in cases:
        coordinates = compute_coordinates(size, stride, ranges, index)
        loops = list(ranges)
        position, found = values_of(index.replace(ModularIndexing, lambda b, d, m: sympy.Mod(FloorDiv(b, d), m)), loops), [values_of(c, loops) for c in coordinates]
        for at in itertools.product(*(range(n) for n in ranges.values())):
            got = [c(at) for c in found]
            assert sum(c * s for c, s in zip(got, stride)) == position(at), (size, stride, index, at)
            assert all(0 <= c < n for c, n in zip(got, size)), (coordinates, at)
    assert compute_coordinates([4, 6], [6, 1], {p: 4, q: 6}, 6 * p + q) == [p, q]


def test_coordinates_that_do_not_exist_are_unsupported():
    import sympy
    from torch_spyre._inductor.errors import Unsupported
    from torch_spyre._inductor.views import compute_coordinates, matching_dim, tiling_expr_to_device_expr

    p, q, t = sympy.symbols("p q t", integer=True, nonnegative=True)
    refused = [(63 - p, "runs backwards along p"), (sympy.Rational(3, 2) * p, "a whole number"), (p**2, "sums of loops"), (2 * p + 1, "left over")]
    for index, why in refused:
        with pytest.raises(Unsupported, match=why):
            compute_coordinates([8, 8], [16, 2], {p: 64}, index)
    # A symbol without a range is ignored, or needs a size.
    assert compute_coordinates([8, 8], [8, 1], {p: 8}, 8 * t + p) == [0, p]
    assert compute_coordinates([8, 8], [8, 1], {p: 8}, 8 * t + p, {t: 8}) == [t, p]
    with pytest.raises(Unsupported, match="t has no range; the symbols with a range: p"):
        compute_coordinates([8, 8], [8, 1], {p: 8}, 8 * t + p, {})
    assert matching_dim([p, q], q) == 1 and matching_dim([p, q % 64], q % 32) == 1
    assert matching_dim([p, q % 32], q % 64) is None and matching_dim([q, q], q) is None and matching_dim([p, q], p + q) is None
    assert matching_dim([p + 3, q], p + 3) == 0 and matching_dim([p + 3, q], p) is None
    # A step of 64 rows of a tensor [128, 256] in sticks is 64 sticks of the first column.
    assert tiling_expr_to_device_expr([4, 128, 64], [64, 256, 1], 64 * 256 * t) == 64 * 64 * t
    assert tiling_expr_to_device_expr([4, 128, 64], [64, 256, 1], 128 * t + 256 * p) == 2 * 128 * 64 * t + 64 * p


def test_passes_ask_for_loops_and_layouts():
    import sympy
    from torch_spyre._inductor import pass_utils
    from zellige import SpyreTensorLayout

    host, dep = contiguous([128, 256])
    d0, d1 = dep.var_names
    rows, columns = (SpyreTensorLayout([128, 256], [256, 1], torch.float16, order) for order in ([0, 1], [1, 0]))
    assert pass_utils.host_coordinates(host, dep) == [d0, d1]
    assert pass_utils.device_coordinates(rows, dep) == [d1 // 64, d0, d1 % 64]
    assert pass_utils.device_coordinates(columns, dep, None) == [d0 // 64, d1, d0 % 64]
    assert pass_utils.try_device_coordinates(SpyreTensorLayout([8], torch.float16), contiguous([4, 3])[1], None) is not None
    assert [pass_utils.iter_var_id(e) for e in (d1 % 64, d0, sympy.S.Zero)] == [1, 0, -1]
    ic, idc = pass_utils.host_coordinates(host, dep), pass_utils.device_coordinates(rows, dep)
    target = pass_utils.compute_restickify_target_layout(rows, host, ic[0], ic, idc)
    assert (target.device_size, target.stride_map) == (columns.device_size, columns.stride_map)
    sparse = pass_utils.compute_restickify_target_layout(rows, host, sympy.S.Zero, ic, idc)
    assert sparse.is_sparse and math.prod(sparse.device_size) == 128 * 256 * 64
    assert pass_utils.compute_restickify_target_layout(rows, host, sympy.Integer(5), ic, idc) is None
    assert pass_utils.compute_restickify_needed(rows, host, dep, rows, dep) == (False, None)
    needed, layout = pass_utils.compute_restickify_needed(rows, host, dep, columns, dep)
    assert needed and layout.stride_map == columns.stride_map
    assert pass_utils.concretize_expr(sympy.Integer(7)) == 7 and pass_utils.concretize_index(d0 * 3 + d1, {d0, d1}) == d0 * 3 + d1
    k = sympy.Symbol("k")
    write, read = 64 * d0 + d1, 512 * d0 + k
    splits = {d0: 4, d1: 1, k: 2}
    stored = pass_utils.splits_by_index_coeff(splits, write, read)
    assert stored == ({64: 4}, {1: 2})
    assert pass_utils.apply_splits_from_index_coeff(stored, write, read, {d0: 8, d1: 64, k: 512}) == splits
    # Other names, and a loop that became trivial.
    x, y, z = sympy.symbols("x y z")
    assert pass_utils.apply_splits_from_index_coeff(stored, 64 * x + y, 512 * x + z, {x: 1, y: 64, z: 512}) == {x: 1, y: 1, z: 2}


def test_passes_read_a_graph_of_inductor():
    from torch._inductor.compile_fx import compile_fx
    from torch_spyre._inductor import pass_utils
    from torch_spyre._inductor.errors import Unsupported

    seen = []

    def look(nodes):
        for node in nodes:
            if hasattr(node.node, "data"):
                kind = type(node.node.data).__name__
                seen.append((kind, [int(n) for n in pass_utils.iteration_space(node).values()], [int(n) for n in pass_utils.iteration_space_from_op(node.node).values()]))
                with pytest.raises(RuntimeError, match="FixedTiledLayout is wanted"):
                    pass_utils.get_mem_deps(node)
        return nodes

    from torch._inductor import config

    with config.patch(_post_fusion_custom_pass=look, force_disable_caches=True):
        torch._dynamo.reset()
        torch.compile(lambda x: (x + 1).sum(1), backend=lambda gm, inputs: compile_fx(gm, inputs))(torch.ones(8, 32))
    # The scheduler joins loops, and leaves their product.
    assert [(kind, math.prod(loops), math.prod(before)) for kind, loops, before in seen] == [("Reduction", 256, 256)]
    with pytest.raises(Unsupported, match="loops of a int"):
        pass_utils._loops(3, None)


def kernel(specs, name="sdsc_fused_test_0"):
    from torch_spyre.execution.async_compile import SpyreAsyncCompile

    return SpyreAsyncCompile().sdsc(name, specs)


def operand(index, is_input, coordinates, layout, **more):
    """A tensor of a kernel in a layout."""
    from torch_spyre._inductor.op_spec import TensorArg

    return TensorArg(is_input, index, layout.device_dtype, layout.device_size, coordinates, {"hbm": None}, **more)


@pytest.fixture
def on_card():
    """Two tensors [128, 256] on the card, their layout, the loops over it and its coordinates."""
    import sympy

    generator = torch.Generator().manual_seed(5)
    a, b = (torch.randn(128, 256, generator=generator).half().to("spyre") for _ in range(2))
    c0, c1 = sympy.symbols("c0 c1", integer=True, nonnegative=True)
    return a, b, a.device_tensor_layout(), {c0: (sympy.Integer(128), 4), c1: (sympy.Integer(256), 1)}, [c1 // 64, c0, c1 % 64]


def test_a_kernel_of_records_runs_on_the_card(on_card):
    from torch_spyre._C import JobPlan
    from torch_spyre._inductor.op_spec import OpSpec

    a, b, layout, loops, at = on_card
    add = OpSpec("add", False, loops, [operand(0, True, at, layout), operand(1, True, at, layout), operand(2, False, at, layout)], {})
    runner = kernel([add])
    out = torch.zeros(128, 256).half().to("spyre")
    before = torch.spyre.memory_allocated()
    for x, y in ((a, b), (b, b)):
        version = out._version
        assert runner.run(x, y, out) is None
        assert torch.equal(out.cpu(), (x + y).cpu()) and out._version > version
    assert torch.spyre.memory_allocated() == before
    assert isinstance(runner.jobplan, JobPlan) and runner.jobplan.num_steps() == 1 and runner.jobplan.get_step_type(0) == "Compute"
    # The slices of the record are those of the program, and the folder has what the emitter writes.
    report = json.loads((pathlib.Path(runner.code_dir) / "report.json").read_text())
    assert [s["dims"][0]["slices"] if "slices" in s["dims"][0] else s["cores"] for s in report["steps"] if not s["load"]] == [4]
    assert (pathlib.Path(runner.code_dir) / "superdsc" / "bundle_0" / "bundle.mlir").exists()
    # A pickle has the folder alone, and is prepared anew.
    again = pickle.loads(pickle.dumps(runner))
    assert again._jobplan is None
    again.run(a, b, out)
    assert torch.equal(out.cpu(), (a + b).cpu())
    # What does not fit is named.
    for wrong, why in [((a, b), "2 tensors: the kernel takes 3"), ((a, b, out.t().contiguous()), "device dimensions are"), ((a, b, out.cpu()), "one card"), ((a, b, out.bool()), "float16, not of torch.bool")]:
        with pytest.raises(RuntimeError, match=why):
            runner.run(*wrong)


def test_kernels_of_several_operations(on_card):
    import sympy
    from torch_spyre._inductor.op_spec import OpSpec

    a, b, layout, loops, at = on_card
    (c0, c1), zero = loops, sympy.S.Zero
    inside = dict(name="buf0")
    mul = OpSpec("mul", False, loops, [operand(0, True, at, layout), operand(1, True, at, layout), operand(-1, False, at, layout, **inside)], {})
    want = (a * b).sum(1)
    total = OpSpec("sum", True, loops, [operand(-1, True, at, layout, **inside), operand(2, False, [zero, c0, zero], want.device_tensor_layout())], {})
    out = torch.zeros(128).half().to("spyre", device_layout=want.device_tensor_layout())
    kernel([mul, total]).run(a, b, out)
    assert torch.equal(out.cpu(), want.cpu())
    # Rows times a vector that has one loop, in place; and a constant of the function.
    v = torch.randn(256).half().to("spyre")
    scaled = OpSpec("mul", False, loops, [operand(0, True, at, layout), operand(1, True, [c1 // 64, c1 % 64], v.device_tensor_layout()), operand(0, False, at, layout)], {})
    x, want = a.clone(), (a * v).cpu()
    kernel([scaled]).run(x, v)
    assert torch.equal(x.cpu(), want)
    clip = OpSpec("clip", False, loops, [operand(0, True, at, layout), operand(1, False, at, layout)], {"constants": {"clipMin": -0.5, "clipMax": 0.25}})
    kernel([clip]).run(a, x)
    assert torch.equal(x.cpu(), a.cpu().clamp(-0.5, 0.25))
    above = OpSpec("greaterthan", False, loops, [operand(0, True, at, layout), operand(1, True, at, layout), operand(2, False, at, layout)], {})
    kernel([above]).run(a, b, x)
    assert torch.equal(x.cpu(), (a.cpu() > b.cpu()).half())


def test_kernels_that_move_and_multiply(on_card):
    import sympy
    from torch_spyre._inductor.op_spec import OpSpec

    a, _, layout, loops, at = on_card
    c0, c1 = loops
    turned = torch.zeros(128, 256).half().to("spyre", device_layout=torch.spyre.SpyreTensorLayout([128, 256], torch.float16, [1, 0]))
    move = OpSpec("ReStickifyOpHBM", False, loops, [operand(0, True, at, layout), operand(1, False, [c0 // 64, c1, c0 % 64], turned.device_tensor_layout())], {})
    kernel([move]).run(a, turned)
    assert torch.equal(turned.cpu(), a.cpu())
    # Rows 32 to 96 of a tensor.
    part = torch.zeros(64, 256).half().to("spyre")
    slice_ = {c0: (sympy.Integer(64), 1), c1: (sympy.Integer(256), 1)}
    kernel([OpSpec("exp", False, slice_, [operand(0, True, [c1 // 64, c0 + 32, c1 % 64], layout), operand(1, False, at, part.device_tensor_layout())], {})]).run(a, part)
    assert torch.equal(part.cpu(), a[32:96].exp().cpu())
    # The same memory as a tensor of three dimensions.
    flat = torch.zeros(2, 64, 256).half().to("spyre", device_layout=torch.spyre.SpyreTensorLayout(layout.device_size[:1] + [2, 64, 64], [64, 64 * 256, 256, 1], layout.device_dtype))
    kernel([OpSpec("neg", False, loops, [operand(0, True, at, layout), operand(1, False, at, layout)], {})]).run(a, flat)
    assert torch.equal(flat.cpu().view(128, 256), -a.cpu())
    m, n, k, z = sympy.symbols("m n k z", integer=True, nonnegative=True)
    w, out = torch.randn(256, 512).half().to("spyre"), torch.zeros(128, 512).half().to("spyre")
    space = {m: (sympy.Integer(128), 8), n: (sympy.Integer(512), 2), k: (sympy.Integer(256), 1)}
    product = OpSpec("batchmatmul", True, space, [operand(0, True, [k // 64, m, k % 64], layout), operand(1, True, [n // 64, k, n % 64], w.device_tensor_layout()), operand(2, False, [n // 64, m, n % 64], out.device_tensor_layout())], {})
    kernel([product]).run(a, w, out)
    assert torch.equal(out.cpu(), (a @ w).cpu())
    # Batches, which the default layout has inside of the rows.
    x, y = torch.randn(3, 64, 128).half().to("spyre"), torch.randn(3, 128, 64).half().to("spyre")
    out = torch.zeros(3, 64, 64).half().to("spyre")
    places = lambda t, rows, columns: operand(*t[:2], [rows, columns // 64, z, columns % 64], t[2])
    space = {z: (sympy.Integer(3), 1), m: (sympy.Integer(64), 1), n: (sympy.Integer(64), 1), k: (sympy.Integer(128), 1)}
    assert x.device_tensor_layout().stride_map == [128, 64, 64 * 128, 1]
    batched = OpSpec("batchmatmul", True, space, [places((0, True, x.device_tensor_layout()), m, k), operand(1, True, [k, sympy.S.Zero, z, n], y.device_tensor_layout()), operand(2, False, [m, sympy.S.Zero, z, n], out.device_tensor_layout())], {})
    kernel([batched]).run(x, y, out)
    assert torch.equal(out.cpu(), (x @ y).cpu())


def test_kernels_that_the_card_does_not_run(on_card):
    import sympy
    from torch_spyre._inductor.errors import Unsupported
    from torch_spyre._inductor.op_spec import IndirectAccess, LoopSpec, OpSpec, UnimplementedOp
    from torch_spyre.execution.async_compile import SpyreAsyncCompile

    a, b, layout, loops, at = on_card
    neg = OpSpec("neg", False, loops, [operand(0, True, at, layout), operand(1, False, at, layout)], {})
    runner = kernel([neg, LoopSpec(2, [UnimplementedOp("sinh")])])
    with pytest.raises(RuntimeError, match="sdsc_fused_test_0 has the unimplemented operation sinh"):
        runner.run(a)
    c0, c1 = loops
    swapped = [c1 // 64, c0, (c1 + 1) % 64]
    cases = [
        ([LoopSpec(4, [neg])], "a counted loop"),
        ([OpSpec("conv2d", False, loops, neg.args, {})], "accepted are .*batchmatmul"),
        ([OpSpec("neg", False, loops, [operand(0, True, [IndirectAccess(sympy.Symbol("i")), c0, c1], layout), neg.args[1]], {})], "read from another tensor"),
        ([OpSpec("neg", False, loops, [operand(0, True, swapped, layout), neg.args[1]], {})], "coordinate"),
        ([OpSpec("neg", False, loops, neg.args[:1], {})], "0 results: one is accepted"),
        ([OpSpec("neg", False, loops, [operand(-1, True, at, layout, name="t"), neg.args[1]], {})], "t is read before it is written"),
        ([OpSpec("neg", False, loops, [neg.args[0], operand(3, False, at, layout)], {})], "numbered from 0"),
        ([OpSpec("neg", False, {c0: (sympy.Symbol("s"), 1), c1: (256, 1)}, neg.args, {})], "the range of c0 is s"),
        ([OpSpec("neg", False, loops, [neg.args[0], operand(1, False, [c1 // 64, c0], layout)], {})], "2 coordinates for the device dimensions"),
    ]
    for specs, why in cases:
        with pytest.raises(Unsupported, match=why):
            kernel(specs)
    for refused in (SpyreAsyncCompile().triton, SpyreAsyncCompile().cpp):
        with pytest.raises(Unsupported, match="cpp_pybinding"):
            refused("source")


def test_programs_and_emitted_folders_are_prepared_once(tmp_path):
    from torch_spyre import _C

    x, w = torch.randn(64, 128).half().to("spyre"), torch.randn(128, 256).half().to("spyre")
    with torch.no_grad():
        want = torch.compile(lambda x, w: (x @ w).relu(), backend="spyre")(x, w)
    report = torch.spyre.last_report()
    (folder,) = report.emit(tmp_path)
    for source in (report.programs[0], folder, str(folder)):
        plan = _C.prepare_kernel(source)
        (made,) = _C.launch_jobplan(plan, [x, w])
        assert torch.equal(made.cpu(), want.cpu())
        out = torch.zeros_like(want)
        assert _C.launch_jobplan(plan, [x, w, out]) is None and torch.equal(out.cpu(), want.cpu())
        assert plan.num_steps() == len([s for s in report.programs[0].report()["steps"] if not s["load"]])
        assert [plan.get_step_pipeline_barrier(i) for i in range(plan.num_steps())] == [True] * plan.num_steps()
    with pytest.raises(RuntimeError, match="1 tensors: the kernel takes 2"):
        _C.launch_jobplan(plan, [x])
    with pytest.raises(RuntimeError, match="has the size"):
        _C.launch_jobplan(plan, [w, x])
    with pytest.raises(RuntimeError, match="Step index out of range"):
        plan.get_step_type(999)
    # Symbols say in which order the tensors come.
    address, size = _C.SymbolicArgKind.kAddress, _C.SymbolicArgKind.kDimension
    order = [_C.SymbolicArg(kind=address, tensor_id=1), _C.SymbolicArg(kind=address, tensor_id=0)]
    (made,) = _C.launch_jobplan(plan, [w, x], symbolic_args=order)
    assert torch.equal(made.cpu(), want.cpu())
    assert _C._resolve_symbolic_args([w, x], [*order, _C.SymbolicArg(size, 0, 1)]) == [x.data_ptr(), w.data_ptr(), 256]
    for symbol, why in [(_C.SymbolicArg(address, 5), "tensor_id=5 out of range"), (_C.SymbolicArg(size, 0, 4), "dim_index=4"), (_C.SymbolicArg(size, 0, 1, 3), "256, not 3")]:
        with pytest.raises(RuntimeError, match=why):
            _C.launch_jobplan(plan, [w, x], [symbol])


def test_weights_are_read_as_they_are_at_a_launch():
    from torch_spyre import _C

    x = torch.randn(16, 64).half().to("spyre")
    layer = torch.nn.Linear(64, 128).half().to("spyre")
    with torch.no_grad():
        torch.compile(layer, backend="spyre")(x)
    program = torch.spyre.last_report().programs[0]
    inputs = json.loads(program.graph())["inputs"]
    given = {tuple(t.shape): t for t in (x, *layer.parameters())}
    plan = _C.prepare_kernel(program)
    tensors = [given[tuple(i["size"])] for i in inputs]
    for _ in range(2):
        with torch.no_grad():
            want = layer(x)
            (made,) = _C.launch_jobplan(plan, tensors)
            assert torch.equal(made.cpu(), want.cpu())
            layer.weight.mul_(-2)


HOST_STEP = {"ohandle": "out", "size": "1024", "ishape": ["64", "16"], "ihandle": "", "hcm": {"vdci": {}, "senConstants": []}}


def write_machine_code(folder, *steps, size="1024"):
    """A folder as torch-spyre's backend compiler writes them."""
    plan = {
        "JobPreparationPlan": [{"command": "Allocate", "properties": {"size": size}}],
        "JobExecPlan": [{"command": command, "properties": properties} for command, properties in steps],
    }
    folder.mkdir(exist_ok=True)
    (folder / "spyrecode.json").write_text(json.dumps(plan))
    return folder


def test_machine_code_is_listed_and_does_not_run(tmp_path):
    from torch_spyre import _C
    from zellige import DeviceError

    copy = {"dirn": "false", "host_handle": "out", "dev_ptr": "120259084288", "size": "1024"}
    steps = [("ComputeOnHost", HOST_STEP), ("DataTransfer", copy), ("ComputeOnDevice", {"job_bin_ptr": "120259084288"}), ("DataTransfer", {**copy, "dirn": "true"})]
    plan = _C.prepare_kernel(write_machine_code(tmp_path / "code", *steps))
    assert [plan.get_step_type(i) for i in range(plan.num_steps())] == ["HostCompute", "H2D", "Compute", "D2H"]
    assert plan.job_allocation_size() == 1024 and isinstance(plan, _C.JobPlan)
    with pytest.raises(DeviceError, match="does not run; accepted is a folder of `SpyreAsyncCompile.sdsc`"):
        _C.launch_jobplan(plan, [])
    with pytest.raises(RuntimeError, match="does not exist: /nowhere"):
        _C.prepare_kernel("/nowhere")
    with pytest.raises(RuntimeError, match="spyrecode.json not found in .*, nor graph.json"):
        _C.prepare_kernel(tmp_path)


@pytest.mark.parametrize(
    "step, why",
    [
        *((("ComputeOnHost", {k: v for k, v in HOST_STEP.items() if k != name}), f"missing '{name}' property") for name in HOST_STEP),
        (("ComputeOnHost", {**HOST_STEP, "ishape": "64"}), "must be an array"),
        (("ComputeOnHost", {**HOST_STEP, "ishape": [64]}), "must be strings"),
        (("ComputeOnHost", {**HOST_STEP, "ihandle": "other"}), "'other' not found"),
        (("ComputeOnHost", {**HOST_STEP, "hcm": "text"}), "'hcm' is an object"),
        (("DataTransfer", {"dirn": "up", "dev_ptr": "0", "size": "1"}), "'dirn' is 'up'"),
        (("DataTransfer", {"dirn": "true", "dev_ptr": "0", "size": "1"}), "program segment"),
        (("DataTransfer", {"dirn": "false", "dev_ptr": "0", "size": "1e3"}), "decimal digits"),
        (("Reboot", {}), "the command 'Reboot'"),
    ],
)
def test_machine_code_is_checked(tmp_path, monkeypatch, step, why):
    from torch_spyre import _C

    monkeypatch.delenv("BUNDLE_SYMBOLIC_ARGS", raising=False)
    with pytest.raises(RuntimeError, match=why):
        _C.prepare_kernel(write_machine_code(tmp_path, step))
    with pytest.raises(RuntimeError, match="negative value not allowed"):
        _C.prepare_kernel(write_machine_code(tmp_path, size=" -5"))
    (tmp_path / "spyrecode.json").write_text("[]")
    with pytest.raises(RuntimeError, match="no list JobPreparationPlan"):
        _C.prepare_kernel(tmp_path)


def test_records_describe_operations():
    import sympy
    from torch_spyre._inductor import op_spec
    from torch_spyre._inductor.op_spec import DebugHandle, IndirectAccess, LoopSpec, OpSpec, ProvenanceTransform, SourceLoc, TensorArg, TensorWorkDivision, UnimplementedOp
    from zellige import DataFormats, ElementArrangement

    c0, core = sympy.symbols("c0 core_id")
    fields = dict(arg_index=0, device_dtype=DataFormats.SEN169_FP16, device_size=[128, 64], device_coordinates=[c0, 0], allocation={"lx": 0})
    source, target = TensorArg(is_input=True, **fields), TensorArg(is_input=False, **fields)
    assert source.element_arrangement == ElementArrangement.STANDARD and source.work_division is None
    spec = OpSpec("identity", False, {c0: (sympy.Integer(128), 4)}, [source, target], {})
    assert not op_spec.is_lx_relayout_identity("identity", spec.args)
    source.work_division = TensorWorkDivision({c0: 4}, {c0: core % 4})
    target.work_division = TensorWorkDivision({c0: 2}, {c0: sympy.floor(core / 4)})
    assert op_spec.is_lx_relayout_identity("identity", spec.args) and not op_spec.is_lx_relayout_identity("add", spec.args)
    assert source.work_division.to_core_slices(8) == {str(c): {"c0": c % 4} for c in range(8)}
    d = sympy.Symbol("d")
    assert source.work_division.remap_symbols({c0: d}) == TensorWorkDivision({d: 4}, {d: core % 4})
    with pytest.raises(ValueError, match="core 8 would have slice 2 of c0, which has 2 slices"):
        target.work_division.to_core_slices(9)
    loop = LoopSpec(2, [spec, LoopSpec(3, [UnimplementedOp("sinh")])])
    assert op_spec.find_unimplemented([spec, loop]) == UnimplementedOp("sinh") and op_spec.find_unimplemented([spec]) is None
    text = op_spec.format_op_spec_list([loop])
    assert [line.split("(")[0] for line in text.splitlines()] == ["LoopSpec", "  OpSpec", "    TensorArg", "    TensorArg", "  LoopSpec", "    UnimplementedOp", "  ]", "]"]
    assert "c0: (128, 4)" in text
    at = SourceLoc("model.py", 3, 1)
    handle = DebugHandle(2**62, at, "aten.add", ("buf0",), (), (ProvenanceTransform("fusion", "fuse"),))
    assert json.loads(json.dumps(handle.to_dict())) == handle.to_dict() and handle.to_dict()["id"] == str(2**62) and at.to_str() == "model.py:3:1"
    index = IndirectAccess(sympy.Symbol("rows"))
    assert (128 * index + c0).atoms(IndirectAccess) == {index} and index != IndirectAccess(sympy.Symbol("columns"))


def test_constants_are_made_once():
    from torch_spyre._inductor.op_spec import clear_constant_tensor_cache, spyre_constant_tensor

    one = spyre_constant_tensor(1.5, "spyre")
    assert one.shape == () and one.item() == 1.5 and one.dtype == torch.float16
    assert spyre_constant_tensor(1.5, torch.device("spyre", 0)) is one
    assert spyre_constant_tensor(1.5, "spyre", torch.float32) is not one
    zero, negative = (spyre_constant_tensor(z, "spyre", torch.float32).cpu() for z in (0.0, -0.0))
    assert not torch.signbit(zero) and torch.signbit(negative)
    clear_constant_tensor_cache()
    assert spyre_constant_tensor(1.5, "spyre") is not one
    assert spyre_constant_tensor(2, "cpu").device.type == "cpu"
