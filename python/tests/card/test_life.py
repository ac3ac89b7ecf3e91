"""Threads, forks, signals, and memory over a long life."""

import gc
import os
import resource
import subprocess
import sys
import threading

import torch
from torch.utils.data import DataLoader, TensorDataset


def test_threads_share_tensors():
    x = torch.rand(64, 200).to("spyre")
    want = (x * 2 + 1).softmax(-1).cpu()
    wrong = []
    def work():
        for _ in range(30):
            if not torch.equal((x * 2 + 1).softmax(-1).cpu(), want):
                wrong.append(1)
    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_threads_write_their_own_rows():
    x = torch.zeros(8, 300, device="spyre")
    def work(i):
        for _ in range(50):
            x[i].add_(1)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert torch.equal(x.cpu(), torch.full((8, 300), 50.0))


def test_forks_in_a_data_loader():
    (torch.ones(3, device="spyre") + 1).cpu()
    data = TensorDataset(torch.arange(32.0).reshape(16, 2))
    seen = [batch.to("spyre").sum().item() for (batch,) in DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context="fork")]
    assert sum(seen) == torch.arange(32.0).sum().item()


def test_a_data_loader_that_pins():
    data = TensorDataset(torch.arange(32.0).reshape(16, 2))
    seen = [batch.to("spyre", non_blocking=True).sum().item() for (batch,) in DataLoader(data, batch_size=4, pin_memory=True)]
    assert sum(seen) == torch.arange(32.0).sum().item()


def test_tensors_go_to_other_processes():
    queue = torch.multiprocessing.get_context("fork").Queue()
    x = torch.rand(3, 4).to("spyre")
    queue.put(x)
    queue.put(torch.nn.Parameter(x))
    same, parameter = queue.get(timeout=60), queue.get(timeout=60)
    assert torch.equal(same, x) and same.device == x.device
    assert isinstance(parameter, torch.nn.Parameter) and torch.equal(parameter, x)


def test_a_forked_process_uses_its_own_card():
    x = torch.ones(5, device="spyre")
    child = os.fork()
    if child == 0:
        ok = (x + 1).sum().item() == 10
        x.add_(5)
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert x.sum().item() == 5


def test_tensors_end_with_the_process():
    code = "import torch; a = torch.rand(5).to('spyre'); b = [a * i for i in range(9)]; import sys; sys.keep = b"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_interrupts_end_long_work():
    code = (
        "import torch, os, signal, threading\n"
        # A shell's background job ignores the signal, and so would its children.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "x = torch.rand(256, 256).to('spyre')\n"
        # In a function: an interrupt between two rounds of a loop that is the first of a `try` escapes
        # from it in Python 3.12.
        "def work():\n"
        "    while True: x @ x\n"
        "threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "try: work()\n"
        "except KeyboardInterrupt: print('stopped', (x + 1).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.startswith("stopped"), done.stderr


def test_an_interrupt_ends_a_compiled_run_between_its_steps():
    code = (
        "import torch, os, signal, threading, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "@torch.compile(backend='spyre')\n"
        "def f(x, w):\n"
        "    for _ in range(100): x = (x @ w).tanh()\n"
        "    return x\n"
        "x, w = torch.rand(8192, 1024).half().to('spyre'), (torch.rand(1024, 1024) / 512).half().to('spyre')\n"
        "held = torch.spyre.memory_allocated()\n"
        "def work():\n"
        "    while True: f(x, w)\n"
        "threading.Timer(6.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "start = time.perf_counter()\n"
        "try: work()\n"
        "except KeyboardInterrupt: took = time.perf_counter() - start\n"
        "print('stopped', took < 8, torch.spyre.memory_allocated() <= held)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "stopped True True\n", done.stdout + done.stderr


def test_memory_is_stable_over_many_operations():
    count = 100_000 if os.environ.get("ZELLIGE_LONG") else 10_000
    x, y = torch.rand(8, 70).to("spyre"), torch.rand(8, 70).to("spyre")
    def round(n):
        for i in range(n // 5):
            z = x * (i % 7) + y
            z[i % 8].mul_(0.5)
            z.t().contiguous()
            z.sum(-1)
        del z
    round(count // 5)
    gc.collect()
    allocated, resident = torch.spyre.memory_allocated(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    round(count)
    gc.collect()
    assert torch.spyre.memory_allocated() == allocated
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident
    assert grown < 20_000, f"{grown} KiB more resident memory"
