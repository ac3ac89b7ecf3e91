"""The threads of moves in one process with PyTorch."""

import os
import subprocess
import sys

import numpy as np
import pytest
import zellige

PROGRAM = """
import torch, zellige
torch.set_num_threads(3)
x = torch.randn(2048, 2048)
x.add(1)
assert zellige.thread_pool()["openmp"] and zellige.thread_pool()["openmp_threads"] == 3, zellige.thread_pool()
out = torch.empty(2048, 2048)
for _ in range(3):
    zellige.relayout(x.t(), out=out)
    assert torch.equal(out, x.t())
print(zellige.thread_pool()["pool"], zellige.thread_pool()["openmp_calls"])
torch.set_num_threads(1)
before = zellige.thread_pool()["openmp_calls"]
zellige.relayout(x.t(), out=out)
assert zellige.thread_pool()["openmp_calls"] == before

import os
torch.set_num_threads(3)
child = os.fork()
if child == 0:
    zellige.relayout(x.t(), out=out)
    os._exit(0 if bool((out.numpy() == x.t().numpy()).all()) else 1)
assert os.waitpid(child, 0)[1] == 0
"""


def run(pool):
    pytest.importorskip("torch")
    environment = {**os.environ, "ZELLIGE_AUTOLOAD": "0"}
    environment.pop("ZELLIGE_POOL", None)
    if pool is not None:
        environment["ZELLIGE_POOL"] = pool
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.skipif(sys.platform != "linux", reason="runtimes are looked for on Linux")
@pytest.mark.parametrize("pool", [None, "auto", "own", "openmp"])
def test_moves_run_on_the_threads_that_were_asked_for(pool):
    done = run(pool)
    assert done.returncode == 0, done.stderr
    name, calls = done.stdout.split()
    assert name == (pool or "auto")
    # "auto" depends on what else runs on the machine.
    if pool == "own":
        assert calls == "0"
    if pool == "openmp":
        assert calls == "3"


def test_a_name_of_no_pool_is_a_warning_and_an_error():
    done = run("threads")
    assert done.returncode == 0, done.stderr
    assert '"threads" is no pool of threads; the pools are auto, own, openmp; auto is used' in done.stderr
    with pytest.raises(ValueError, match="the pools are auto, own, openmp"):
        zellige.set_thread_pool("openMP")


def test_the_pool_is_set_and_results_are_the_same():
    x = np.random.default_rng(1).random((1024, 1500))
    before = zellige.thread_pool()["pool"]
    try:
        for pool in ("own", "openmp", "auto"):
            zellige.set_thread_pool(pool)
            assert zellige.thread_pool()["pool"] == pool
            assert (zellige.relayout(x.T) == x.T).all()
    finally:
        assert zellige.set_thread_pool(before) == "auto"
