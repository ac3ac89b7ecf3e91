"""The backend "spyre" of ``torch.compile``.

A graph that Dynamo hands over is cut into segments that the Rust compiler takes and single operators
that it does not; those run eagerly, and the report names them with their place in the source. A
segment is compiled for the sizes and layouts of the tensors that really come, once for each.
"""

from .report import Report, last_report, reports

# Names of the documents. Those of Inductor cost an import of it, so they are made at their first use.
_TILED = ("BYTES_IN_STICK", "DeviceTensorLayout", "FixedTiledLayout")
_LAYOUTS = ("new_empty_with_layout", "restickify", "to_with_layout")

__all__ = [
    *_TILED,
    *_LAYOUTS,
    "Report",
    "SpyreTensorLayout",
    "buffers",
    "hint",
    "last_report",
    "plan",
    "reports",
    "spyre_backend",
]


def __getattr__(name: str):
    if name in _TILED:
        from . import tiled

        return getattr(tiled, name)
    if name in _LAYOUTS:
        from ..spyre import layouts

        return getattr(layouts, name)
    if name == "SpyreTensorLayout":
        from .. import SpyreTensorLayout

        return SpyreTensorLayout
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def buffers(index: int = 0) -> dict:
    """The buffers of a program of the function that was compiled last, by their names, each as a
    ``FixedTiledLayout``: size, strides and offset as PyTorch sees it, and the device layout that was chosen."""
    found = last_report()
    if found is None:
        raise RuntimeError("nothing was compiled yet")
    return found.buffers(index)


def hint(split: dict):
    """``with hint(split={"M": 8}): ...`` asks for slices of loops, in the graph that is traced inside.

    A loop of a product is ``M``, ``N``, ``K`` or ``B``; those of other operators are ``c0``, ``c1``, ... by
    the dimensions of the result. More slices than the card has cores are an error; what else cannot hold is left
    out, and the report says why.
    """
    from .hints import hint

    return hint(split)


def spyre_backend(gm, example_inputs, **options):
    """What ``torch.compile(model, backend="spyre")`` calls."""
    from .backend import spyre_backend

    return spyre_backend(gm, example_inputs, **options)


def plan(make_model, *make_inputs, name: str = "plan") -> Report:
    """Compiles a model that has no memory behind it: what it would do on the card.

    ``make_model()`` makes the model, each of ``make_inputs`` an input, with tensors that have sizes and
    dtypes only.
    """
    from .planning import plan

    return plan(make_model, *make_inputs, name=name)
