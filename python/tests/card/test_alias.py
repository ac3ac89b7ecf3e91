"""`import torch_spyre` finds Zellige's names for scripts of torch-spyre, and the real package wherever it is installed."""

import os
import pathlib
import subprocess
import sys

import pytest

# What the wheel adds to site-packages beside its packages: the file that Python reads when it starts.
STARTUP = pathlib.Path(__file__).parents[2] / "wheel_data" / "purelib"

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


NEWER = """
import torch, torch_spyre, warnings
assert torch_spyre._C.get_elem_in_stick(torch.float16) == 64
from torch_spyre._C import get_reserved_dims
from torch_spyre._inductor import config, spyre_hint
from torch_spyre._inductor.work_division_hint import work_division_hint
from torch_spyre._inductor.wsr.propagate_named_dims import declare_tensor_dim, name_tensor_dims, reset

def splits(function, *args):
    torch._dynamo.reset()
    torch.compile(function, backend="spyre")(*args)
    return [s["splits"] for s in torch.spyre.last_report().steps if not s["is_move"]]

def hinted(x, y):
    with work_division_hint([2, 1, 4]):
        z = x @ y
    with work_division_hint([4, 1]):
        return z + 1

x, y = torch.randn(128, 256).half().to("spyre"), torch.randn(256, 64).half().to("spyre")
assert splits(hinted, x, y) == [[2, 1, 4], [4, 1]], splits(hinted, x, y)
with config.patch({"ignore_work_division_hints": True}):
    assert splits(hinted, x, y) != [[2, 1, 4], [4, 1]]
assert config.sencores == 32 and config.lx_planning and config.max_buckets == 32
places = lambda: [b["place"].split()[0] for b in torch.spyre.last_report().programs[0].report()["buffers"]]
splits(lambda x: ((x + 1).relu() * 2).sin(), x)
assert "scratchpad" in places(), places()
with config.patch(lx_planning=False):
    splits(lambda x: ((x + 1).relu() * 2).sin(), x)
    assert "scratchpad" not in places(), places()
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    config.layout_solver = "greedy"
assert "changes nothing" in str(said[0].message)
for wrong in (lambda: setattr(config, "sencores", 64), lambda: setattr(config, "sencores", 0), lambda: config.patch(nonsense=1).__enter__()):
    try:
        wrong()
        raise SystemExit("not refused")
    except (ValueError, AttributeError) as error:
        print(type(error).__name__)

r = torch_spyre._C.spyre_empty_reserved((56, 64), (64, 1), torch.float16, 0, 616)
assert r.shape == (56, 64) and get_reserved_dims(r) == {0: {"min": 0, "max": 616, "granularity": 1}}
assert get_reserved_dims(torch.ones(2)) is None and get_reserved_dims(x) is None
r.resize_(600, 64)
for dim, most in ((0, 32), (1, 128)):
    try:
        torch_spyre._C.spyre_empty_reserved((56, 64), (64, 1), torch.float16, dim, most)
        raise SystemExit("not refused")
    except RuntimeError:
        pass
for given in ({0.5: {"max": 64}}, {0: {"min": 56.0, "max": 616}}, {0: {"max": 616, "granulrity": 8}}, {0: {"max": 8}}):
    try:
        torch.ones(56, 32).half().to("spyre", dynamic=given)
        raise SystemExit("not refused")
    except ValueError:
        pass
try:
    torch.ones(56, 32).to("cpu", max=616)
except ValueError:
    pass
declare_tensor_dim("A", 3)
declare_tensor_dim("B", 128)
flat = torch.rand(3 * 128).half().to("spyre")
assert name_tensor_dims(flat, ["A", "B"]) is flat
for names in (["A", "A"], ["A", "C"]):
    try:
        name_tensor_dims(flat, names)
        raise SystemExit("not refused")
    except (ValueError, KeyError):
        pass
reset()
print("done")
"""


def test_what_newer_scripts_import():
    done = run(NEWER)
    assert done.stdout.split() == ["ValueError", "ValueError", "AttributeError", "done"], done.stdout + done.stderr


def run(code, *path, **environment):
    before = [p for p in [os.environ.get("PYTHONPATH")] if p]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), *before]), **environment}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)


def test_scripts_run_unchanged():
    done = run(SCRIPT)
    assert done.stdout.strip() == "spyre:0 True", done.stderr


def start(code, *path, **environment):
    """Runs code in a process whose Python read the files of the wheel when it started."""
    return run(f"import site; site.addsitedir({str(STARTUP)!r})\n{code}", *path, **environment)


def test_it_can_be_the_first_import():
    done = start("from torch_spyre._C import SpyreTensorLayout\nimport torch\nprint(torch.ones(2, device='spyre').device, SpyreTensorLayout.__module__)")
    assert done.stdout.split() == ["spyre:0", "zellige"], done.stderr


@pytest.mark.parametrize("first", ["torch", "zellige"])
def test_torch_and_zellige_bring_it(first):
    done = run(f"import {first}, torch_spyre; print(torch_spyre.SpyreTensorLayout.__module__)")
    assert done.stdout.strip() == "zellige", done.stderr


def test_python_starts_as_fast():
    done = start("import sys; print(*sorted({m.partition('.')[0] for m in sys.modules} & {'zellige', 'numpy', 'torch'}), 'zellige_torch_spyre' in sys.modules)")
    assert done.stdout.strip() == "True", done.stdout + done.stderr


def test_a_variable_frees_the_name():
    done = start("import torch_spyre", ZELLIGE_TORCH_SPYRE="0")
    assert "No module named 'torch_spyre'" in done.stderr


def write_real_package(folder):
    package = folder / "torch_spyre"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("kind = 'real'\n")
    (package / "_C.py").write_text("class SpyreTensorLayout: pass\n")
    return folder


REAL = "print(torch_spyre.kind, SpyreTensorLayout.__module__)"


@pytest.mark.parametrize("first", ["", "import torch", "import zellige", "import torch, zellige.spyre; zellige.spyre.register()"])
def test_the_real_package_wins(tmp_path, first):
    real = write_real_package(tmp_path)
    # Behind all other entries of the path, as site-packages is behind PYTHONPATH.
    code = f"{first}\nimport sys; sys.path.append({str(real)!r})\nimport torch_spyre\nfrom torch_spyre._C import SpyreTensorLayout\n{REAL}"
    done = start(code)
    assert done.stdout.split() == ["real", "torch_spyre._C"], done.stderr


FINDER = """
import sys, importlib.util
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torch_spyre":
            return importlib.util.spec_from_file_location(name, FOLDER + "/torch_spyre/__init__.py", submodule_search_locations=[FOLDER + "/torch_spyre"])
sys.meta_path.append(Finder)
import torch, torch_spyre
from torch_spyre._C import SpyreTensorLayout
print(torch._C._get_privateuse1_backend_name())
"""


def test_a_real_package_of_a_later_finder_wins(tmp_path):
    # Editable installations append finders of their own.
    done = start(f"FOLDER = {str(write_real_package(tmp_path))!r}\n{FINDER}\n{REAL}")
    assert done.stdout.split() == ["privateuseone", "real", "torch_spyre._C"], done.stderr


@pytest.mark.parametrize("choice,name", [("", "privateuseone"), ("1", "spyre")])
def test_the_device_is_left_to_the_real_package(tmp_path, choice, name):
    done = start("import torch; print(torch._C._get_privateuse1_backend_name())", write_real_package(tmp_path), ZELLIGE_AUTOLOAD=choice)
    assert done.stdout.strip() == name, done.stderr


NAMES = """
import torch, torch_spyre
from torch_spyre import BYTES_IN_STICK, DataFormats, DeviceTensorLayout, FixedTiledLayout, SpyreTensorLayout
from torch_spyre._inductor.ir import FixedTiledLayout as same
from torch_spyre._inductor.constants import BYTES_IN_STICK as bytes_too
import zellige.compile
assert BYTES_IN_STICK == bytes_too == torch_spyre._C.BYTES_IN_STICK == zellige.compile.BYTES_IN_STICK == 128
assert FixedTiledLayout is same is zellige.compile.FixedTiledLayout
assert DeviceTensorLayout is SpyreTensorLayout is zellige.compile.SpyreTensorLayout is zellige.compile.DeviceTensorLayout
x = torch.rand(40, 150, dtype=torch.float16).to("spyre")
layout = SpyreTensorLayout([40, 150], torch.float16, [1, 0])
made = torch_spyre.new_empty_with_layout(x, (40, 150), layout)
assert made.device_tensor_layout() == layout == eval(str(made.device_tensor_layout()))
assert zellige.compile.new_empty_with_layout is torch_spyre.new_empty_with_layout

def f(x, w):
    return (x.t()[:, :32] @ w).relu() + 1

w = torch.rand(32, 100, dtype=torch.float16).to("spyre")
y = torch.compile(f, backend="spyre")(x, w)
program = torch.spyre.last_report().programs[0]
found = zellige.compile.buffers()
assert found.keys() == {b["name"] for b in program.report()["buffers"]} and len(found) >= 4
for b in program.report()["buffers"]:
    one = found[b["name"]]
    assert isinstance(one, FixedTiledLayout) and isinstance(one, torch._inductor.ir.FixedLayout)
    assert one.device == torch.device("spyre", 0) and str(one.device_layout) == b["layout"]
    assert one.nbytes == b["bytes"] and len(one.size) == len(one.stride) and one.offset == 0
    assert one.device_layout.host_size == list(one.size)
    assert ("lx" in one.allocation) == b["place"].startswith("scratchpad")
    assert ("pool" in one.allocation) == b["place"].startswith("pool")
    assert one.allocation.get("lx", one.allocation.get("pool", 0)) == int((b["place"].split() + ["0"])[1], 0)
sizes = {tuple(one.size): one for one in found.values()}
assert sizes[40, 150].dtype == torch.float16 and list(sizes[40, 150].stride) == [150, 1]
assert sizes[150, 100].device_layout == y.device_tensor_layout()
again = FixedTiledLayout("spyre:0", torch.float16, [40, 150], [150, 1], layout)
assert again == FixedTiledLayout("spyre:0", torch.float16, [40, 150], [150, 1], eval(str(layout)))
assert again != FixedTiledLayout("spyre:0", torch.float16, [40, 150], [150, 1], SpyreTensorLayout([40, 150], torch.float16))
assert "device_layout=SpyreTensorLayout(device_size=" in str(again)
assert again.storage_size() == 1 * 150 * 64 and again.storage_size() * 2 == again.nbytes
try:
    torch_spyre.nothing
except AttributeError:
    print("done")
"""


def test_names_of_the_documents():
    done = run(NAMES)
    assert done.stdout.split()[-1:] == ["done"], done.stdout + done.stderr
