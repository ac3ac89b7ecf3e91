"""The alias package lets scripts for torch-spyre run, and is there only on request."""

import os
import pathlib
import subprocess
import sys

ALIAS = pathlib.Path(__file__).parents[2] / "torch_spyre_alias"

SCRIPT = """
import torch
from torch_spyre._C import SpyreTensorLayout, DataFormats, get_spyre_tensor_layout
from torch_spyre._inductor import spyre_hint
from torch_spyre.ops.fallbacks import FallbackWarning
from torch_spyre.model_utils import load_model_to_spyre
x = torch.rand(5, 100, 150, dtype=torch.float16)
layout = SpyreTensorLayout((5, 100, 150), torch.float16, [1, 0, 2])
y = x.to("spyre", device_layout=layout)
assert get_spyre_tensor_layout(y) == layout
from torch_spyre._inductor.propagate_named_dims import declare_tensor_dim, name_tensor_dims
with spyre_hint(tiles={"M": 4}):
    z = load_model_to_spyre(torch.nn.Linear(150, 4).half())(y)
declare_tensor_dim("rows", 128)
def f(t):
    with spyre_hint(work_div={"rows": 4}):
        return torch.neg(t)
torch.compile(f, backend="spyre")(name_tensor_dims(torch.rand(128, 64).half().to("spyre"), ["rows", "cols"]))
assert torch.spyre.last_report().steps[0]["splits"] == [4, 1], torch.spyre.last_report()
print(z.device, issubclass(FallbackWarning, UserWarning))
"""


def run(code, *path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)


def test_scripts_run_unchanged():
    done = run(SCRIPT, ALIAS)
    assert done.stdout.strip() == "spyre:0 True", done.stderr


def test_without_it_the_name_is_free():
    done = run("import torch_spyre")
    assert "ModuleNotFoundError" in done.stderr


def test_the_real_one_goes_first(tmp_path):
    info = tmp_path / "torch_spyre-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-spyre\nVersion: 9.9\n")
    done = run("import torch_spyre", ALIAS, tmp_path)
    assert "must not stand in its way" in done.stderr
