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


def register():
    """Makes the artifacts known to PyTorch, and gives the function that undoes it. It is done with the device, since
    artifacts are loaded before anything is compiled."""
    known = _cache.CacheArtifactFactory._artifact_types
    known[ProgramArtifact.type()] = ProgramArtifact

    def undo() -> None:
        known.pop(ProgramArtifact.type(), None)

    return undo


def listed_keys(_):
    """``CacheInfo.spyre_program_artifacts``: the keys of the programs among the artifacts, as other kinds have it."""
    return property(lambda info: info.artifacts[ProgramArtifact.type()])


def record(program) -> None:
    """Adds a program to the artifacts that will be saved, wherever its decisions come from."""
    # Without the patches PyTorch does not know the artifacts.
    known = ProgramArtifact.type() in _cache.CacheArtifactFactory._artifact_types
    entry = program.plan() if known else None
    if entry is not None:
        _cache.CacheArtifactManager.record_artifact(_TYPE, *entry)
