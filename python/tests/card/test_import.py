"""`import torch` is what it was, for those who never use the device."""

import subprocess
import sys

CODE = """
import os, sys, time
os.environ["ZELLIGE_AUTOLOAD"] = "0"
import torch
before = set(sys.modules)
start = time.perf_counter()
from zellige.spyre import register
register()
took = time.perf_counter() - start
new = {m.partition(".")[0] for m in set(sys.modules) - before}
print(*sorted(new))
print("torch._dynamo" in sys.modules, "sympy" in sys.modules, took, sep="\\n")
"""


def run(*args):
    return subprocess.run([sys.executable, *args], capture_output=True, text=True)


def test_nothing_is_said():
    done = run("-W", "error", "-c", "import torch; torch.ones(2) + 1")
    assert done.returncode == 0 and done.stdout == "" and done.stderr == ""


def test_nothing_slow_is_imported():
    done = run("-c", CODE)
    loaded, dynamo, sympy, took = done.stdout.splitlines()
    assert loaded == "torch zellige" and (dynamo, sympy) == ("False", "False"), done.stdout + done.stderr
    assert float(took) > 0
