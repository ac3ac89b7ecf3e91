"""Folders of torch.distributed.checkpoint: read, written, and divided anew by the plans of the program."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
import torch.distributed.checkpoint as dcp  # noqa: E402

from zellige import checkpoint  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("ZELLIGE_PROGRAM") or shutil.which("zellige") or shutil.which(ROOT / "target" / "release" / "zellige")


def tensors():
    made = torch.Generator().manual_seed(19)
    floats = lambda *shape: torch.randn(*shape, generator=made)
    return {
        "transformer.h.0.attn.c_attn.weight": floats(8, 24).to(torch.bfloat16),
        "transformer.h.0.attn.c_attn.bias": floats(24),
        "transformer.wte.weight": floats(13, 8).to(torch.float16),
        "transformer.ln_f.weight": floats(8).double(),
        "transformer.steps": torch.tensor(7),
        "transformer.none": torch.empty(0, 8),
        "transformer.mask": torch.tensor([True, False]),
    }


def loaded(folder, like):
    held = {name: torch.zeros_like(t) for name, t in like.items()}
    dcp.load(held, storage_reader=dcp.FileSystemReader(folder), no_dist=True)
    return held


def same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert (a[name].dtype, a[name].shape) == (b[name].dtype, b[name].shape), name
        assert torch.equal(a[name], b[name]), name


def test_a_folder_goes_there_and_back(tmp_path):
    made = tensors()
    dcp.save(made, storage_writer=dcp.FileSystemWriter(tmp_path / "dcp"), no_dist=True)
    assert checkpoint.is_dcp(tmp_path / "dcp") and not checkpoint.is_dcp(tmp_path)
    assert checkpoint.from_dcp(tmp_path / "dcp", tmp_path / "one") == []
    safe = pytest.importorskip("safetensors.torch")
    same(safe.load_file(tmp_path / "one" / "model.safetensors"), made)
    assert checkpoint.to_dcp(tmp_path / "one", tmp_path / "again") == len(made)
    same(loaded(tmp_path / "again", made), made)


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(ValueError, match="no .metadata in it"):
        checkpoint.from_dcp(tmp_path, tmp_path / "one")
    dcp.save({**tensors(), "epoch": 3}, storage_writer=dcp.FileSystemWriter(tmp_path / "dcp"), no_dist=True)
    with pytest.raises(ValueError, match="`epoch` and 0 others are no tensors"):
        checkpoint.from_dcp(tmp_path / "dcp", tmp_path / "one")
    assert not (tmp_path / "one").exists()
    assert checkpoint.from_dcp(tmp_path / "dcp", tmp_path / "one", drop_others=True) == ["epoch"]
    with pytest.raises(ValueError, match="holds something already"):
        checkpoint.to_dcp(tmp_path / "one", tmp_path / "dcp")
    whole = (tmp_path / "one" / "model.safetensors").read_bytes()
    (tmp_path / "one" / "model.safetensors").write_bytes(whole[:-9])
    with pytest.raises(ValueError, match="truncated"):
        checkpoint.to_dcp(tmp_path / "one", tmp_path / "new")
    with pytest.raises(FileNotFoundError, match="no program"):
        checkpoint.reshard(tmp_path / "dcp", tmp_path / "out", "plan.toml", program="no-such-program")


@pytest.mark.skipif(PROGRAM is None, reason="needs the program: set ZELLIGE_PROGRAM")
def test_plans_divide_folders(tmp_path):
    made = tensors()
    dcp.save(made, storage_writer=dcp.FileSystemWriter(tmp_path / "dcp"), no_dist=True)
    plan = ROOT / "examples" / "reshard" / "gpt2-tp2.toml"
    checkpoint.reshard(tmp_path / "dcp", tmp_path / "ranks", plan, program=PROGRAM)
    safe = pytest.importorskip("safetensors.torch")
    for rank in range(2):
        held = safe.load_file(tmp_path / "ranks" / f"rank-{rank}.safetensors")
        name = "transformer.h.0.attn.c_attn.weight"
        # Each third of the columns is halved.
        want = torch.cat([part.chunk(2, 1)[rank] for part in made[name].chunk(3, 1)], 1)
        assert torch.equal(held[name], want)
        assert torch.equal(held["transformer.wte.weight"], made["transformer.wte.weight"].split(7)[rank])
    # Back to one file, and to a folder of PyTorch's, as a command.
    swapped = {"[from]": "[to]", "[to]": "[from]"}
    lines = [swapped.get(line, line) for line in plan.read_text().splitlines()]
    back = tmp_path / "back.toml"
    back.write_text("\n".join("from" + line[2:] if line.startswith("to = ") else line for line in lines))
    command = [sys.executable, "-m", "zellige.checkpoint", tmp_path / "ranks", tmp_path / "again", "--plan", back, "--to-dcp", "--program", PROGRAM]
    subprocess.run(command, check=True)
    same(loaded(tmp_path / "again", made), made)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again", "back.toml", "dcp", "ranks"]
