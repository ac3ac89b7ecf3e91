"""Files of tensors of the device: what shared a storage shares one after loading."""

import io

import pytest
import torch


def reload(value, **how):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **how)


def base():
    return torch.arange(24.0).view(4, 6)


@pytest.mark.parametrize("first", ["whole", "part"])
@pytest.mark.parametrize("where", [None, "spyre", "spyre:1", "cpu", {"spyre:0": "spyre:1"}], ids=str)
def test_views_share_their_storage_after_loading(where, first):
    whole = base().to("spyre")
    tensors = {"whole": whole, "row": whole[1], "part": whole[1:3, ::2], "turned": whole.t(), "other": whole + 1}
    if first == "part":
        tensors = dict(reversed(tensors.items()))
    loaded = reload(tensors, map_location=where)
    device = {"cpu": "cpu", None: "spyre:0", "spyre": "spyre:0"}.get(where if isinstance(where, (str, type(None))) else "", "spyre:1")
    for name, tensor in tensors.items():
        assert loaded[name].device == torch.device(device)
        assert loaded[name].stride() == tensor.stride() and loaded[name].tolist() == tensor.tolist(), name
    loaded["row"].fill_(-5)
    assert loaded["whole"][1].tolist() == [-5] * 6 and loaded["turned"][:, 1].tolist() == [-5] * 6
    assert loaded["part"][0].tolist() == [-5] * 3 and loaded["other"][1, 0] == 7
    assert whole[1, 0] == 6


def test_views_of_the_host_share_their_storage_on_the_device():
    whole = base()
    for where in "spyre", {"cpu": "spyre"}:
        loaded = reload([whole, whole[2]], map_location=where)
        loaded[1].zero_()
        assert loaded[0].device.type == "spyre" and loaded[0][2].tolist() == [0] * 6, where


def test_a_tensor_that_fills_its_storage_keeps_its_layout():
    whole = torch.randn(64, 128).to("spyre")
    loaded = reload({"view": whole, "again": whole})
    assert loaded["view"] is loaded["again"]
    assert loaded["view"].device_tensor_layout() == whole.device_tensor_layout()


def test_tied_parameters_of_a_state_dict_stay_tied():
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)).to("spyre")
    module[1].weight = module[0].weight
    state = reload(module.state_dict(), weights_only=True)
    assert state["0.weight"].data_ptr() == state["1.weight"].data_ptr() != state["0.bias"].data_ptr()


def test_two_files_do_not_share():
    tensor = base().to("spyre")
    first = reload([tensor])
    tensor.mul_(2)
    assert reload([tensor])[0][1, 1] == 14 and first[0][1, 1] == 7


def test_a_table_of_places_that_splits_the_host_is_refused():
    with pytest.raises(NotImplementedError, match="move each tensor with .to"):
        reload([base()], map_location={"cpu": "spyre", "cuda:0": "cpu"})
