"""What is changed of PyTorch: it is what the table says, it can be undone, and users of the CPU see nothing of it."""

import pickle
import subprocess
import sys

import pytest
import torch
from zellige.spyre import patches

# Every attribute of every module and class of PyTorch, and the entries of tables that others may add to, before the
# device is registered, after it, and after it was undone.
CODE = """
import copyreg, os, pkgutil, sys, types
os.environ["ZELLIGE_AUTOLOAD"] = "0"
from multiprocessing.reduction import ForkingPickler
import torch, torch.multiprocessing.reductions, torch.utils.data
from torch.utils.data._utils.collate import default_collate_fn_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

TABLES = {
    "ForkingPickler._extra_reducers": ForkingPickler._extra_reducers, "default_collate_fn_map": default_collate_fn_map,
    "copyreg.dispatch_table": copyreg.dispatch_table,
}

def named(owner):
    return f"{owner.__module__}.{owner.__qualname__}" if isinstance(owner, type) else owner.__name__

def modules():
    return [m for n, m in list(sys.modules.items()) if n.partition(".")[0] == "torch" and isinstance(m, types.ModuleType)]

def attributes():
    found = {f"{named(owner)}.{key}": value for owner in owners for key, value in list(vars(owner).items())}
    for name, table in TABLES.items():
        found.update((f"{name}[{named(key)}]", value) for key, value in list(table.items()) if isinstance(key, type))
    return found

def lists():
    return [list(torch.nn.parameter.UninitializedTensorMixin._allowed_methods), list(sys.meta_path)]

def differing(a, b):
    # A module that was imported since is no change of what was there.
    return sorted(n for n in a.keys() | b.keys() if a.get(n, a) is not b.get(n, b) and not isinstance(b.get(n), types.ModuleType))

# What PyTorch does for any device that registers is no patch: names, methods such as `Tensor.spyre`, the device module.
import zellige.spyre
from zellige.spyre import ccl, device, patches
ccl.install()
ccl.install = lambda: None
_setup_privateuseone_for_python_backend("spyre", backend_module=device)
torch.utils.backend_registration._setup_privateuseone_for_python_backend = lambda *a, **k: None
owners = {id(m): m for m in modules()}
owners.update((id(v), v) for m in modules() for v in list(vars(m).values()) if isinstance(v, type) and v.__module__.startswith("torch"))
owners = list(owners.values())

before, lists_before = attributes(), lists()
zellige.spyre.register()
print("changed", *differing(before, attributes()))
rows = [p.change for p in patches.TABLE if p.when == patches.AT_IMPORT]
print("table", *sorted(
    f"{named(pkgutil.resolve_name(c.owner))}.{c.attribute}" if isinstance(c, patches.Attribute) else c.name
    for c in rows if not isinstance(c, patches.Registration)
))
zellige.spyre.unpatch()
print("left", *differing(before, attributes()))
print("lists", lists() == lists_before, torch.empty in torch.utils._device._device_constructors())
zellige.spyre.patch()
print("again", len(patches.applied()), torch.ones(2, device="spyre").device_tensor_layout() is not None)
"""


@pytest.fixture(scope="module")
def told():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def rows(when):
    return [p for p in patches.TABLE if p.when == when]


def test_every_change_is_a_row_of_the_table(told):
    changed, table = (set(told[i].split()[1:]) for i in (0, 1))
    assert changed == table and len(table) > 20


def test_nothing_of_pytorch_differs_after_the_undoing(told):
    assert told[2].split() == ["left"]
    assert "lists True True" in told


def test_changes_can_be_applied_again(told):
    assert f"again {len(rows(patches.AT_IMPORT))} True" in told


def test_each_row_is_there_once_and_has_a_reason():
    names = [p.what for p in patches.TABLE]
    assert len(names) == len(set(names))
    assert all(len(p.why.split()) > 5 for p in patches.TABLE)


def test_the_number_of_replaced_attributes_does_not_grow():
    assert sum(p.is_replacement for p in rows(patches.AT_IMPORT)) <= 40


def test_what_somebody_else_replaced_stays():
    change = patches.Attribute("torch.backends.mha", "_of_a_test", lambda _: object())
    undo = change.apply()
    torch.backends.mha._of_a_test = other = object()
    try:
        with pytest.warns(RuntimeWarning, match="_of_a_test was replaced by other code"):
            undo()
        assert torch.backends.mha._of_a_test is other
    finally:
        del torch.backends.mha._of_a_test


@pytest.mark.parametrize("device", ["cpu", "spyre"])
def test_attributes_of_a_tensor_are_pickled(device):
    x = torch.arange(3.0, device=device)
    x.note = "kept"
    y = pickle.loads(pickle.dumps(x))
    assert y.device == x.device and torch.equal(y.cpu(), x.cpu()) and y.note == "kept" and y is not x


def test_streams_are_recorded_in_a_compiled_function():
    stream = torch.spyre.Stream()

    def function(x):
        x.record_stream(stream)
        return x + 1

    assert torch.compile(function, backend="spyre")(torch.ones(3, device="spyre")).tolist() == [2, 2, 2]


def test_the_current_accelerator_is_the_card():
    before = torch.spyre.current_device()
    try:
        torch.spyre.set_device(1)
        assert torch.accelerator.current_device_index() == 1
        held = torch.ones(1000, device="spyre:1")
        stats = torch.accelerator.memory_stats()
        assert stats["allocated_bytes.all.current"] == torch.accelerator.memory_allocated() == torch.spyre.memory_allocated(1) > 0
        torch.accelerator.empty_cache()
        del held
    finally:
        torch.spyre.set_device(before)
