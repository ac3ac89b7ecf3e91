"""Tile kernels from Python."""

import signal
import threading
import time

import numpy as np
import pytest
import zellige
from zellige import ktir

ROWS = """module {
  func.func @scale(%x: index, %y: index, %rows: index, %factor: f16) attributes {grid = [4]} {
    %pid = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %xv = ktdp.construct_memory_view %x, sizes: [16, 64], strides: [64, 1] : memref<16x64xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [16, 64], strides: [64, 1] : memref<16x64xf16>
    %f = tensor.splat %factor : tensor<1x64xf16>
    scf.for %row = %pid to %rows step %c4 {
      %xt = ktdp.construct_access_tile %xv[%row, %c0] : memref<16x64xf16> -> !ktdp.access_tile<1x64xindex>
      %yt = ktdp.construct_access_tile %yv[%row, %c0] : memref<16x64xf16> -> !ktdp.access_tile<1x64xindex>
      %a = ktdp.load %xt : !ktdp.access_tile<1x64xindex> -> tensor<1x64xf16>
      %b = arith.mulf %a, %f : tensor<1x64xf16>
      ktdp.store %b, %yt : tensor<1x64xf16>, !ktdp.access_tile<1x64xindex>
    }
    return
  }
}
"""


def make_rows():
    rng = np.random.default_rng(1)
    return rng.standard_normal((16, 64)).astype(np.float16)


def test_a_kernel_is_called_with_arrays_by_name(tmp_path):
    path = tmp_path / "scale.mlir"
    path.write_text(ROWS)
    module = ktir.load(path)
    assert module.kernels() == ["scale"] and module.grid("scale") == (4,)
    assert module.arguments("scale") == ["x", "y", "rows", "factor"]
    assert module.sizes("scale") == {n: {"shape": (16, 64), "dtype": "f16"} for n in "xy"}
    x = make_rows()
    kernel = module["scale"]
    out = kernel(x=x, y=np.zeros_like(x), rows=16, factor=3.0)
    np.testing.assert_array_equal(out["y"], x * np.float16(3))
    np.testing.assert_array_equal(out["x"], x)
    # 4 rows on each core: a load and a store of one stick, of memory that four cores share, and 64 products.
    assert kernel.report.kernel_cycles == 4 * (2 * 128 * 4 / 128 + 1)
    assert kernel.report.by_category()["compute_float"] == 16
    assert "scale" in str(kernel.report) and kernel.report.bottleneck == "memory"


def test_refusals_name_what_is_wrong():
    module = ktir.load(ROWS)
    with pytest.raises(KeyError, match="there are scale"):
        module["other"]
    with pytest.raises(TypeError, match="`y` is missing"):
        module["scale"](x=make_rows(), rows=16, factor=1.0)
    with pytest.raises(TypeError, match="not of complex64"):
        module["scale"](x=np.zeros(4, np.complex64))
    with pytest.raises(zellige.DeviceError, match="line 1[0-9]"):
        module["scale"](x=make_rows(), y=make_rows(), rows=17, factor=1.0)
    with pytest.raises(ValueError, match="arith.mulf"):
        ktir.load(ROWS.replace("mulf", "mulff"))
    with pytest.raises(ValueError, match="overlapped_3way"):
        module.run("scale", model=ktir.ExecutionModel("none"), x=make_rows())


def test_the_interface_of_ktir_cpu():
    x = make_rows()
    interpreter = ktir.KTIRInterpreter(latency_config=ktir.HardwareConfig(transcendental_penalty=8))
    with pytest.raises(RuntimeError):
        interpreter.arg_names("scale")
    interpreter.load(ROWS)
    assert interpreter.arg_names("scale") == ["x", "y", "rows", "factor"]
    assert interpreter.tensor_input_output_sizes("scale")["x"]["shape"] == (16, 64)
    # Arguments that the kernel does not declare are ignored, as there.
    out = interpreter.execute_function("scale", x=x, y=x, rows=16, factor=2.0, unknown=3)
    np.testing.assert_array_equal(out["y"], x * np.float16(2))
    report = interpreter.get_latency_report()
    assert report.summary_dict()["grid_cores"] == 4 and report.kernel_cycles == 36
    slow = ktir.KTIRInterpreter(latency_config=ktir.HardwareConfig(hbm_bandwidth_tb_s=0.064))
    slow.load(ROWS)
    slow.execute_function("scale", x=x, y=x, rows=16, factor=2.0)
    assert slow.get_latency_report().kernel_cycles == 4 * (2 * 8 + 1)
    assert ktir.KTIRInterpreter().get_latency_report() is None


def test_torch_tensors_come_back_as_tensors():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(make_rows())
    out = ktir.load(ROWS)["scale"](x=x, y=torch.zeros_like(x), rows=16, factor=3.0)
    assert torch.equal(out["y"], x * 3)


def test_ctrl_c_ends_a_kernel():
    # Elements that differ: tiles of equal ones are computed once, and the budget of steps would end first.
    forever = """func.func @forever(%x: index, %n: index) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %v = ktdp.construct_memory_view %x, sizes: [64, 1024], strides: [1024, 1] : memref<64x1024xf16>
      %t = ktdp.construct_access_tile %v[%c0, %c0] : memref<64x1024xf16> -> !ktdp.access_tile<64x1024xindex>
      %a = ktdp.load %t : !ktdp.access_tile<64x1024xindex> -> tensor<64x1024xf16>
      scf.for %i = %c0 to %n step %c1 {
        %b = math.exp %a : tensor<64x1024xf16>
        %c = math.exp %b : tensor<64x1024xf16>
      }
      return
    }"""
    kernel = ktir.load(forever)["forever"]
    x = (np.arange(64 * 1024) % 2048).reshape(64, 1024).astype(np.float16)
    threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        kernel(x=x, n=1 << 40)
    assert time.monotonic() - begin < 30
