"""Moves on a GPU, as far as a machine without one can tell: kernels compile, what is missing is said, PyTorch
compiles the operator. `bench/gpu.py` is the test on a machine with a GPU."""

import ctypes

import numpy as np
import pytest
import zellige
from zellige import Layout, LayoutError, SpyreTensorLayout, _native, relayout


def has_device():
    try:
        _native.cuda_device(0)
    except RuntimeError:
        return False
    return True


@pytest.fixture
def nvrtc():
    try:
        _native.cuda_compile('extern "C" __global__ void nothing() {}', 90)
    except RuntimeError as error:
        pytest.skip(f"NVRTC is not installed: {error}")


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("index", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


class OnTheGpu:
    """An array that says it lies on a CUDA device, at an address where nothing is."""

    def __init__(self, shape, address=1 << 40):
        self.sizes = (ctypes.c_int64 * len(shape))(*shape)
        self.tensor = DLTensor(address, 2, 0, len(shape), 2, 32, 1, self.sizes, None, 0, None, None)
        self.streams = []

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


def test_what_is_missing_is_one_sentence():
    x, out = OnTheGpu([4, 6]), OnTheGpu([6, 4], 1 << 41)
    missing = "at the address of the|no CUDA device" if has_device() else "NVIDIA's driver|no CUDA device"
    with pytest.raises((RuntimeError, ValueError), match=missing) as raised:
        relayout(x, None, "S[(4,6):(1,4)]", out)
    assert "\n" not in str(raised.value)
    assert x.streams == [1], "libraries without streams meet on the default one"


def test_arrays_on_a_gpu_are_refused_as_on_the_cpu():
    x = OnTheGpu([4, 6])
    with pytest.raises(ValueError, match="the array is on cuda:0 and `out` on the CPU; a move stays in one memory"):
        relayout(x, out=np.zeros((4, 6), "float32"))
    with pytest.raises(ValueError, match="the array is on the CPU and `out` on cuda:0"):
        relayout(np.zeros((4, 6), "float32"), out=x)
    with pytest.raises(TypeError, match="give `out`"):
        relayout(x)
    with pytest.raises(ValueError, match="no memory"):
        relayout(OnTheGpu([4, 6], None))
    with pytest.raises(ValueError, match="keeps the elements"):
        relayout(x, None, "S[(4,5):(5,1)]", OnTheGpu([20]))
    with pytest.raises(ValueError, match="nothing to keep"):
        relayout(x, fill="leave")
    with pytest.raises(ValueError, match="unknown fill"):
        relayout(x, fill="nothing")


MOVES = [
    ("S[(64,128):(128,1)]", "S[(64,128):(1,64)]", [64, 128], "float16", None, None),
    ("S[(63,127):(127,1)]", "S[(63,127):(1,63)]", [63, 127], "int8", None, None),
    ("S[(8,6,10):(60,10,1)]", "S[(8,6,10):(1,88,8)] + 3", [8, 6, 10], "complex128", None, "zero"),
    ("S[(8,64):(64,1)]", "Swizzle(3,3,3) o S[(8,64):(64,1)]", [8, 64], "float16", None, None),
    ("S[(5,100):(100,1)]", "S[(5,2,64):(64,320,1)] valid[5,100/128]", [5, 100], "float32", "float16", "max"),
    ("S[(4,6):(6,1)]", "S[(4,6):(6,1)] + R[2:24]", [4, 6], "float64", None, None),
]


@pytest.mark.parametrize("src, dst, shape, dtype, to, fill", MOVES)
@pytest.mark.parametrize("alignment", [(16, 16), (2, 4)])
def test_kernels_compile(nvrtc, src, dst, shape, dtype, to, fill, alignment):
    programs = _native.cuda_program(src, dst, shape, dtype, to, fill=fill, alignment=alignment)
    assert programs and all(launches for _, launches in programs)
    for source, launches in programs:
        image, _ = _native.cuda_compile(source, 90)
        assert image[:4] == b"\x7fELF"
        for name, grid, block, shared in launches:
            assert f"void {name}(" in source or name in source
            assert 0 < grid < 1 << 31 and 0 < block <= 1024 and 0 <= shared <= 227 << 10


def test_a_kernel_is_compiled_once(nvrtc, tmp_path):
    import subprocess
    import sys

    program = (
        "from zellige import _native\n"
        "for _ in range(2): print(_native.cuda_compile('extern \"C\" __global__ void f(int* p) { *p = 7; }', 90)[1])"
    )
    env = {**__import__("os").environ, "ZELLIGE_CACHE": str(tmp_path / "cache")}
    runs = [subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]
    assert runs == [["False", "True"], ["True", "True"]]
    assert [p.suffix for p in (tmp_path / "cache").iterdir()] == [".cubin"]


def test_refusals_are_those_of_the_cpu():
    with pytest.raises(LayoutError, match="share|alias|place"):
        _native.cuda_program("S[(4,6):(6,1)]", "S[(4,6):(1,1)]", [4, 6], "int8")
    with pytest.raises(LayoutError, match="complex64"):
        _native.cuda_program("S[(4,6):(6,1)]", "S[(4,6):(6,1)]", [4, 6], "complex64", "float32")
    with pytest.raises(LayoutError, match="accepted are 1, 2, 4, 8 and 16"):
        _native.cuda_program("S[4:1]", "S[4:1]", [4], "int8", alignment=(3, 16))


def test_the_shape_of_a_new_result():
    for shape, src, dst in [
        ((6, 10), None, None),
        ((6, 10), None, "S[(6,10):(1,6)]"),
        ((6, 10), None, "S[(6,10):(10,1)]"),
        ((3, 100), None, SpyreTensorLayout([3, 100], "float16")),
        ((60,), "S[(6,10):(1,6)]", Layout.strided([6, 10])),
        ((4, 5), None, "S[(4,5):(8,1)] + 3"),
    ]:
        a = np.zeros(shape, "float16")
        assert tuple(_native.relayout_shape(list(shape), src, dst)) == relayout(a, src, dst).shape


def test_a_storage_that_was_freed_is_refused():
    torch = pytest.importorskip("torch")
    x = torch.zeros(4, 4)
    x.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="no memory"):
        relayout(x)
    with pytest.raises(ValueError, match="no memory"):
        relayout(torch.zeros(4, 4), out=x)


LAYOUTS = [None, "S[(6,64):(1,6)]", Layout("S[(6,64):(1,6)]"), SpyreTensorLayout([6, 64], "float16")]


@pytest.mark.parametrize("dst", LAYOUTS, ids=["own", "text", "layout", "sticks"])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_functions_keep_the_move(dst, backend):
    torch = pytest.importorskip("torch")
    if backend == "inductor" and not __import__("shutil").which("g++"):
        pytest.skip("PyTorch's compiler needs g++")
    torch._dynamo.reset()

    def function(x, fill):
        return relayout(x + 1, None, dst, fill=fill) * 2

    compiled = torch.compile(function, fullgraph=True, backend=backend)
    for _ in range(2):
        x = torch.randn(6, 64).to(torch.float16)
        assert torch.equal(compiled(x, 3), function(x, 3))


def test_compiled_functions_write_out():
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()

    def function(x, out):
        relayout(x + 1, out=out)
        return out * 2

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    x = torch.randn(5, 7)
    outs = [torch.zeros(7, 5, dtype=torch.float64).t() for _ in range(2)]
    assert torch.equal(compiled(x, outs[0]), function(x, outs[1])) and torch.equal(*outs)


def test_another_layout_is_another_graph():
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, l: relayout(x, None, l), fullgraph=True, backend="aot_eager")
    x = torch.arange(24.0).reshape(4, 6)
    for text in ("S[(4,6):(1,4)]", "S[(4,6):(6,1)] + 1", "S[(4,6):(1,4)]"):
        assert torch.equal(compiled(x, Layout(text)), relayout(x, None, text))


def test_a_layout_as_a_text_is_the_same_layout():
    for layout, shape in [
        (Layout("S[(4,6):(1,4)]"), [4, 6]),
        (Layout("(4,6):(6,1)", notation="cute"), [4, 6]),
        (Layout("S[(5,2,64):(64,320,1)] valid[5,100/128]"), [5, 100]),
        (Layout("{0,1:T(8,128)}", [16, 256]), [16, 256]),
        (Layout.strided([3, 4], [1, 3], 2), [3, 4]),
        (SpyreTensorLayout([3, 100], "float16"), [3, 100]),
    ]:
        a = np.arange(np.prod(shape)).reshape(shape).astype("float16")
        assert np.array_equal(relayout(a, None, layout._whole), relayout(a, None, layout))


def test_the_operator_is_as_pytorch_wants_it():
    torch = pytest.importorskip("torch")
    from zellige import _torch_op  # noqa: F401 - registers it

    torch.library.opcheck(torch.ops.zellige.relayout.default, (torch.randn(6, 10), None, "S[(6,10):(1,6)]", None, "zero"))
    out = torch.zeros(10, 6).t()
    torch.library.opcheck(torch.ops.zellige.relayout_out.default, (torch.randn(6, 10), None, None, out, 2, None))


def test_doc_is_that_of_the_engine():
    assert "CUDA device" in zellige.relayout.__doc__
