"""What ``import torch`` calls, by the entry point ``torch.backends``."""

import glob
import os
import warnings


def _has_other_accelerator(torch) -> bool:
    """Whether PyTorch can use a GPU of this machine. Only looks at device files: asking a driver
    takes long, and makes it unusable in forked processes."""
    if torch.version.cuda and (glob.glob("/dev/nvidia[0-9]*") or os.path.exists("/dev/dxg")):
        return True
    return bool(getattr(torch.version, "hip", None)) and os.path.exists("/dev/kfd")


OLDEST = (2, 15)


def is_new_enough(torch) -> bool:
    """Whether this PyTorch has what a device written in Python needs."""
    major, minor = torch.__version__.split(".")[:2]
    return (int(major), int(minor)) >= OLDEST


def autoload() -> None:
    """Registers the device "spyre", unless ``ZELLIGE_AUTOLOAD=0``.

    PyTorch has one current accelerator: on a machine with a GPU that PyTorch can use, the GPU stays
    it, and ``ZELLIGE_AUTOLOAD=1`` or ``zellige.spyre.register()`` asks for the device. A PyTorch that is
    too old for the device is left alone. So is a process with the real ``torch_spyre``, whose device has the same name.
    An error never reaches ``import torch``: it becomes a warning.
    """
    choice = os.environ.get("ZELLIGE_AUTOLOAD", "").strip()
    if choice == "0":
        return
    try:
        import torch

        if choice != "1" and _has_other_accelerator(torch):
            return
        # A program with an older PyTorch did not ask for the device; layouts and moves work with it.
        if choice != "1" and not is_new_enough(torch):
            return
        from zellige_torch_spyre import find_real_package

        if choice != "1" and find_real_package() is not None:
            return
        from .spyre._register import register

        register()
    except Exception as error:  # noqa: BLE001 - whatever it is, PyTorch itself must work
        warnings.warn(f'the device "spyre" is not available: {error}', RuntimeWarning, stacklevel=2)
