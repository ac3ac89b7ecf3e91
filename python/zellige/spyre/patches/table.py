"""The one table of what is changed of PyTorch and of libraries on top of it, and why no hook of PyTorch serves.

PyTorch's hooks for a device that is written in Python are ``torch.library`` (operators), the device module
(``torch.spyre``) and three questions of C++ (``torch._C._acc.PrivateUse1Hooks``: whether the device is built,
available and initialized). Allocators, generators, streams and storages of a device can be registered from C++ alone.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from ...compile import artifacts, breaks, byte_images, default, random_state, traced_layouts
from .. import backward_threads, fake_layouts, flex_attention, profiling, random
from ..layouts import to_with_layout
from . import accelerator, arguments, filled, libraries, module_moves, processes, saving, storages
from .changes import Addition, Attribute, Entry, Registration

# The moments at which changes are made; those of the last rows are imports of the modules that they name.
AT_IMPORT = "import torch"
AT_FIRST_GRAPH = "first compiled graph"
AT_SECOND_CARD = "first tensor on a second card"


@dataclasses.dataclass(frozen=True)
class Patch:
    """One change: what is changed, when, how, and why no hook serves."""

    change: Attribute | Entry | Registration
    why: str
    when: str = AT_IMPORT

    @property
    def what(self) -> str:
        """The full name of what is changed."""
        return self.change.name

    @property
    def is_replacement(self) -> bool:
        """Whether an attribute is replaced, and not something added or registered."""
        return type(self.change) is Attribute


class _Why(NamedTuple):
    """Reasons that several rows share."""

    arguments: str = "PyTorch parses arguments in C++ before anything can be asked, and refuses names that it does not know"
    accelerator: str = "streams and allocators of an accelerator answer in C++; a device that is written in Python has none"
    lists: str = "PyTorch compares functions with this list by identity, and has to find the replaced one in it"
    processes: str = "the table is the hook for it; PyTorch's own entry would share memory that the card does not have"
    names: str = "the library asks for devices by their names, and has no list to add to"
    backward: str = "the number of threads of the engine comes from a device guard of C++, which counts one card"
    storages: str = "the hook for it (resizePrivateUse1Bytes) is a method of a C++ class that Python cannot override"
    random: str = "the devices whose states are saved are written in the function, without a list to add to"


_WHY = _Why()


def _random_operator(name: str, make) -> Entry:
    """The function by which an operator of higher order chooses a device."""

    def op():
        from torch._prims import rng_prims

        return getattr(rng_prims, name)

    def find():
        from torch._C import DispatchKey

        return op().py_kernels, DispatchKey.BackendSelect

    return Entry(f"torch._prims.rng_prims.{name}.py_kernels", find, make, lambda: op()._dispatch_cache.clear())


def _copyreg():
    import copyreg

    import torch

    return copyreg.dispatch_table, torch.Tensor


def _loaded(name: str) -> None:
    from . import happened

    happened(name)


_DYNAMO = "torch._dynamo.variables.tensor"
_FLEX, _STATE = "torch.nn.attention.flex_attention", "accelerate.state"
_MODELING, _TRAINER = "accelerate.utils.modeling", "transformers.training_args"
_DEVICE_MAPS, _SAFETENSORS = "transformers.integrations.accelerate", "safetensors.torch"
_GENERATION = "transformers.generation.utils"
_WATCHED = (_DYNAMO, _FLEX, _STATE, _MODELING, _TRAINER, _DEVICE_MAPS, _SAFETENSORS, _GENERATION)

TABLE: tuple[Patch, ...] = (
    # Arguments and methods of torch-spyre.
    Patch(Attribute("torch:Tensor", "to", arguments.to), _WHY.arguments),
    Patch(Attribute("torch:Tensor", "new_empty", arguments.new_empty), _WHY.arguments),
    Patch(Attribute("torch:Tensor", "new_empty_strided", arguments.new_empty_strided), _WHY.arguments),
    Patch(Attribute("torch", "empty", arguments.empty), _WHY.arguments),
    Patch(Attribute("torch", "empty_strided", arguments.empty_strided), _WHY.arguments),
    *(Patch(Attribute("torch", name, filled.takes_layout(name)), _WHY.arguments) for name in filled.FUNCTIONS),
    *(Patch(Attribute("torch:Tensor", name, filled.takes_layout(name)), _WHY.arguments) for name in filled.METHODS),
    Patch(Registration("the methods of lazy parameters", arguments.list_lazy_methods), _WHY.lists),
    Patch(Registration("the factories of torch.device", arguments.list_factories), _WHY.lists),
    Patch(
        Registration("the operators of torch.jit.script", arguments.list_builtins(("empty", "empty_strided", *filled.FUNCTIONS))),
        _WHY.lists,
    ),
    Patch(
        Addition("torch:Tensor", "device_tensor_layout", lambda _: arguments.device_tensor_layout),
        "a name that PyTorch does not have: torch-spyre's tensors do",
    ),
    Patch(
        Addition("torch:Tensor", "to_with_layout", lambda _: to_with_layout),
        "a name that PyTorch does not have: torch-spyre's tensors do",
    ),
    Patch(
        Attribute("torch._subclasses.fake_tensor:FakeTensorConverter", "from_real_tensor", fake_layouts.from_real_tensor),
        "fake tensors have sizes, strides and dtypes of what they stand for, and no hook for other properties",
    ),
    Patch(
        Entry("TensorVariable.tp_methods['device_tensor_layout']", traced_layouts.method_entry, traced_layouts.traced_method),
        "Dynamo has no hook for methods of tensors whose results are no tensors: it would record None",
        _DYNAMO,
    ),
    # Modules that move.
    Patch(
        Attribute("torch:Tensor", "data", module_moves.data),
        "the setter compares kinds of devices in C++ and refuses another; without it Module.to makes new parameters, "
        "which optimizers and ties do not know",
    ),
    Patch(
        Attribute("torch", "_has_compatible_shallow_copy_type", module_moves.has_compatible_shallow_copy_type),
        "Module.to asks this function alone whether it may keep a parameter; the other way, "
        "torch.__future__.set_swap_module_params_on_conversion, is a switch for everybody",
    ),
    Patch(
        Attribute("torch.jit:RecursiveScriptModule", "_apply", module_moves.script_apply),
        "a scripted module needs new parameters, and Module.to does not say what it moves",
    ),
    Patch(
        Attribute("torch.nn:Linear", "_apply", module_moves.linear_apply),
        "modules have hooks for calls, states and registration of parameters, and none for a move",
    ),
    # Memory of a tensor as bytes.
    Patch(
        Entry("copyreg.dispatch_table[torch.Tensor]", _copyreg, saving.reduce_tensor),
        "the table is Python's hook for pickling; torch.serialization.register_package is for storages of bytes",
    ),
    Patch(
        Attribute("torch:Tensor", "__deepcopy__", storages.deepcopy),
        "it copies storages as bytes; the copy module asks the class alone",
    ),
    Patch(
        Addition("torch:Tensor", "__copy__", storages.shallow_copy),
        "without it the copy module copies what a pickle has, which is another storage",
    ),
    Patch(
        Attribute("torch:Tensor", "__repr__", storages.representation),
        "PyTorch formats numbers by operators in float64 and one by one; it knows by name which devices are copied first",
    ),
    Patch(
        Attribute("torch", "save", saving.save),
        "the pickler knows tensors of a storage by the storage, and those of the device are pickled one by one",
    ),
    Patch(
        Attribute("torch._utils", "_rebuild_device_tensor_from_cpu_tensor", saving.rebuild_device_tensor),
        "it copies each tensor of a file to the device, also those that share a storage",
    ),
    Patch(
        Attribute("torch", "load", saving.load),
        "register_package gives storages of bytes a place; tensors of the device are no such storages",
    ),
    Patch(
        Attribute("torch:UntypedStorage", "__new__", storages.new_storage),
        "PyTorch asks an allocator that C++ alone can register, and ends the process where there is none",
    ),
    Patch(Attribute("torch:UntypedStorage", "resize_", storages.resize_storage), _WHY.storages),
    *(Patch(Attribute("torch:UntypedStorage", name, storages.storage_size), _WHY.storages) for name in ("nbytes", "__len__")),
    # Other processes.
    Patch(Entry("ForkingPickler._extra_reducers[torch.Tensor]", processes.pickler_entry("Tensor"), processes.send), _WHY.processes),
    Patch(
        Entry("ForkingPickler._extra_reducers[torch.nn.parameter.Parameter]", processes.pickler_entry("Parameter"), processes.send),
        _WHY.processes,
    ),
    Patch(Entry("default_collate_fn_map[torch.Tensor]", processes.collate_entry, processes.collate), _WHY.processes),
    # The current accelerator.
    Patch(
        Attribute("torch._C", "_accelerator_setDeviceIndex", accelerator.set_device_index),
        "the guard that it asks is told an index, and has no way to refuse one without a card",
    ),
    Patch(Attribute("torch._C", "_accelerator_synchronizeDevice", accelerator.synchronize), _WHY.accelerator),
    Patch(Attribute("torch._C", "_accelerator_isAllocatorInitialized", accelerator.is_allocator_initialized), _WHY.accelerator),
    Patch(Attribute("torch._C", "_accelerator_getDeviceStats", accelerator.device_stats), _WHY.accelerator),
    Patch(Attribute("torch._C", "_accelerator_getMemoryInfo", accelerator.memory_info), _WHY.accelerator),
    Patch(Attribute("torch._C", "_accelerator_resetPeakStats", accelerator.reset_peak_stats), _WHY.accelerator),
    Patch(Attribute("torch._C", "_accelerator_resetAccumulatedStats", accelerator.reset_accumulated_stats), _WHY.accelerator),
    Patch(Attribute("torch._C", "_accelerator_emptyCache", accelerator.empty_cache), _WHY.accelerator),
    Patch(
        Registration("a CPU kernel of aten::_pin_memory", accelerator.pin_memory),
        "torch.library is the hook: the allocator of pinned memory would come from C++",
    ),
    # Generators, profiles, torch.compile.
    Patch(
        Attribute("torch", "Generator", random.generator_class),
        "a generator of a device is made by a C++ function that C++ alone can register",
    ),
    Patch(
        Attribute("torch.autograd.profiler", "profile", profiling.profile),
        "events of a device come from a C++ class that is registered with Kineto",
    ),
    Patch(
        Attribute("torch", "_TorchCompileInductorWrapper", default.compiler_class),
        "Inductor's hooks for a device (register_backend_for_device, a configuration module) take a scheduler of its own "
        "loops and not a graph; torch.compiler.set_default_backend is a switch for everybody",
    ),
    Patch(
        Registration("a filter of Dynamo's log of graph breaks", breaks.listen),
        "logging is the hook: PyTorch says nowhere else why a graph ended, and where",
    ),
    Patch(
        Registration("torch.compiler._cache.CacheArtifactFactory._artifact_types", artifacts.register),
        "PyTorch's compile cache carries programs of the card only where it knows their kind before it loads them",
    ),
    Patch(
        Addition("torch.compiler._cache:CacheInfo", "spyre_program_artifacts", artifacts.listed_keys),
        "every kind of artifact has such a list of its keys; PyTorch's own registration adds it too, and cannot be undone",
    ),
    # Later.
    Patch(Attribute("torch.autograd.graph", "_engine_run_backward", backward_threads.run_backward), _WHY.backward, AT_SECOND_CARD),
    Patch(Attribute("torch.autograd", "_engine_run_backward", backward_threads.run_backward), _WHY.backward, AT_SECOND_CARD),
    Patch(_random_operator("run_and_save_rng_state", random_state.run_and_save), _WHY.random, AT_FIRST_GRAPH),
    Patch(_random_operator("run_with_rng_state", random_state.run_with), _WHY.random, AT_FIRST_GRAPH),
    Patch(
        Registration("torch.ops.aten.upsample_{bilinear,bicubic}2d.py_kernels", byte_images.keep_whole),
        "PyTorch takes these operators apart before the decompositions of a backend are asked",
        AT_FIRST_GRAPH,
    ),
    Patch(Attribute(_FLEX, "flex_attention", flex_attention.for_the_card), "it refuses devices that it does not know by name", _FLEX),
    Patch(Attribute(_STATE + ":PartialState", "default_device", libraries.default_device), _WHY.names, _STATE),
    Patch(Attribute(_MODELING, "get_max_memory", libraries.get_max_memory), _WHY.names, _MODELING),
    Patch(
        Attribute(_DEVICE_MAPS, "check_and_set_device_map", libraries.check_and_set_device_map),
        "weights are loaded by threads of the library's own, and a device without an index would mean their current card",
        _DEVICE_MAPS,
    ),
    Patch(Attribute(_SAFETENSORS, "load_file", libraries.load_file), _WHY.names, _SAFETENSORS),
    Patch(Attribute(_TRAINER + ":TrainingArguments", "_setup_devices", libraries.trainer_device), _WHY.names, _TRAINER),
    Patch(
        Attribute(_GENERATION + ":GenerationMixin", "_valid_auto_compile_criteria", libraries.compiles_decoding),
        "steps with a cache of a fixed size are compiled on devices that it knows by name, and run eagerly on others",
        _GENERATION,
    ),
    Patch(
        Registration("a finder of sys.meta_path", libraries.watch_imports(_WATCHED, _loaded)),
        "the finder is Python's hook: the rows above are applied when their modules are imported, which is slow",
    ),
)
