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


@pytest.mark.parametrize("page", ["docs/quickstart-pytorch.md", "README.md", "docs/book/torch-compile.md"])
def test_pages(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    run("\n".join(blocks), tmp_path)


def test_book():
    """What a page shows behind `>>>` is what Python prints, a traceback by its last line."""
    import doctest

    shown = 0
    for page in sorted((ROOT / "docs" / "book").glob("*.md")):
        blocks = "".join(re.findall(r"```pycon\n(.*?)```", page.read_text(), re.DOTALL))
        test = doctest.DocTestParser().get_doctest(blocks, {}, page.name, str(page), 0)
        outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
        assert outcome.failed == 0, page
        shown += outcome.attempted
    assert shown > 8


def test_program():
    """The wheel runs the program, with its exit codes, as a module and as the script that it installs."""
    script = pathlib.Path(sys.executable).with_name("zellige")
    for program in [[sys.executable, "-m", "zellige"], [str(script)]]:
        if len(program) == 1 and not script.exists():
            # A checkout on PYTHONPATH installs no script.
            continue
        found = subprocess.run([*program, "map", "S[(2,3)]", "1,2"], capture_output=True, text=True)
        assert (found.returncode, found.stdout) == (0, "(1, 2) -> {m: 5}\n"), found.stderr
        warned = subprocess.run([*program, "check", "mesh-aliasing"], capture_output=True, text=True)
        assert warned.returncode == 1 and "[aliasing]" in warned.stdout
        refused = subprocess.run([*program, "show", "S[4"], capture_output=True, text=True)
        assert refused.returncode == 2 and refused.stderr.startswith("error"), refused.stderr


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
