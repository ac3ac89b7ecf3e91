"""The backend "spyre" of ``torch.compile``.

A graph that Dynamo hands over is cut into segments that the Rust compiler takes and single operators
that it does not; those run eagerly, and the report names them with their place in the source. A
segment is compiled for the sizes and layouts of the tensors that really come, once for each.
"""

from .report import Report, last_report, reports

__all__ = ["Report", "hint", "last_report", "plan", "reports", "spyre_backend"]


def hint(split: dict):
    """``with hint(split={"M": 8}): ...`` asks for slices of loops, in the graph that is traced inside.

    A loop of a product is ``M``, ``N``, ``K`` or ``B``; those of other operators are ``c0``, ``c1``, ... by
    the dimensions of the result. What cannot hold is left out, and the report says why.
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
