"""Makes ``import torch_spyre`` find Zellige's package of that name where no other is installed.

The wheel has a file ``zellige_torch_spyre.pth``, by which Python imports this module when it starts; ``import zellige``
and the registration of the device import it too, for checkouts that are on PYTHONPATH. It stays outside of the package
``zellige`` and imports nothing by itself, because every start of Python pays for it.

A package ``torch_spyre`` inside the wheel would overwrite the files of the real one, or be overwritten, by the order of
installation. The finder here is asked after all others, so that the real one is found first wherever it is: in
site-packages, on PYTHONPATH, or through the finder of an editable installation.
"""

import sys

NAME = "torch_spyre"


class AliasFinder:
    """The last entry of ``sys.meta_path``; it knows one name."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != NAME:
            return None
        import os

        if os.environ.get("ZELLIGE_TORCH_SPYRE", "").strip() == "0":
            return None
        # Finders that were installed later may know the real package.
        real = find_real_package()
        if real is not None:
            return real
        from importlib.util import spec_from_file_location

        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zellige", "_torch_spyre")
        start = os.path.join(folder, "__init__.py")
        # A file of an uninstalled wheel is gone while a process that started before still has the finder.
        if not os.path.exists(start):
            return None
        return spec_from_file_location(NAME, start, submodule_search_locations=[folder])


def find_real_package():
    """The spec of a ``torch_spyre`` that is not Zellige's, or None."""
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        if finder is AliasFinder or find is None:
            continue
        spec = find(NAME, None, None)
        # A folder of this name without code, such as the current folder in a checkout, is no package.
        if spec is not None and spec.loader is not None and spec.origin is not None:
            return spec
    return None


def install() -> None:
    """Appends the finder; more than once does nothing."""
    if AliasFinder not in sys.meta_path:
        sys.meta_path.append(AliasFinder)


install()
