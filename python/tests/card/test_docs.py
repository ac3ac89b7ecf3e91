"""What the documents say works as they say it."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

NARROW = ("ZELLIGE_FP32", "ZELLIGE_INT64")
ROOT = pathlib.Path(__file__).parents[3]


def run(code, folder):
    # As a reader runs them: with nothing said about storage.
    env = {name: value for name, value in os.environ.items() if name not in NARROW}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("page", ["docs/quickstart-pytorch.md", "README.md"])
def test_pages(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    run("\n".join(blocks), tmp_path)


@pytest.mark.parametrize("name", ["layouts", "eager", "compiled"])
def test_examples(name, tmp_path):
    out = run((ROOT / "examples" / "python" / f"{name}.py").read_text(), tmp_path)
    expected = {"layouts": ["{'m': 66}", "(2, 3, 64)"], "eager": ["the same elements: True", "(simulated)"], "compiled": ["1 program,", "wrote report.html"]}
    assert all(text in out for text in expected[name]), out


def test_several_cards(tmp_path):
    script = ROOT / "examples" / "python" / "tensor_parallel.py"
    code = f"import sys; sys.argv = ['torchrun', '--standalone', '--nproc-per-node', '2', {str(script)!r}]; from torch.distributed.run import main; main()"
    out = run(code, tmp_path)
    assert "1 collective," in out and "over 2 cards" in out and "relative difference to one card" in out, out


def test_notebook(tmp_path):
    import json

    notebook = json.loads((ROOT / "examples" / "python" / "quickstart.ipynb").read_text())
    code = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    run("\n".join(code), tmp_path)
