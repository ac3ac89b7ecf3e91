"""What is refused: Python exceptions that name the operand, and a device that goes on."""

import pytest
import torch
from zellige import DataFormats, SpyreTensorLayout


@pytest.fixture(autouse=True)
def still_works():
    yield
    assert (torch.ones(2, 3, device="spyre") + 1).sum().item() == 12


@pytest.mark.parametrize("dtype", [torch.complex32, torch.float8_e4m3fnuz, torch.float8_e8m0fnu])
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_dtypes_that_the_device_does_not_store(dtype):
    with pytest.raises(TypeError, match=str(dtype).split(".")[1] + ".*float16"):
        torch.ones(3).to(dtype).to("spyre")
    with pytest.raises(TypeError):
        torch.empty(3, dtype=dtype, device="spyre")


def test_sizes_that_do_not_fit():
    a, b = torch.rand(3, 70).to("spyre"), torch.rand(4, 70).to("spyre")
    for f in (lambda: a + b, lambda: a @ a, lambda: torch.cat([a, torch.rand(3, 3, 3).to("spyre")]), lambda: torch.where(a > 0, a, b)):
        with pytest.raises(RuntimeError, match="70|size|shape"):
            f()
    with pytest.raises(RuntimeError, match="invalid for input of size 210"):
        a.view(4, 50)
    with pytest.raises(RuntimeError, match="reshape"):
        a.t().view(210)


def test_indices_out_of_range():
    a = torch.rand(3, 70).to("spyre")
    with pytest.raises(IndexError):
        a[5]
    with pytest.raises((IndexError, RuntimeError), match="3|range|bounds"):
        a[torch.tensor([0, 9], device="spyre")]
    with pytest.raises((IndexError, RuntimeError)):
        torch.nn.functional.embedding(torch.tensor([1, 5], device="spyre"), a)
    with pytest.raises(IndexError):
        a.sum(5)


def test_mixed_devices():
    a = torch.rand(3, 70).to("spyre")
    for f in (lambda: a + torch.rand(3, 70), lambda: torch.rand(3, 70) * a, lambda: a @ torch.rand(70, 2), lambda: torch.isclose(a, torch.rand(3, 70))):
        with pytest.raises(RuntimeError, match="same device"):
            f()
    assert (a + torch.tensor(2.0)).device.type == "spyre", "a number is no tensor of another device"


def test_layouts_that_do_not_fit():
    x = torch.rand(5, 100, dtype=torch.float16)
    for layout in (
        SpyreTensorLayout([5, 101], torch.float16),
        SpyreTensorLayout([2, 5, 64], [64, 7, 1], DataFormats.SEN169_FP16),
        SpyreTensorLayout([5, 100], torch.int32),
    ):
        with pytest.raises((ValueError, RuntimeError, TypeError)):
            x.to("spyre", device_layout=layout).cpu()
    with pytest.raises(TypeError):
        x.to("spyre", device_layout="S[1:1]")
    with pytest.raises(ValueError, match="stick"):
        SpyreTensorLayout([2, 5, 63], [64, 100, 1], DataFormats.SEN169_FP16)
    with pytest.raises(ValueError):
        SpyreTensorLayout([5, 100], torch.float16, [0, 0])


def test_more_than_the_card_has():
    with pytest.raises(RuntimeError, match="one allocation can take|out of memory"):
        torch.empty(1 << 20, 1 << 20, dtype=torch.float16, device="spyre")


def test_the_host_does_not_try_what_the_card_has_no_room_for():
    for f in (lambda: torch.arange(1 << 40, device="spyre"), lambda: torch.ones(3, device="spyre").expand(1 << 40, 3).exp()):
        with pytest.raises(RuntimeError, match="one allocation can take") as caught:
            f()
        assert "CPU" not in str(caught.value)


def test_dimensions_that_are_not_there():
    x = torch.rand(3, 4)
    for t in (x, x.to("spyre")):
        with pytest.raises(IndexError, match="range of \\[-2, 1\\], but got 7"):
            torch.ops.spyre.restickify(t, 7)
    assert torch.spyre.restickify(torch.empty(0, 3, device="spyre"), 0).shape == (0, 3)
    assert torch.spyre.restickify(torch.tensor(2.0).to("spyre"), 0).item() == 2


def test_cards_do_not_mix():
    a, b = torch.rand(3, 4).to("spyre:0"), torch.rand(3, 4).to("spyre:1")
    at = torch.tensor([0, 1, 2], device="spyre:1")
    for f in (lambda: a + b, lambda: a[at], lambda: torch.nn.functional.cross_entropy(a, at), lambda: torch.cdist(a, b)):
        with pytest.raises(RuntimeError, match="same device"):
            f()


def test_what_only_host_memory_has():
    a = torch.rand(3).to("spyre")
    with pytest.raises(TypeError):
        a.numpy()
    with pytest.raises(NotImplementedError, match="storages"):
        torch.UntypedStorage(16, device="spyre")
    with pytest.raises(NotImplementedError):
        torch.tensor([], device="spyre").set_(a.untyped_storage())
    with pytest.raises(RuntimeError):
        torch.empty(3, device="spyre", pin_memory=True)
    with pytest.raises((RuntimeError, TypeError)):
        a.view(torch.int32).cpu()


def test_results_that_an_output_cannot_take():
    n = torch.ones(3, dtype=torch.int64, device="spyre")
    with pytest.raises(RuntimeError, match="float32.*int64|cast"):
        n.add_(0.5)
    with pytest.raises(RuntimeError):
        torch.rand(3).to("spyre").expand(4, 3).add_(1).cpu()


def test_a_tensor_that_lost_its_storage():
    a = torch.rand(3, 4).to("spyre")
    alias = a.detach()
    del a
    assert alias.cpu().shape == (3, 4), "a view keeps the storage"
    alias.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="freed by"):
        alias + 1
    with pytest.raises(NotImplementedError, match="0 or 48 bytes"):
        alias.untyped_storage().resize_(1 << 20)


def test_environment_of_seeds_and_states():
    with pytest.raises(ValueError, match="16 bytes"):
        torch.spyre.set_rng_state(torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="0|64"):
        torch.spyre.set_stream(torch.spyre.Stream(stream_id=99))


def test_integers_are_scaled_by_integers_as_on_the_cpu():
    a = [torch.randint(0, 9, size, dtype=torch.int32) for size in ((3,), (3, 4), (4,))]
    for scale in (dict(alpha=0.5), dict(beta=1.5), dict(alpha=2, beta=3)):
        assert torch.equal(torch.addmv(*a, **scale), torch.addmv(*[x.to("spyre") for x in a], **scale).cpu()), scale


@pytest.mark.parametrize("p", [1.5, -0.1, float("nan")])
def test_probabilities_are_probabilities(p):
    with pytest.raises(RuntimeError, match=r"in \[0, 1\]"):
        torch.bernoulli(torch.full((4,), p, device="spyre"))
