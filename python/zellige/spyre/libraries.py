"""Modules that are imported later, and have to know the device then.

PyTorch's flexible attention takes tensors of the devices that it knows by name (``flex.py``). Accelerate, and Hugging Face's Trainer and ``device_map="auto"`` by it, ask for the devices that they know by name, and
take the CPU where there is none. Where PyTorch's current accelerator is the card, they shall take the card. What is
changed of these is changed when they are imported; ``ZELLIGE_ACCELERATE=0`` leaves the last three alone.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import threading

import torch


def _is_ours() -> bool:
    accelerator = torch.accelerator.current_accelerator()
    return accelerator is not None and accelerator.type == "spyre"


def _default_device(module) -> None:
    known = module.PartialState.default_device

    def default_device(self):
        found = known.fget(self)
        return torch.device("spyre", torch.spyre.current_device()) if found.type == "cpu" and _is_ours() else found

    module.PartialState.default_device = property(default_device, doc=known.__doc__)


def _free_memory(module) -> None:
    known = module.get_max_memory

    @functools.wraps(known)
    def get_max_memory(max_memory=None):
        if not _is_ours():
            return known(max_memory)
        if max_memory is None:
            cards = {i: torch.spyre.memory_stats(i)["free"] for i in range(torch.spyre.device_count())}
            return {**cards, **known(None)}
        count = torch.spyre.device_count()
        beyond = [place for place in max_memory if isinstance(place, int) and not 0 <= place < count]
        if beyond:
            raise ValueError(f"max_memory names the devices {beyond}, and there are {count} cards: 0 to {count - 1}")
        size = module.convert_file_size_to_int
        cards = {i: size(n) if isinstance(n, str) else n for i, n in max_memory.items() if isinstance(i, int)}
        return {**dict(sorted(cards.items())), **known({k: n for k, n in max_memory.items() if not isinstance(k, int)})}

    module.get_max_memory = get_max_memory


def _device_of_a_trainer(module) -> None:
    known = module.TrainingArguments.__dict__["_setup_devices"].func

    @functools.wraps(known)
    def _setup_devices(self):
        found = known(self)
        chosen = self.distributed_state.device
        return chosen if found.type == "cpu" and chosen.type == "spyre" and not self.use_cpu else found

    changed = functools.cached_property(_setup_devices)
    changed.__set_name__(module.TrainingArguments, "_setup_devices")
    module.TrainingArguments._setup_devices = changed


def _flexible_attention(module) -> None:
    from . import flex

    flex.change(module)


_CHANGES = {
    "torch.nn.attention.flex_attention": _flexible_attention,
    "accelerate.state": _default_device,
    "accelerate.utils.modeling": _free_memory,
    "transformers.training_args": _device_of_a_trainer,
}


class _Finder:
    """Finds these modules as they would be found, and changes them when they have been loaded."""

    def __init__(self):
        # Whether this thread asks the other finders.
        self._asking = threading.local()

    def find_spec(self, name, path=None, target=None):
        change = _CHANGES.get(name)
        if change is None or getattr(self._asking, "now", False):
            return None
        self._asking.now = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.now = False
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                try:
                    change(module)
                except (AttributeError, KeyError):
                    # A version that does it otherwise chooses without us.
                    pass

            spec.loader.exec_module = exec_module
        return spec


def install() -> None:
    """Changes them, now or when they are imported."""
    if os.environ.get("ZELLIGE_ACCELERATE", "").strip() == "0":
        for name in ("accelerate.state", "accelerate.utils.modeling", "transformers.training_args"):
            del _CHANGES[name]
    for name, change in _CHANGES.items():
        if name in sys.modules:
            change(sys.modules[name])
    sys.meta_path.insert(0, _Finder())
