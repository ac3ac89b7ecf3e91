"""How many cards a process sees, in the words of torch-spyre's environment."""

from __future__ import annotations

import contextlib
import os
import warnings

_COUNT = "ZELLIGE_DEVICES"
_LISTS = ("SPYRE_VISIBLE_DEVICES", "SPYRE_DEVICES")
# Without ZELLIGE_DEVICES.
_USUAL = 2


def count_visible(environment) -> int | None:
    """The number of cards that the variables leave visible; None where they say nothing.

    ``SPYRE_VISIBLE_DEVICES`` and ``SPYRE_DEVICES`` list numbers of cards: each counts once, and those that are not
    there do not count. ``AIU_WORLD_SIZE`` is a number of cards, and no more than there are.
    """
    total = environment.get(_COUNT, "").strip()
    total = int(total) if total.isdigit() else _USUAL
    for name in _LISTS:
        text = environment.get(name, "").strip()
        if text:
            numbers = [word.strip() for word in text.split(",") if word.strip()]
            strange = [word for word in numbers if not word.isdigit()]
            if strange:
                _ignored(name, text, "numbers of cards with commas between them, such as 0,1")
                continue
            visible = {int(word) for word in numbers if int(word) < total}
            if visible:
                return len(visible)
            _ignored(name, text, f"numbers of cards from 0 to {total - 1}")
    text = environment.get("AIU_WORLD_SIZE", "").strip()
    if not text:
        return None
    if text.isdigit() and int(text) > 0:
        return min(int(text), total)
    _ignored("AIU_WORLD_SIZE", text, "a number of cards, 1 or more")
    return None


def _ignored(name: str, text: str, accepted: str) -> None:
    warnings.warn(f"{name}={text!r} is not accepted: {accepted}; it is ignored", RuntimeWarning, stacklevel=5)


@contextlib.contextmanager
def count_in_environment():
    """Where the cards are counted from: the environment is as before afterwards, because processes that are started
    later count for themselves."""
    visible = count_visible(os.environ)
    if visible is None:
        yield
        return
    before = os.environ.get(_COUNT)
    os.environ[_COUNT] = str(visible)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_COUNT]
        else:
            os.environ[_COUNT] = before
