"""Names of torch-spyre's own tests and documents, with what they do."""

import logging
import os
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
