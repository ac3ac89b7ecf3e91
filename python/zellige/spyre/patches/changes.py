"""Changes of other packages' objects that can be undone.

A change is made by a function that returns how to undo it. It is undone only where its result still stands: what
somebody else put there since is theirs, and stays.
"""

from __future__ import annotations

import inspect
import pkgutil
import warnings
from collections.abc import Callable

_MISSING = object()


class Attribute:
    """An attribute of a module or a class; ``make`` gets what is there, or None, and gives what replaces it."""

    def __init__(self, owner: str, name: str, make: Callable):
        self.owner, self.attribute, self.make = owner, name, make
        self.name = f"{owner.replace(':', '.')}.{name}"

    def apply(self) -> Callable[[], None]:
        owner = pkgutil.resolve_name(self.owner)
        before = vars(owner).get(self.attribute, _MISSING)
        setattr(owner, self.attribute, self.make(inspect.getattr_static(owner, self.attribute, None)))
        # What a class stores, which is not always what was given to it.
        ours = vars(owner)[self.attribute]

        def undo() -> None:
            if vars(owner).get(self.attribute, _MISSING) is not ours:
                _left(self.name)
            elif before is _MISSING:
                # It was inherited, or was not there.
                delattr(owner, self.attribute)
            else:
                setattr(owner, self.attribute, before)

        return undo


class Addition(Attribute):
    """An attribute that was not there."""


class Entry:
    """An entry of a dictionary, given by a function that finds the dictionary and the key; ``changed`` is called after
    each change of it."""

    def __init__(self, name: str, find: Callable, make: Callable, changed: Callable[[], None] = lambda: None):
        self.name, self.find, self.make, self.changed = name, find, make, changed

    def apply(self) -> Callable[[], None]:
        mapping, key = self.find()
        before = mapping.get(key, _MISSING)
        ours = mapping[key] = self.make(None if before is _MISSING else before)
        self.changed()

        def undo() -> None:
            if mapping.get(key, _MISSING) is not ours:
                _left(self.name)
            elif before is _MISSING:
                del mapping[key]
            else:
                mapping[key] = before
            self.changed()

        return undo


class Registration:
    """Something that is handed to another package, by a function that returns how to take it back."""

    def __init__(self, name: str, apply: Callable[[], Callable[[], None]]):
        self.name, self.apply = name, apply


def _left(name: str) -> None:
    warnings.warn(f"{name} was replaced by other code since, and is left as it is", RuntimeWarning, stacklevel=4)
