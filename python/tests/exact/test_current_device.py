"""A device without an index is the current card, in whatever function of PyTorch it is named."""

import io
import subprocess
import sys
import threading

import numpy
import pytest
import torch

CARD = torch.device("spyre", 1)
HOST = torch.arange(6.0).view(2, 3)


@pytest.fixture(params=["set_device", "device", "accelerator"])
def second_card(request):
    """Makes the second card the current one, in each way that there is."""
    if request.param == "device":
        with torch.spyre.device(1):
            yield
        return
    choose = torch.spyre.set_device if request.param == "set_device" else torch.accelerator.set_device_index
    choose(1)
    try:
        yield
    finally:
        choose(0)


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def generated(device):
    return torch.rand(2, device=device, generator=torch.Generator(device))


def default(device):
    torch.set_default_device(device)
    try:
        return torch.tensor([1.0])
    finally:
        torch.set_default_device(None)


def in_context(device):
    with torch.device(device):
        return torch.tensor([1.0])


def assigned(device):
    module = torch.nn.Linear(3, 2, device="meta")
    module.load_state_dict({k: torch.ones(v.shape, device=device) for k, v in module.state_dict().items()}, assign=True)
    return module.weight


def differentiated(device):
    host = HOST.clone().requires_grad_()
    moved = host.to(device)
    (moved * moved).sum().backward()
    assert torch.equal(host.grad, 2 * HOST)
    return moved


def autocast(device):
    with torch.autocast("spyre", torch.bfloat16):
        return torch.ones(2, 3, device=device) @ HOST.t().to(device)


def compiled(device):
    torch._dynamo.reset()
    return torch.compile(lambda a: a.to(device) + torch.ones(2, 3, device=device))(HOST)


LAYOUT = torch.empty(2, 3, device="spyre").device_tensor_layout()

WAYS = {
    "ones": lambda d: torch.ones(2, device=d),
    "to": lambda d: HOST.to(d),
    "to with a dtype": lambda d: HOST.to(d, torch.float16),
    "to with a keyword": lambda d: HOST.to(device=d, copy=True),
    "to without elements": lambda d: HOST[:0].to(d),
    "to of float64": lambda d: HOST.double().to(d),
    "to with a layout": lambda d: HOST.to(d, device_layout=LAYOUT),
    "to_with_layout": lambda d: HOST.to_with_layout(LAYOUT, d),
    "to with a largest size": lambda d: HOST.to(d, max={0: 4}),
    "to from the first card": lambda d: HOST.to("spyre:0").to(d),
    "to of a gradient": differentiated,
    "spyre": lambda d: HOST.spyre(),
    "Module.to": lambda d: torch.nn.Linear(2, 2).to(d).weight,
    "Module.spyre": lambda d: torch.nn.Linear(2, 2).spyre().bias,
    "Module.to_empty": lambda d: torch.nn.Linear(2, 2, device="meta").to_empty(device=d).weight,
    "a module that is made": lambda d: torch.nn.Linear(2, 2, device=d).weight,
    "tensor": lambda d: torch.tensor([1.0, 2.0], device=d),
    "a tensor of a number": lambda d: torch.tensor(1, device=d),
    "as_tensor": lambda d: torch.as_tensor(HOST, device=d),
    "as_tensor of a list": lambda d: torch.as_tensor([1, 2], device=d),
    "asarray": lambda d: torch.asarray(numpy.ones(3), device=d),
    "from_numpy": lambda d: torch.from_numpy(numpy.ones(3)).to(d),
    "new_tensor": lambda d: HOST.new_tensor([1.0], device=d),
    "new_zeros": lambda d: HOST.new_zeros(2, device=d),
    "new_full": lambda d: HOST.new_full((2,), 3.0, device=d),
    "zeros_like": lambda d: torch.zeros_like(HOST, device=d),
    "randn_like": lambda d: torch.randn_like(HOST, device=d),
    "empty with a layout": lambda d: torch.empty(2, 3, device=d, device_layout=LAYOUT),
    "empty with a largest size": lambda d: torch.empty(2, 3, device=d, max={0: 4}),
    "arange": lambda d: torch.arange(3, device=d),
    "tril_indices": lambda d: torch.tril_indices(3, 3, device=d),
    "randperm": lambda d: torch.randperm(4, device=d),
    "with torch.device": in_context,
    "set_default_device": default,
    "a generator": generated,
    "load": lambda d: torch.load(saved(HOST), map_location=d),
    "load of a tensor of the first card": lambda d: torch.load(saved(HOST.to("spyre:0")), map_location=d),
    "load_state_dict": assigned,
    "autocast": autocast,
    "vmap": lambda d: torch.vmap(lambda row: row.to(d))(HOST),
    "packed sequences": lambda d: torch.nn.utils.rnn.pack_sequence([HOST, HOST[:1]]).to(d).data,
    "compiled": compiled,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("named", ["spyre", torch.device("spyre")], ids=["text", "device"])
@pytest.mark.parametrize("way", WAYS)
def test_a_device_without_an_index_is_the_current_card(second_card, way, named):
    made = WAYS[way](named)
    assert made.device == CARD
    assert torch.spyre.current_device() == torch.accelerator.current_device_index() == 1


def test_an_index_that_is_given_stays(second_card):
    first = HOST.to("spyre:0")
    assert first.device == torch.device("spyre:0")
    assert (first + 1).device == first.device and torch.zeros_like(first).device == first.device
    assert torch.empty(1, device="spyre").copy_(first[0, :1]).device == CARD


def test_the_card_is_the_thread_s_own():
    torch.spyre.set_device(1)
    try:
        found = []
        thread = threading.Thread(target=lambda: found.append((HOST.to("spyre").device, torch.spyre.current_device())))
        thread.start()
        thread.join()
        assert found == [(torch.device("spyre:0"), 0)]
    finally:
        torch.spyre.set_device(0)


def test_a_card_that_is_not_there_is_refused():
    for choose in torch.spyre.set_device, torch.accelerator.set_device_index:
        with pytest.raises(RuntimeError, match=r"Device index 7 out of range \[0, 2\)"):
            choose(7)
    assert HOST.to("spyre").device == torch.device("spyre:0")


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_function_that_names_the_device_in_any_way_runs_on_it():
    def move(x):
        return torch.tensor([1.0, 2.0, 3.0]).to("spyre") * 2

    assert torch.compile(move)(HOST).tolist() == [2, 4, 6]


@pytest.mark.filterwarnings("ignore")
def test_a_device_map_of_transformers_takes_the_current_card(tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    with torch.spyre.device(1):
        for device_map in "spyre", {"": "spyre"}:
            model = LlamaForCausalLM.from_pretrained(tmp_path, device_map=device_map)
            assert {p.device for p in model.parameters()} == {CARD}, device_map
            assert model(torch.tensor([[1, 2]], device="spyre")).logits.device == CARD


def test_importing_twice_in_one_process_keeps_the_guard():
    code = (
        "import torch, zellige.spyre as s\n"
        "s.register(); s._register._registered = False\n"
        "from zellige import _native; _native.install_guard(); torch.spyre.set_device(1)\n"
        "assert torch.ones(1).to('spyre').device.index == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
