"""Settings of the original's compiler, with the values that its environment gives them.

Four have a counterpart here and hold for what is compiled from then on: ``lx_planning``, ``dxp_lx_frac_avail``,
``ignore_work_division_hints``, and ``sencores``, which is at most what the card has. The others can be read and set, so that scripts
run, and the first change of one warns that it has no effect.
"""

import contextlib as _contextlib
import os as _os
import sys as _sys
import types as _types
import warnings as _warnings

from zellige.compile import settings as _settings


def _flag(name, default):
    return _os.environ.get(name, default).strip().lower() in ("1", "true", "yes", "on")


def _cores():
    import torch

    return torch.spyre.get_device_properties()["cores"]


# Written into the environment, where the compiler looks before every program.
_EFFECTIVE = {
    "lx_planning": ("LX_PLANNING", lambda on: str(int(bool(on)))),
    "lx_planner_relayout": ("SPYRE_LX_PLANNER_RELAYOUT", lambda on: str(int(bool(on)))),
    "dxp_lx_frac_avail": ("DXP_LX_FRAC_AVAIL", str),
}
_VALUES = {
    "lx_planning": _flag("LX_PLANNING", "1"),
    "lx_planner_relayout": _flag("SPYRE_LX_PLANNER_RELAYOUT", "1"),
    "dxp_lx_frac_avail": float(_os.environ.get("DXP_LX_FRAC_AVAIL", "0.2")),
    "ignore_work_division_hints": _flag("SPYRE_INDUCTOR_IGNORE_HINTS", "0"),
    # Without a counterpart.
    "ignore_wsr_hints": _flag("SPYRE_INDUCTOR_IGNORE_HINTS", "0"),
    "ignore_span_overflow_hints": _flag("SPYRE_INDUCTOR_IGNORE_SPAN_OVERFLOW_HINTS", "1"),
    "co_optimizing_lx_planning": _flag("CO_OPTIMIZING_LX_PLANNING", "0"),
    "hbm_pool_planning": _flag("HBM_POOL_PLANNING", "1"),
    "allow_all_ops_in_lx_planning": False,
    "conv2d_direct_lowering": _flag("SPYRE_CONV2D_DIRECT", "0"),
    "ktir_emitter": _flag("TORCH_SPYRE_KTIR", "0"),
    "max_buckets": int(_os.environ.get("MAX_BUCKETS", "32")),
    "min_default_granularity": int(_os.environ.get("MIN_DEFAULT_GRANULARITY", "4")),
    "read_copy_elision": _flag("SPYRE_READ_COPY_ELISION", "1"),
    "core_id_k_fast_emission": _flag("SPYRE_CORE_ID_K_FAST_EMISSION", "1"),
    "bundle_symbolic_args": _flag("BUNDLE_SYMBOLIC_ARGS", "1"),
    "sdsc_cache": _flag("SPYRE_INDUCTOR_SDSC_CACHE", "1"),
    "layout_solver": _os.environ.get("LAYOUT_SOLVER", "cpsat"),
    "validate_op_specs": _flag("SPYRE_VALIDATE_OP_SPECS", "1"),
    "spyre_kernel_cache": _flag("SPYRE_KERNEL_CACHE", "0"),
    "unroll_loops": _flag("UNROLL_LOOPS", "1"),
    "log_passes": _os.environ.get("SPYRE_LOG_PASSES", ""),
    "cost_model": _os.environ.get("SPYRE_DUMP_COST", ""),
}
_said = set()


class _Config(_types.ModuleType):
    """The module: its settings are checked when they are set."""

    def __getattr__(self, name):
        if name == "sencores":
            return _settings.cores or _cores()
        if name in _VALUES:
            return _VALUES[name]
        raise AttributeError(f"torch_spyre._inductor.config has no setting {name!r}; it has {', '.join(sorted(_VALUES))}")

    def __setattr__(self, name, value):
        if name == "sencores":
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _cores():
                raise ValueError(f"sencores={value!r}: the card has {_cores()} cores, and a program takes from 1 to all of them")
            _settings.cores = None if value == _cores() else value
            return
        if name not in _VALUES:
            raise AttributeError(f"torch_spyre._inductor.config has no setting {name!r}; it has {', '.join(sorted(_VALUES))}")
        if name in _EFFECTIVE:
            variable, written = _EFFECTIVE[name]
            _os.environ[variable] = written(value)
        elif name != "ignore_work_division_hints" and value != _VALUES[name] and name not in _said:
            _said.add(name)
            _warnings.warn(f"{name} has no counterpart on the simulated card: setting it changes nothing", stacklevel=2)
        _VALUES[name] = value

    def patch(self, changes=None, **more):
        """Settings for a ``with`` block, or for a function that is decorated with it."""
        if isinstance(changes, str):
            (value,) = more.values()
            changes, more = {changes: value}, {}
        wanted = {**(changes or {}), **more}

        @_contextlib.contextmanager
        def held():
            before = {name: getattr(self, name) for name in wanted}
            try:
                for name, value in wanted.items():
                    setattr(self, name, value)
                yield
            finally:
                for name, value in before.items():
                    setattr(self, name, value)

        return held()


_sys.modules[__name__].__class__ = _Config
