"""Moves of host arrays: the same elements in other places, without a copy on the way."""

import os
import threading

import numpy as np
import pytest
from zellige import Layout, LayoutError, SpyreTensorLayout, relayout

DTYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]


def array(shape, dtype="float32"):
    return (np.arange(np.prod(shape)) % 100).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_moves(dtype):
    a = array((6, 10), dtype)
    assert np.array_equal(relayout(a, None, "S[(6,10):(1,6)]").reshape(10, 6), a.T)


def test_own_strides_of_the_source_count():
    a = array((8, 12))
    for view in (a.T, a[::2], a[:, 3:9], a[::-1, ::-2], np.broadcast_to(a[:1], (8, 12)), a[2:2]):
        assert np.array_equal(relayout(view), view)


def test_own_strides_of_the_destination_count():
    a = array((6, 10))
    base = np.zeros((20, 12), "float32")
    for out in (base[:6, :10], base[:12:2, 2:], base.T[1:7, 5:15], base[:6, 9::-1]):
        base[:] = -1
        assert relayout(a, out=out) is out
        assert np.array_equal(out, a) and (base == -1).sum() == base.size - 60


def test_dtypes_convert_into_out():
    a = array((6, 10), "float32") / 8
    for dtype in ("float16", "float64", "int32"):
        out = np.empty((6, 10), dtype)
        relayout(a, out=out)
        assert np.array_equal(out, a.astype(dtype))


def test_device_layouts_pad_and_return():
    a = array((3, 100), "float16")
    stick = SpyreTensorLayout([3, 100], "float16")
    b = relayout(a, None, stick)
    assert b.shape == (2, 3, 64)
    assert np.array_equal(b[0], a[:, :64]) and np.array_equal(b[1, :, :36], a[:, 64:]) and not b[1, :, 36:].any()
    assert np.isneginf(relayout(a, None, stick, fill="max")[1, :, 36:]).all()
    assert (relayout(a, None, stick, fill=7)[1, :, 36:] == 7).all()
    back = relayout(b, stick, Layout.strided([3, 100]))
    assert back.shape == (3, 100) and np.array_equal(back, a)


def test_swizzles():
    l = Layout("Swizzle(3,3,3) o S[(8,64):(64,1)]")
    a = array((8, 64), "int32")
    b = relayout(a, None, l)
    for i in range(8):
        for j in range(0, 64, 7):
            assert b[l.apply(i, j)[0]["m"]] == a[i, j]


def test_large_moves_in_threads_release_the_lock():
    a = np.arange(1 << 22, dtype=np.float32).reshape(2048, 2048)
    want = np.ascontiguousarray(a.T)
    results = [None] * 4
    def work(i):
        results[i] = relayout(a, None, "S[(2048,2048):(1,2048)]").reshape(2048, 2048)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert all(np.array_equal(r, want) for r in results)


def test_a_forked_process_has_threads_of_its_own():
    a = array((1024, 1024))
    want = a.T.ravel()
    move = lambda: np.array_equal(relayout(a, None, "S[(1024,1024):(1,1024)]"), want)
    stop = threading.Event()
    def keep_moving():
        while not stop.is_set():
            move()
    # Others are in the middle of a move when the process is forked.
    others = [threading.Thread(target=keep_moving) for _ in range(2)]
    [t.start() for t in others]
    try:
        for _ in range(5):
            assert move()
            child = os.fork()
            if child == 0:
                os._exit(0 if all(move() for _ in range(3)) else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        [t.join() for t in others]


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    a = torch.arange(60, dtype=torch.bfloat16).reshape(6, 10)
    b = relayout(a, None, "S[(6,10):(1,6)]")
    assert isinstance(b, torch.Tensor) and torch.equal(b.reshape(10, 6), a.T)
    out = torch.empty(10, 6, dtype=torch.bfloat16).T
    relayout(a, out=out)
    assert torch.equal(out, a)
    with pytest.raises(ValueError, match="host memory"):
        relayout(a.to("spyre"))


def test_refusals():
    a = array((4, 6))
    with pytest.raises(TypeError, match="no array"):
        relayout([1, 2, 3])
    with pytest.raises(ValueError, match="keeps the elements"):
        relayout(a, None, "S[(4,5):(5,1)]")
    with pytest.raises(LayoutError, match="holds 16 bytes, but the plan touches 96"):
        relayout(a, None, "S[(4,6):(6,1)]", out=np.empty(4, "float32"))
    with pytest.raises(ValueError, match="shares memory"):
        relayout(a, None, "S[(4,6):(1,4)]", out=a)
    with pytest.raises(ValueError, match="without gaps"):
        relayout(a.T, "S[(6,4):(4,1)]", "S[(6,4):(1,6)]")
    with pytest.raises(LayoutError):
        relayout(a, None, "S[(4,6):(0,1)]")
    # Numbers that compare: memory that was never written may hold NaN.
    frozen = np.arange(24, dtype="float32").reshape(4, 6)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        relayout(a, out=frozen)
    assert np.array_equal(relayout(frozen), frozen), "reading it is fine"
    assert np.array_equal(a, array((4, 6))), "nothing was changed"


def test_large_results_use_memory_again_and_show_nothing_of_it():
    """Results of 16 MiB and more are on memory that earlier ones have left."""
    full = np.full((2048, 2560), 7, "float32")
    addresses = set()
    for _ in range(6):
        moved = relayout(full, None, "S[(2048,2560):(1,2048)]", fill=0)
        assert moved.shape == (2048 * 2560,) and moved.dtype == np.float32
        assert moved.flags.writeable and moved.flags.c_contiguous and (moved == 7).all()
        addresses.add(moved.ctypes.data)
        del moved
    assert len(addresses) < 6
    # A layout with gaps, on memory that holds sevens everywhere.
    small = np.ones((2048, 1280), "float32")
    gaps = relayout(small, None, "S[(2048,1280):(2560,2)]")
    assert gaps.reshape(-1)[::2].size and gaps.sum() == small.size
    assert not gaps[1::2].any()


def test_a_large_result_outlives_what_made_it_and_is_its_own():
    a = array((2048, 4096), "float32")
    first, second = relayout(a), relayout(a + 1)
    view = first[5:10]
    first_sum = float(first.sum(dtype="float64"))
    second[:] = 0
    assert float(first.sum(dtype="float64")) == first_sum and first.shape == a.shape
    del first, second
    for _ in range(3):
        relayout(a + 2)
    assert np.array_equal(view, a[5:10])
