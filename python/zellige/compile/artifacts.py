"""Programs of the card in PyTorch's own compile cache: ``torch.compiler.save_cache_artifacts()`` returns them, and
``torch.compiler.load_cache_artifacts()`` in another process gives them back, so that nothing is searched for there.

An artifact holds the decisions of one program. They are checked when they are used, so that artifacts of another
version or of another model are ignored.
"""

from __future__ import annotations

from torch.compiler import _cache

from .. import _logs, _native

_TYPE = "spyre_program"


class ProgramArtifact(_cache.CacheArtifact):
    """The decisions of one program, by the key that they have in our own cache."""

    def populate_cache(self) -> None:
        try:
            _native.add_plan(self.key, self.content)
        except ValueError as error:
            # The other artifacts are of use all the same, and this program is searched for.
            _logs.compile.warning("an artifact is ignored: %s", error)

    @staticmethod
    def type() -> str:
        return _TYPE


def register() -> None:
    """Makes the artifacts known to PyTorch. It is done with the device, since artifacts are loaded before anything is
    compiled."""
    if _TYPE not in _cache.CacheArtifactFactory._artifact_types:
        _cache.CacheArtifactFactory.register(ProgramArtifact)


def record(program) -> None:
    """Adds a program to the artifacts that will be saved, wherever its decisions come from."""
    entry = program.plan()
    if entry is not None:
        _cache.CacheArtifactManager.record_artifact(_TYPE, *entry)
