"""Artifacts of compiled functions."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
import torch

import zellige


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(64, 96), torch.nn.Linear(96, 64)

    def forward(self, x):
        return torch.softmax(self.b(torch.nn.functional.gelu(self.a(x))), -1)


def compiled(size):
    torch._dynamo.reset()
    model = Mlp().to("spyre")
    made = torch.compile(model, backend="spyre")
    with torch.no_grad():
        made(torch.ones(size, 64, device="spyre"))
    return made


def written(folder: pathlib.Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_a_report_writes_the_files_of_every_program(tmp_path):
    compiled(8)
    report = zellige.report()
    folders = report.emit(tmp_path / "out")
    assert len(folders) == len(report.programs) >= 1
    for folder, program in zip(folders, report.programs):
        files = written(folder)
        assert {"host.json", "report.json", "superdsc/bundle_0/bundle.mlir"} <= files
        assert any(f.startswith("dci/in-") for f in files) and any(f.startswith("ktir/") for f in files)
        host = json.loads((folder / "host.json").read_text())
        launches = host["load"]["steps"] + host["run"]["steps"]
        # Every step has its kernels, and every kernel its file. A copy between scratchpads lists its sends instead.
        assert len(launches) == len(program.report()["steps"])
        for launch in launches:
            if launch["kind"] == "exchange":
                assert launch["sends"] and "not emitted" in launch["no_kernel"]
                continue
            assert launch["kernels"], launch["no_kernel"]
            assert set(launch["kernels"]) <= files
        assert json.loads((folder / "report.json").read_text()) == program.data()
    # A second time nothing is written over.
    before = {f: (f / "host.json").stat().st_mtime_ns for f in folders}
    again = report.emit(tmp_path / "out")
    assert not set(again) & set(folders)
    assert before == {f: (f / "host.json").stat().st_mtime_ns for f in folders}


def test_the_environment_asks_for_every_graph(tmp_path, monkeypatch):
    monkeypatch.setenv("ZELLIGE_EMIT", str(tmp_path / "all"))
    compiled(8)
    count = len(zellige.report().programs)
    first = sorted((tmp_path / "all").iterdir())
    assert len(first) == count
    compiled(16)
    folders = sorted((tmp_path / "all").iterdir())
    assert len(folders) == count + len(zellige.report().programs) and set(first) < set(folders)
    for folder in folders:
        assert {"host.json", "report.json"} <= written(folder)
    monkeypatch.delenv("ZELLIGE_EMIT")
    compiled(24)
    assert sorted((tmp_path / "all").iterdir()) == folders


def test_a_folder_that_cannot_be_written_is_an_error_with_its_path(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    compiled(8)
    with pytest.raises(OSError, match="file"):
        zellige.report().emit(tmp_path / "file")
    # The environment costs a warning, and the function still runs.
    monkeypatch.setenv("ZELLIGE_EMIT", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="ZELLIGE_EMIT"):
        compiled(40)


def test_processes_do_not_mix(tmp_path):
    script = textwrap.dedent(
        """
        import torch, zellige
        f = torch.compile(lambda x: torch.exp(x) + 1, backend="spyre")
        f(torch.ones(8, 64, device="spyre"))
        """
    )
    environment = {**os.environ, "ZELLIGE_EMIT": str(tmp_path)}
    running = [subprocess.Popen([sys.executable, "-c", script], env=environment) for _ in range(3)]
    assert [p.wait() for p in running] == [0, 0, 0]
    folders = sorted(tmp_path.iterdir())
    assert len(folders) == 3
    assert all({"host.json", "report.json", "superdsc/bundle_0/bundle.mlir"} <= written(f) for f in folders)
