"""The walk of ``torch.compile`` in ARCHITECTURE.md is what a run calls, in that order."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[3]

# Compiles and runs a small model, and reads its report. Rust's functions record themselves in the file of ZELLIGE_CALLS.
# Python's are recorded here, by the profiler hook of the interpreter, so that the package needs no code for it.
SCRIPT = """
import os, sys, threading
import torch

PACKAGE = os.path.dirname(__import__("zellige").__file__)
wanted = set(sys.argv[1:])

def record(frame, event, argument):
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(PACKAGE):
        return
    line = "python/zellige" + code.co_filename[len(PACKAGE):] + " " + code.co_name
    if line in wanted:
        wanted.remove(line)
        with open(os.environ["ZELLIGE_CALLS"], "a") as recording:
            recording.write(line + "\\n")

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).to("spyre")
compiled = torch.compile(model, backend="spyre")
sys.setprofile(record)
with torch.no_grad():
    compiled(torch.randn(4, 64).to("spyre"))
sys.setprofile(None)
print(torch.spyre.last_report().programs[0].data()["graph"])
"""


def _walk() -> list[str]:
    """The second list of ARCHITECTURE.md, as lines of a recording: file and function."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.split("`torch.compile(model)`\n")[1].split("\n## ")[0]
    return [f"{file} {function}" for file, function in re.findall(r"^\d+\. `([^`]+)` `([^`]+)`", section, re.M)]


def test_torch_compile_calls_the_functions_of_its_walk_in_their_order(tmp_path):
    walk, recording = _walk(), tmp_path / "calls"
    assert len(walk) >= 9
    python = [line for line in walk if line.startswith("python/")]
    # The caches of decisions are empty, as one of them would spare the run its passes.
    environment = dict(os.environ, ZELLIGE_CALLS=str(recording), ZELLIGE_CACHE=str(tmp_path / "cache"), ZELLIGE_CHECK="1")
    ran = subprocess.run([sys.executable, "-c", SCRIPT, *python], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    calls = recording.read_text().splitlines()
    # The device plans moves of its own before the graph is compiled; those are the other walk's functions.
    assert [line for line in calls if line in walk] == walk
