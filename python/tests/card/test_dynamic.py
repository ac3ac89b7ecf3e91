"""Sizes that change where a tensor lies: what stays, what appears, what is refused."""

import copy
import gc
import random

import pytest
import torch
from zellige import DataFormats, SpyreTensorLayout
from zellige.spyre import dynamic_sizes

HALF = torch.float16


def numbers(*size, dtype=HALF):
    return torch.randint(0, 9, size).to(dtype)


def pinned(x):
    """Everything that no resize may change."""
    return x.device_tensor_layout(), x.untyped_storage().data_ptr(), x.stride(), torch.spyre.memory_allocated()


def resized(host, size):
    """The law: elements that stay keep their values, others are zero."""
    made = torch.zeros(size, dtype=host.dtype)
    box = tuple(slice(0, min(a, b)) for a, b in zip(size, host.shape))
    made[box] = host[box]
    return made


def test_memory_is_reserved_at_the_largest_size():
    # What earlier tests compiled is freed in two steps: the graphs, and then what they held.
    gc.collect()
    gc.collect()
    before = torch.spyre.memory_allocated()
    x = numbers(3, 70).to("spyre", max=8)
    layout = SpyreTensorLayout([8, 70], HALF)
    assert x.shape == (3, 70) and x.device_tensor_layout() == layout
    assert torch.spyre.memory_allocated() - before == layout.nbytes
    assert dynamic_sizes(x) == {0: {"min": 0, "max": 8, "granularity": 1}}
    assert torch.spyre.dynamic_sizes(x.cpu()) is None
    del x
    gc.collect()
    assert torch.spyre.memory_allocated() == before


def test_growing_and_shrinking():
    host = numbers(3, 70)
    x = host.to("spyre", max=8)
    kept = pinned(x)
    address = x.data_ptr()
    for n in (5, 8, 2, 8, 0, 3):
        assert x.resize_(n, 70) is x
        host = resized(host, [n, 70])
        assert torch.equal(x.cpu(), host) and pinned(x) == kept, f"size {n}"
        if n:
            assert x.data_ptr() == address
            x[n - 1] = n
            host[n - 1] = n


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool])
def test_the_law_on_random_sizes(dtype):
    draw = random.Random(str(dtype))
    for trial in range(12):
        full = [draw.randint(1, 6) for _ in range(draw.choice([2, 3, 4]) - 1)] + [draw.choice([3, 64, 130])]
        dims = draw.sample(range(len(full) - 1), draw.randint(1, len(full) - 1))
        sizes = lambda: [draw.randint(0, n) if d in dims else n for d, n in enumerate(full)]
        host = numbers(*sizes(), dtype=dtype)
        if draw.random() < 0.3:
            # The same elements in another order of strides.
            order = draw.sample(range(len(full)), len(full))
            host = host.permute(order).contiguous().permute([order.index(d) for d in range(len(full))])
        x = host.to("spyre", dynamic={d: {"max": full[d]} for d in dims})
        kept = pinned(x)
        for step in range(8):
            size = sizes()
            host = resized(host, size)
            x.resize_(size)
            assert torch.equal(x.cpu(), host) and pinned(x) == kept, f"trial {trial}, step {step}: {full} at {size}"
            x.fill_(1) if step % 3 == 0 else x.copy_(host)
            host = torch.ones_like(host) if step % 3 == 0 else host


def test_max_takes_the_first_dimension_beside_the_sticks():
    assert list(dynamic_sizes(numbers(3, 4, 70).to("spyre", max=9))) == [0]
    assert list(dynamic_sizes(numbers(3, 4, 70).to("spyre", max={-2: 9}))) == [1]
    turned = SpyreTensorLayout([70, 9], HALF, [1, 0])
    assert dynamic_sizes(numbers(70, 3).to("spyre", max=9, device_layout=turned)) == {1: {"min": 0, "max": 9, "granularity": 1}}
    both = numbers(3, 4, 70).to("spyre", max={0: 5, 1: 6})
    assert list(dynamic_sizes(both)) == [0, 1] and dynamic_sizes(both)[1]["max"] == 6


def test_layouts_of_the_largest_size():
    host = numbers(3, 5, 70)
    for layout in (
        SpyreTensorLayout([3, 9, 70], HALF, [1, 0, 2]),
        SpyreTensorLayout([3, 9, 70], HALF, [2, 1, 0]),
        SpyreTensorLayout([3, 9, 70], HALF, [0, 1, 2, -1]),
        SpyreTensorLayout([9, 2, 3, 64], [70, 64, 630, 1], DataFormats.SEN169_FP16),
    ):
        x = host.to("spyre", max={1: 9}, device_layout=layout)
        assert x.device_tensor_layout() == layout and torch.equal(x.cpu(), host)
        assert torch.equal(x.resize_(3, 9, 70).cpu(), resized(host, [3, 9, 70])) and x.device_tensor_layout() == layout
    assert torch.empty(5, device="spyre", max=9, device_layout=SpyreTensorLayout([9], torch.float32, [0, -1])).resize_(9).shape == (9,)


def test_other_ways_to_make_them():
    x = torch.empty(2, 70, dtype=HALF, device="spyre", dynamic={0: {"min": 2, "max": 8, "granularity": 2}})
    assert not x.cpu().any() and x.resize_(8, 70).shape == (8, 70)
    assert dynamic_sizes(x.new_empty((1, 70), max=4)) == {0: {"min": 0, "max": 4, "granularity": 1}}
    assert x.to("spyre", dynamic=dynamic_sizes(x)) is x, "it is there already"
    more = x.to("spyre", max=16)
    assert more is not x and torch.equal(more.cpu(), x.cpu()) and more.resize_(16, 70).shape == (16, 70)
    card = x.to("spyre:1", max=8)
    assert card.device.index == 1 and card.to(torch.float32, max=9).device.index == 1
    with torch.device("spyre:1"):
        assert torch.empty(2, 70, max=8).device.index == 1


def test_copies_and_views():
    host = numbers(3, 4, 70)
    x = host.to("spyre", max={1: 9})
    other = copy.deepcopy(x)
    other.resize_(3, 9, 70)
    assert x.shape == (3, 4, 70) and dynamic_sizes(other) == dynamic_sizes(x) and torch.equal(other.cpu()[:, :4], host)
    assert dynamic_sizes(x.clone()) is None and x.clone().device_tensor_layout() == SpyreTensorLayout([3, 4, 70], HALF)
    part, turned = x[1:, 2:], x.transpose(0, 1)
    x.resize_(3, 1, 70)
    assert torch.equal(part.cpu(), host[1:, 2:]), "a view sees the storage as before"
    assert dynamic_sizes(part) is None and dynamic_sizes(turned) is None
    assert part.resize_(part.shape) is part
    alias = x.detach()
    alias.resize_(3, 3, 70)
    assert alias.data_ptr() == x.data_ptr() and x.shape == (3, 1, 70)


def test_a_storage_that_was_given_back_reserves_nothing():
    for _ in range(10):
        x = numbers(3, 70).to("spyre", max=8)
        address = x.data_ptr()
        del x
        y = torch.zeros(8, 70, dtype=HALF, device="spyre")
        if y.data_ptr() == address:
            break
    assert dynamic_sizes(y) is None and y.resize_(100, 3).shape == (100, 3)


def test_operators_at_every_size():
    host = numbers(2, 3, 70).float()
    x = host.to("spyre", max={1: 7})
    for n in (3, 7, 1, 5):
        x.resize_(2, n, 70)
        host = resized(host, [2, n, 70])
        x.add_(1)
        host += 1
        x[:, -1].mul_(2)
        host[:, -1] *= 2
        for f in (
            lambda t: t.sum(1),
            lambda t: t.transpose(1, 2) @ t,
            lambda t: t.reshape(-1),
            lambda t: t.unfold(2, 10, 10).amax(-1),
            lambda t: torch.cat([t, t], 1),
            lambda t: t[t > 2],
            lambda t: t.flip(1).contiguous(),
            lambda t: t.view(2, n, 7, 10)[:, :, 3],
        ):
            assert torch.equal(f(x).cpu(), f(host)), f"size {n}"
        assert torch.equal(x.cpu(), host)


def test_results_into_them():
    x = numbers(3, 70).to("spyre", max=8)
    kept = pinned(x)
    ones = torch.ones(6, 70, dtype=HALF).to("spyre")
    torch.add(ones, 1, out=x)
    del ones
    assert x.shape == (6, 70) and (x.cpu() == 2).all() and pinned(x) == kept
    with pytest.raises(RuntimeError, match=r"dimension 0 is 9, outside of the reservation: it can be 0 to 8"):
        torch.add(torch.ones(9, 70, dtype=HALF).to("spyre"), 1, out=x)
    assert x.shape == (6, 70)


def test_gradients_pass_through():
    x = numbers(2, 70).float().to("spyre", max=8)
    w = torch.ones(70, 4, device="spyre", requires_grad=True)
    x.resize_(3, 70)
    (x @ w).sum().backward()
    assert torch.equal(w.grad.cpu(), x.cpu().sum(0)[:, None].expand(70, 4))
    with pytest.raises(RuntimeError, match="require grad"):
        x.requires_grad_().resize_(4, 70)


def attention(cache, query):
    return torch.nn.functional.scaled_dot_product_attention(query, cache, cache)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_cache_that_grows_by_one(compiled):
    function = torch.compile(attention, backend="spyre", dynamic=True) if compiled else attention
    batch, heads, most, width = 2, 3, 12, 64
    cache = torch.empty(batch, heads, 0, width, dtype=HALF, device="spyre", dynamic={2: {"max": most}})
    host = torch.empty(batch, heads, 0, width, dtype=HALF)
    layout, address = cache.device_tensor_layout(), cache.untyped_storage().data_ptr()
    for n in range(1, most + 1):
        step = torch.rand(batch, heads, 1, width, dtype=HALF)
        before = torch.spyre.memory_allocated()
        cache.resize_(batch, heads, n, width)
        cache[:, :, -1:].copy_(step)
        assert torch.spyre.memory_allocated() == before, "a step takes no memory"
        host = torch.cat([host, step], 2)
        assert torch.allclose(function(cache, step.to("spyre")).cpu(), attention(host, step), atol=4e-3), f"step {n}"
    assert cache.device_tensor_layout() == layout and cache.untyped_storage().data_ptr() == address
    assert torch.allclose(cache.cpu(), host, atol=1e-3)
    with pytest.raises(RuntimeError, match="outside of the reservation: it can be 0 to 12"):
        cache.resize_(batch, heads, most + 1, width)


@pytest.mark.parametrize(
    "most, sizes",
    [({0: 9}, [(3, 70), (4, 70), (9, 70), (2, 70), (1, 70)]), ({0: 6, 1: 8}, [(2, 3, 70), (6, 8, 70), (5, 2, 70), (2, 3, 70)])],
)
def test_compiled_at_every_size(most, sizes):
    def function(x, y):
        x.add_(1)
        x[0].mul_(2)
        return (x * 2 + y).sum(0), x @ y.transpose(-1, -2)

    compiled = torch.compile(function, backend="spyre", dynamic=True)
    x = numbers(*sizes[0]).float().to("spyre", max=most)
    layout, address = x.device_tensor_layout(), x.data_ptr()
    for size in sizes:
        x.resize_(size)
        host, y = x.cpu(), numbers(*size).float()
        want, got = function(host, y), compiled(x, y.to("spyre"))
        assert torch.equal(x.cpu(), host), f"size {size}"
        for a, b in zip(got, want):
            assert torch.allclose(a.cpu(), b, rtol=4e-3), f"size {size}"
    assert x.device_tensor_layout() == layout and x.data_ptr() == address


def test_programs_read_a_cache_where_it_lies():
    compiled = torch.compile(attention, backend="spyre", dynamic=True)
    query = torch.rand(2, 3, 1, 64, dtype=HALF)
    for most in ({2: 40}, {0: 4, 2: 40}):
        cache = torch.rand(2, 3, 30, 64, dtype=HALF).to("spyre", max=most)
        step = query.to("spyre")
        assert torch.allclose(compiled(cache, step).cpu(), attention(cache.cpu(), query), atol=4e-3)
        before = torch.spyre.memory_allocated()
        torch.spyre.reset_peak_memory_stats()
        compiled(cache, step)
        assert torch.spyre.max_memory_allocated() - before < 2 * 3 * 30 * 128, "no copy of the cache"


def test_resizing_and_reserving_inside_of_compiled_functions():
    @torch.compile(backend="spyre", dynamic=True)
    def grown(x):
        x.resize_(3, 6, 70)
        return x + 1

    host = numbers(3, 4, 70)
    x = host.to("spyre", max={1: 16})
    kept = pinned(x)
    out = grown(x).cpu()
    assert torch.equal(out, resized(host, [3, 6, 70]) + 1)
    assert pinned(x)[:3] == kept[:3], "but for memory, of which the program holds some itself"

    @torch.compile(backend="spyre")
    def made(h):
        x = h.to("spyre", max={1: 16})
        return x, x * 2

    x, double = made(host)
    assert dynamic_sizes(x)[1]["max"] == 16 and torch.equal(double.cpu(), host * 2)


@pytest.mark.parametrize(
    "given, error, message",
    [
        (dict(max=2), ValueError, r"max\[0\]: the present size is 3, outside of the reservation: it can be 0 to 2"),
        (dict(max=-1), ValueError, r"min 0 and max -1 are no range"),
        (dict(max=1 << 70), ValueError, r"2\^63"),
        (dict(max=True), TypeError, r"max.* is True: an integer is wanted"),
        (dict(max="8"), TypeError, r"max.* is '8': an integer"),
        (dict(max={}), ValueError, r"max is empty: name at least one dimension"),
        (dict(max={1: 100}), ValueError, r"dimension 1 of size \[3, 100\] is along the sticks.*cannot be dynamic; these can: 0"),
        (dict(max={0: 8, -2: 8}), ValueError, r"names dimension 0 twice: as 0 and as -2"),
        (dict(max={2: 8}), IndexError, r"no dimension 2 in a tensor of size \[3, 70\]"),
        (dict(max=8, dynamic={0: 8}), ValueError, r"give one of them"),
        (dict(dynamic=8), TypeError, r"dynamic is 8: a dict is wanted"),
        (dict(dynamic={}), ValueError, r"dynamic is empty"),
        (dict(dynamic={0: {"min": 1}}), ValueError, r"dynamic\[0\] is {'min': 1}, without the largest size: give max"),
        (dict(dynamic={0: {"max": 8, "mx": 1}}), ValueError, r"dynamic\[0\] has no key 'mx': max is needed, min \(0\) and granularity"),
        (dict(dynamic={0: {"min": 4, "max": 8}}), ValueError, r"present size is 3, outside of the reservation: it can be 4 to 8"),
        (dict(dynamic={0: {"min": 9, "max": 8}}), ValueError, r"min 9 and max 8 are no range"),
        (dict(dynamic={0: {"max": 8, "granularity": 2}}), ValueError, r"present size is 3, not a multiple of the granularity 2: the nearest are 2 and 4"),
        (dict(dynamic={0: {"max": 8, "granularity": 3}}), ValueError, r'dynamic\[0\]\["max"\] is 8, which is not a multiple'),
        (dict(dynamic={0: {"max": 8, "granularity": 0}}), ValueError, r"granularity.* is 0: 1 or more"),
        (dict(dynamic={0: {"max": 8.0}}), TypeError, r'dynamic\[0\]\["max"\] is 8.0: an integer'),
        (dict(dynamic={0: "a"}), TypeError, r"dynamic\[0\], a size or a dict with min, max, granularity, is 'a'"),
        (dict(dynamic={"a": 8}), TypeError, r"a dimension is 'a': an integer"),
        (dict(max=8, device_layout="x"), TypeError, r"device_layout is 'x'"),
        (dict(max=8, device_layout=SpyreTensorLayout([3, 70], HALF)), ValueError, r"largest size \[8, 70\] of the reservation: it is for size \[3, 70\]; SpyreTensorLayout\(\[8, 70\]"),
        (dict(max=9, device_layout=SpyreTensorLayout([2, 8, 64], [64, 70, 1], DataFormats.SEN169_FP16)), ValueError, r"largest size \[9, 70\].*8 steps of stride 70"),
        (dict(max={0: 8}, device_layout=SpyreTensorLayout([8, 70], HALF, [1, 0])), ValueError, r"dimension 0 .* cannot be dynamic; these can: 1"),
        (dict(max=8, device_layout=SpyreTensorLayout([8, 70], torch.int32)), TypeError, r"does not store float16 as IEEE_INT32"),
        (dict(max=1 << 40), RuntimeError, r"256 TiB.*at most 16 GiB"),
    ],
)
def test_requests_that_are_refused(given, error, message):
    before = torch.spyre.memory_allocated()
    with pytest.raises(error, match=message):
        numbers(3, 70).to("spyre", **given)
    assert torch.spyre.memory_allocated() == before


def test_tensors_without_a_dimension_to_reserve():
    for host in (numbers(5), numbers(), numbers(5, 1)):
        with pytest.raises(ValueError, match="no dimension beside the one along the sticks.*device_layout"):
            host.to("spyre", max=8)
    with pytest.raises(RuntimeError, match="needs the device spyre, not cpu"):
        numbers(3, 70).to("cpu", max=8)


@pytest.mark.parametrize(
    "size, message",
    [
        ((0, 70), r"resize_ to \[0, 70\]: dimension 0 is 0, outside of the reservation: it can be 2 to 12 in steps of 2"),
        ((14, 70), r"dimension 0 is 14, outside of the reservation"),
        ((-2, 70), r"dimension 0 is -2, outside of the reservation"),
        ((5, 70), r"dimension 0 is 5, not a multiple of the granularity 2: the nearest are 4 and 6"),
        ((4, 71), r"dimension 1 is 70 and was not reserved for 71; what can change is dimension 0 \(2 to 12 in steps of 2\)"),
        ((280,), r"the tensor has 2 dimensions and keeps them, but 1 were given"),
        ((4, 70, 1), r"the tensor has 2 dimensions and keeps them, but 3 were given"),
    ],
)
def test_sizes_that_are_refused(size, message):
    host = numbers(4, 70)
    x = host.to("spyre", dynamic={0: {"min": 2, "max": 12, "granularity": 2}})
    kept = pinned(x)
    with pytest.raises(RuntimeError, match=message):
        x.resize_(size)
    assert torch.equal(x.cpu(), host) and pinned(x) == kept, "nothing happened"


def test_views_and_formats_that_are_refused():
    x = numbers(4, 70).to("spyre", max=8)
    for view in (x.t(), x[1:], x[:, 2:], x[None], x[::2]):
        with pytest.raises(RuntimeError, match=r"this is a view of size .*reserved for a tensor of size up to \[8, 70\]"):
            view.resize_(7, 7)
    y = numbers(2, 3, 4, 70).to("spyre", max=8)
    with pytest.raises(RuntimeError, match="keeps its strides"):
        y.resize_(3, 3, 4, 70, memory_format=torch.channels_last)


def test_sizes_of_nothing():
    x = torch.empty(0, 70, dtype=HALF).to("spyre", max=4)
    assert x.device_tensor_layout() == SpyreTensorLayout([4, 70], HALF) and x.resize_(4, 70).sum().item() == 0
    assert torch.empty(3, 0, dtype=HALF).to("spyre", max=4).resize_(4, 0).cpu().shape == (4, 0)
    nothing = torch.empty(0, 70, dtype=HALF).to("spyre", max=0)
    with pytest.raises(RuntimeError, match="it can be 0 to 0"):
        nothing.resize_(1, 70)
