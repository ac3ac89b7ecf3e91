"""Accelerate, Hugging Face's Trainer and its generation on the card, and the finder that sees modules when they are imported.

Accelerate, and ``device_map="auto"`` and the Trainer by it, look for the devices that they know by name, and take the
CPU where there is none. Where PyTorch's current accelerator is the card, they shall take the card;
``ZELLIGE_ACCELERATE=0`` leaves them alone.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import os
import sys
import threading

import torch

from .accelerator import is_current


def _are_wanted() -> bool:
    """Whether these libraries shall choose the card."""
    return os.environ.get("ZELLIGE_ACCELERATE", "").strip() != "0"


def default_device(original):
    """``accelerate.PartialState.default_device``."""

    def default_device(self):
        found = original.fget(self)
        return torch.device("spyre", torch.spyre.current_device()) if found.type == "cpu" and is_current() else found

    return property(default_device, doc=original.__doc__)


def get_max_memory(original):
    """``accelerate.utils.get_max_memory``: the memory of the cards too."""

    @functools.wraps(original)
    def get_max_memory(max_memory=None):
        if not is_current():
            return original(max_memory)
        if max_memory is None:
            cards = {i: torch.spyre.memory_stats(i)["free"] for i in range(torch.spyre.device_count())}
            return {**cards, **original(None)}
        count = torch.spyre.device_count()
        beyond = [place for place in max_memory if isinstance(place, int) and not 0 <= place < count]
        if beyond:
            raise ValueError(f"max_memory names the devices {beyond}, and there are {count} cards: 0 to {count - 1}")
        from accelerate.utils.modeling import convert_file_size_to_int as size

        cards = {i: size(n) if isinstance(n, str) else n for i, n in max_memory.items() if isinstance(i, int)}
        return {**dict(sorted(cards.items())), **original({k: n for k, n in max_memory.items() if not isinstance(k, int)})}

    return get_max_memory


def check_and_set_device_map(original):
    """``transformers.integrations.accelerate.check_and_set_device_map``: the card that a device without an index means
    is decided here. The weights are loaded by other threads, whose current card is the first one."""

    def complete(device):
        if not isinstance(device, (str, torch.device)) or str(device) != "spyre":
            return device
        return torch.device("spyre", torch.spyre.current_device())

    @functools.wraps(original)
    def check_and_set_device_map(device_map):
        found = original(device_map)
        return {name: complete(device) for name, device in found.items()} if isinstance(found, dict) else found

    return check_and_set_device_map


def load_file(original):
    """``safetensors.torch.load_file`` onto a card: the library knows devices by their names, so the file is read to the host."""

    @functools.wraps(original)
    def load_file(filename, device="cpu", *args, **kwargs):
        if not isinstance(device, (str, torch.device)) or torch.device(device).type != "spyre":
            return original(filename, device, *args, **kwargs)
        return {name: tensor.to(device) for name, tensor in original(filename, "cpu", *args, **kwargs).items()}

    return load_file


def trainer_device(original):
    """``transformers.TrainingArguments._setup_devices``: the device that Accelerate chose."""
    known = original.func

    @functools.wraps(known)
    def _setup_devices(self):
        found = known(self)
        chosen = self.distributed_state.device
        return chosen if found.type == "cpu" and chosen.type == "spyre" and not self.use_cpu else found

    changed = functools.cached_property(_setup_devices)
    changed.attrname = original.attrname
    return changed


def compiles_decoding(original):
    """``transformers.GenerationMixin._valid_auto_compile_criteria``: steps with a cache of a fixed size are compiled."""

    @functools.wraps(original)
    def _valid_auto_compile_criteria(self, model_kwargs, generation_config):
        cache = model_kwargs.get("past_key_values", model_kwargs.get("cache_params"))
        if self.device.type != "spyre" or not getattr(cache, "is_compileable", False):
            return original(self, model_kwargs, generation_config)
        from transformers.generation.configuration_utils import CompileConfig

        # Transformers' own switch for devices that it does not know by name, in a copy that is only asked here.
        asked = copy.copy(generation_config)
        asked.compile_config = copy.copy(asked.compile_config) or CompileConfig()
        asked.compile_config._compile_all_devices = True
        return original(self, model_kwargs, asked)

    return _valid_auto_compile_criteria


class _Finder:
    """Finds modules as they would be found without it, and calls back when one of the given names has been loaded."""

    def __init__(self, names, loaded):
        self._names, self._loaded = names, loaded
        # Whether this thread asks the other finders.
        self._asking = threading.local()

    def find_spec(self, name, path=None, target=None):
        if name not in self._names or getattr(self._asking, "now", False):
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
                self._loaded(name)

            spec.loader.exec_module = exec_module
        return spec


def watch_imports(names, loaded):
    """Calls ``loaded`` with the name of each of these modules: now, or when it is imported."""

    def apply():
        watched = [name for name in names if name.startswith("torch.") or _are_wanted()]
        finder = _Finder(watched, loaded)
        sys.meta_path.insert(0, finder)
        for name in watched:
            if name in sys.modules:
                loaded(name)
        return lambda: sys.meta_path.remove(finder)

    return apply
