"""The instruction set: named, lowered by ZELLIGE_ISA, and a bad name is told."""

import os
import subprocess
import sys

import pytest
import zellige

PROGRAM = "import zellige; print(zellige.instruction_set())"


def run(isa):
    env = {k: v for k, v in os.environ.items() if k != "ZELLIGE_ISA"} | {"ZELLIGE_AUTOLOAD": "0"}
    if isa is not None:
        env["ZELLIGE_ISA"] = isa
    return subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True)


def test_the_set_is_named():
    assert zellige.instruction_set() in ("avx512", "avx2", "neon", "baseline")
    assert run(None).stderr == ""


def test_a_set_is_lowered():
    done = run("baseline")
    assert (done.stdout, done.stderr) == ("baseline\n", "")


@pytest.mark.parametrize("name", ["sse9", "AVX2", "avx512 "])
def test_a_name_of_no_set_is_a_warning(name):
    done = run(name)
    assert done.returncode == 0 and done.stdout.strip() == run(None).stdout.strip()
    assert "RuntimeWarning" in done.stderr and f"ZELLIGE_ISA={name}" in done.stderr
