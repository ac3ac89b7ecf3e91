"""Other processes, second cards, checkpoints, and what has no room."""

import subprocess
import sys
import textwrap

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

SPAWNED = """
import warnings
warnings.simplefilter("ignore")
import torch
import torch.multiprocessing as mp

def child(rank, tensor, parameter, queue):
    queue.put((rank, (tensor + 1).cpu().tolist(), tensor.device.type, parameter.requires_grad, tensor.dtype == torch.bfloat16))

class Made(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return torch.full((3,), float(i), device="spyre"), i

if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue = context.SimpleQueue()
    given = torch.arange(6.0).reshape(2, 3).t().bfloat16().to("spyre")
    mp.spawn(child, args=(given, torch.nn.Parameter(torch.ones(2, device="spyre")), queue), nprocs=2)
    print(sorted(queue.get() for _ in range(2)))
    for method in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(Made(), batch_size=2, num_workers=1, multiprocessing_context=method)
        print([(x.device.type, x.tolist(), i.tolist()) for x, i in loader])
    try:
        context.Queue().put((given.float().requires_grad_() * 2))
        context.reducer.ForkingPickler.dumps(given.float().requires_grad_() * 2)
    except RuntimeError as error:
        print(error)
"""


def test_tensors_go_to_other_processes(tmp_path):
    script = tmp_path / "spawned.py"
    script.write_text(textwrap.dedent(SPAWNED))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=240)
    lines = done.stdout.splitlines()
    elements = [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
    assert lines[:1] == [str([(r, elements, "spyre", True, True) for r in range(2)])], done.stdout + done.stderr
    batch = lambda a, b: ("spyre", [[float(a)] * 3, [float(b)] * 3], [a, b])
    assert lines[1:3] == [str([batch(0, 1), batch(2, 3)])] * 2, done.stdout + done.stderr
    assert "detach() it first" in lines[3], done.stdout + done.stderr


def test_gradients_on_another_card():
    x = torch.randn(3, device="spyre:1", requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 3 and x.grad.device == torch.device("spyre:1")
    model = nn.Linear(4, 4).to("spyre:1")
    loss = model(torch.randn(2, 4).to("spyre:1")).to("spyre:0").sum().cpu()
    loss.backward()
    assert model.weight.grad.device == torch.device("spyre:1")


@pytest.mark.parametrize("compiled", [False, True])
def test_checkpoints_repeat_random_numbers(compiled):
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).to("spyre")
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(8))
        model[0].bias.zero_()

    def function(x):
        return checkpoint(model, x, use_reentrant=False)

    function = torch.compile(function, backend="spyre") if compiled else function
    x = torch.ones(64, 8, device="spyre", requires_grad=True)
    out = function(x)
    out.sum().backward()
    # What was kept forward is what the gradient passed through backward.
    assert torch.equal(out.detach().cpu(), x.grad.cpu()) and 0 < (x.grad == 0).sum() < x.numel()


def test_what_has_no_room_is_pytorch_s_exception():
    for make in (lambda: torch.empty(1 << 40, device="spyre"), lambda: torch.ones(1 << 20, device="spyre").expand(1 << 20, -1) + 1):
        with pytest.raises(torch.OutOfMemoryError, match="device memory"):
            make()
    held = []
    with pytest.raises(torch.OutOfMemoryError, match="device memory"):
        for _ in range(1 << 10):
            held.append(torch.empty(1 << 32, device="spyre"))
    held.clear()
    assert torch.ones(3, device="spyre").sum() == 3


def test_streams_are_recorded():
    x = torch.ones(3, device="spyre")
    assert x.record_stream(torch.spyre.Stream()) is None
    with pytest.raises(RuntimeError):
        x.record_stream(3)


def test_refusals_of_whole_operators_go_to_the_cpu():
    x = torch.arange(16).reshape(1, 1, 4, 4)
    assert torch.equal(F.max_pool2d(x.to("spyre"), 2).cpu(), F.max_pool2d(x, 2))


def test_scripted_modules_move():
    model = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    x = torch.randn(2, 4)
    want = model(x)
    got = model.to("spyre")(x.to("spyre"))
    assert got.device.type == "spyre"
    torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=1e-2, atol=1e-2)
