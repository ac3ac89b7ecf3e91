"""``untyped_storage().resize_(0)`` gives memory back, and a storage that is allocated again is another memory."""

import pytest
import torch


def storage_sizes(tensor):
    storage = tensor.untyped_storage()
    return storage.size(), storage.nbytes(), len(storage), tensor._typed_storage()._size()


def test_memory_goes_back():
    torch.spyre.synchronize()
    before = torch.spyre.memory_allocated()
    x = torch.ones(1000, 32, device="spyre")
    held = torch.spyre.memory_allocated()
    assert held > before and storage_sizes(x) == (128000, 128000, 128000, 32000)
    x.untyped_storage().resize_(0)
    assert torch.spyre.memory_allocated() == before and storage_sizes(x) == (0, 0, 0, 0)
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(128000)
    assert torch.spyre.memory_allocated() == held and storage_sizes(x) == (128000, 128000, 128000, 32000)
    x.fill_(3)
    assert x.sum().item() == 96000
    del x
    assert torch.spyre.memory_allocated() == before


def test_a_freed_tensor_cannot_be_read():
    x = torch.ones(4, device="spyre")
    x.untyped_storage().resize_(0)
    for use in (lambda: x + 1, lambda: x.cpu(), lambda: x.tolist(), lambda: x.fill_(2), lambda: x[1:].clone()):
        with pytest.raises(RuntimeError, match="freed by"):
            use()


def test_other_sizes_are_refused():
    x = torch.ones(4, device="spyre")
    for size in (4, 17, 1 << 20):
        with pytest.raises(NotImplementedError, match="0 or 16 bytes"):
            x.untyped_storage().resize_(size)
    assert x.tolist() == [1] * 4


def test_memory_of_others_is_not_touched():
    """The memory of a freed storage is given to other tensors; all of them stay apart when it is allocated again."""
    generator = torch.Generator().manual_seed(5)
    tensors, freed = {}, set()
    for step in range(400):
        choice = int(torch.randint(0, 4, (), generator=generator))
        if choice == 0 or not tensors:
            size = int(torch.randint(1, 300, (), generator=generator))
            tensors[step] = (torch.full((size,), float(step), device="spyre"), size)
        key = list(tensors)[int(torch.randint(0, len(tensors), (), generator=generator))]
        tensor, size = tensors[key]
        if choice == 1 and key not in freed:
            tensor.untyped_storage().resize_(0)
            freed.add(key)
        elif choice == 2 and key in freed:
            tensor.untyped_storage().resize_(size * 4)
            tensor.fill_(key)
            freed.discard(key)
        elif choice == 3:
            del tensors[key], tensor
            freed.discard(key)
    for key, (tensor, size) in tensors.items():
        if key not in freed:
            assert tensor.tolist() == [float(key)] * size


def test_views_share_the_freed_storage():
    x = torch.arange(12.0, device="spyre").view(3, 4)
    row, column = x[1], x[:, 2]
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="freed by"):
        row.tolist()
    row.untyped_storage().resize_(48)
    x.fill_(1)
    row.add_(1)
    assert column.tolist() == [1, 2, 1]
