"""Registration of the device, apart from the package so that PyTorch can ask for it while the package
itself is being imported."""

from __future__ import annotations

import os
import threading
import warnings

_lock = threading.RLock()
_registered = False


def is_registered() -> bool:
    """Whether the device exists in this process."""
    return _registered


def register() -> None:
    """Registers the device; more than once does nothing."""
    global _registered
    with _lock:
        if _registered:
            return
        import torch

        from .._autoload import OLDEST, is_new_enough

        if not is_new_enough(torch):
            oldest = ".".join(map(str, OLDEST))
            raise RuntimeError(f'the device "spyre" needs PyTorch {oldest} or later, and this is {torch.__version__}')
        from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

        from .. import _logs, _native
        from . import autocast, ccl, composite_ops, device, fallback, kernels, ops, patches
        from .visible_devices import count_in_environment

        name = torch._C._get_privateuse1_backend_name()
        if name not in ("privateuseone", "spyre"):
            raise RuntimeError(f'another backend already took PyTorch\'s extension device: "{name}"')
        _logs.setup()
        library = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
        with count_in_environment():
            _native.init(library, fallback.by_name)
        _setup_privateuseone_for_python_backend("spyre", backend_module=device)
        try:
            _native.install_guard()
        except _native.DeviceError as error:
            # Everything else works without it: a device without an index is then the first card.
            warnings.warn(f'"spyre" without an index means spyre:0, whatever the current card is: {error}', RuntimeWarning, stacklevel=2)
        kernels.install()
        fallback.install()
        autocast.install()
        ops.install()
        composite_ops.install()
        ccl.install()
        patches.apply()
        _registered = True
