"""What tools ask a device for: figures of its memory, files of safetensors, saved tensors on the host."""

import pytest
import torch


def test_torch_spyre_has_the_figures_of_memory_that_other_devices_have():
    before = torch.spyre.memory_allocated(1)
    kept = torch.ones(1024, device="spyre:1")
    free, total = torch.spyre.mem_get_info(1)
    assert torch.accelerator.get_memory_info(1) == (free, total) and 0 < free <= total - 4096
    (card,) = torch.spyre.memory_snapshot(1)
    assert card["device"] == 1 and card["allocated_size"] == before + kept.nbytes and card["free_size"] == free
    assert [c["device"] for c in torch.spyre.memory_snapshot()] == list(range(torch.spyre.device_count()))
    text = torch.spyre.memory_summary(1)
    assert "spyre:1" in text and f"{before + kept.nbytes:,} bytes" in text and "peak" in text
    assert "peak" not in torch.spyre.memory_summary(1, abbreviated=True)
    assert torch.spyre.empty_cache() is None and torch.spyre.memory_allocated(1) == before + kept.nbytes


def test_bfloat16_is_supported_as_it_says():
    assert torch.spyre.is_bf16_supported()
    assert (torch.ones(2, dtype=torch.bfloat16, device="spyre") + 1).tolist() == [2, 2]


@pytest.mark.parametrize("device", ["spyre", "spyre:1", torch.device("spyre")], ids=str)
def test_safetensors_loads_onto_a_card(tmp_path, device):
    from safetensors.torch import load_file, save_file

    tensors = {"a": torch.randn(3, 4), "b": torch.arange(4)}
    save_file(tensors, tmp_path / "file")
    loaded = load_file(tmp_path / "file", device=device)
    assert {t.device for t in loaded.values()} == {torch.device("spyre", torch.device(device).index or 0)}
    assert all(torch.equal(loaded[name].cpu(), tensor) for name, tensor in tensors.items())
    assert load_file(tmp_path / "file")["a"].device.type == "cpu"


@pytest.mark.parametrize("pinned", [False, True])
def test_tensors_that_backward_needs_may_wait_on_the_host(pinned):
    x = torch.tensor([1.0, 2.0], device="spyre", requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=pinned):
        (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]
