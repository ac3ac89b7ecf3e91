"""Every byte of a result is an element or the fill, whatever the memory held before."""

import random

import numpy as np
import pytest
from zellige import Layout, LayoutError, SpyreTensorLayout, relayout


def poison(bytes, times=64):
    """Leaves freed memory of this size full of a pattern."""
    held = [np.full(bytes, 0xA5, dtype=np.uint8) for _ in range(times)]
    del held


def places(layout):
    """Where elements lie, by the definition of the layout."""
    found = {}
    for flat in range(layout.size):
        rest, index = flat, []
        for n in reversed(layout.shape):
            index.append(rest % n)
            rest //= n
        for place in layout.apply(*reversed(index)):
            found[place.get("m", 0)] = flat
    return found


@pytest.mark.parametrize("text", ["S[64:1]+960", "S[64:16]", "S[(8,8):(20,2)]+3", "S[(8,8):(-9,1)]+70"])
@pytest.mark.parametrize("fill, want", [(None, 0), ("zero", 0), (7, 7), ("max", np.iinfo("int32").min)])
def test_gaps_are_filled(text, fill, want):
    a = np.arange(1, 65, dtype=np.int32)
    layout = Layout(text)
    held = places(layout)
    for _ in range(5):
        poison(4 * (max(held) + 1))
        b = relayout(a.reshape(layout.shape), None, layout, fill=fill)
        expected = np.full(max(held) + 1, want, dtype=np.int32)
        for place, flat in held.items():
            expected[place] = a[flat]
        assert np.array_equal(b, expected)


def random_text(rng):
    """Strides with gaps and an offset, some reversed, swizzled, or repeated."""
    dims = [rng.choice([1, 2, 3, 4, 5, 8]) for _ in range(rng.randint(1, 3))]
    order = rng.sample(range(len(dims)), len(dims))
    strides, step, offset = [0] * len(dims), rng.randint(1, 3), rng.choice([0, 0, 1, 7, 40])
    for d in order:
        back = rng.random() < 0.2
        strides[d] = -step if back else step
        offset += (dims[d] - 1) * step if back else 0
        step = step * dims[d] + rng.choice([0, 0, 1, 5])
    text = f"S[({','.join(map(str, dims))}):({','.join(map(str, strides))})]"
    if rng.random() < 0.2:
        text += f" + R[2:{step + rng.randint(0, 3)}]"
    if offset:
        text += f" + {offset}"
    return f"Swizzle(2,1,2) o {text}" if rng.random() < 0.3 else text


def test_every_byte_of_a_result_is_known():
    rng = random.Random(12)
    moved = 0
    for _ in range(400):
        text = random_text(rng)
        layout = Layout(text)
        a = np.arange(1, layout.size + 1, dtype=np.int32).reshape(layout.shape)
        held = places(layout)
        poison(4 * (max(held) + 1), 8)
        behind = rng.choice([0, 0, 3])
        out = np.full(max(held) + 1 + behind, 0x25A5A5A5, dtype=np.int32) if rng.random() < 0.5 else None
        b = relayout(a, None, layout, out=out, fill=9)
        expected = np.full(b.size, 9, dtype=np.int32)
        for place, flat in held.items():
            expected[place] = flat + 1
        assert np.array_equal(b.ravel(), expected), text
        moved += 1
    assert moved == 400


def test_device_sizes_and_windows_are_filled():
    for shape in ([3, 100], [1, 1], [5, 64], [2, 3, 70]):
        stick = SpyreTensorLayout(shape, "float16")
        a = np.ones(shape, "float16")
        poison(2 * int(np.prod(stick.device_size)))
        b = relayout(a, None, stick, fill=5)
        assert (b == 1).sum() == a.size and (b == 5).sum() == b.size - a.size


def test_leave_keeps_what_out_holds():
    a = np.arange(4, dtype=np.float32)
    out = np.full(20, -1, dtype=np.float32)
    relayout(a, None, "S[4:2]+3", out=out, fill="leave")
    assert np.array_equal(np.flatnonzero(out != -1), [3, 5, 7, 9])
    relayout(a, None, "S[4:2]+3", out=out)
    assert (np.delete(out, [3, 5, 7, 9]) == 0).all(), "the rest of `out` is the fill, the tail too"
    with pytest.raises(ValueError, match="without `out` there is nothing to keep"):
        relayout(a, None, "S[4:2]+3", fill="leave")
    with pytest.raises(ValueError, match="accepted: leave, zero"):
        relayout(a, fill="none")


def test_between_the_elements_of_a_view_nothing_is_written():
    base = np.full((6, 8), -1, dtype=np.float32)
    relayout(np.ones((3, 4), "float32"), out=base[::2, ::2], fill=7)
    assert (base == 1).sum() == 12 and (base == -1).sum() == 36


def test_an_out_that_is_too_short_is_refused_with_nothing_written():
    a = np.ones((3, 100), "float16")
    out = np.full(3 * 100, 3, dtype="float16")
    with pytest.raises(LayoutError, match="holds 600 bytes"):
        relayout(a, None, SpyreTensorLayout([3, 100], "float16"), out=out)
    assert (out == 3).all()
