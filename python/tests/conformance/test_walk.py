"""A walk goes on behind an entry that ends its process, and behind one that never ends."""

import database
import pytest

ENTRIES = '''
import os, time

def entries():
    return [("first", "float32", "forward"), ("falls", "float32", "forward"), ("hangs", "float32", "forward"), ("raises", "float32", "forward"), ("last", "float32", "forward")]

def entry(name, dtype, form):
    if name == "falls":
        os.abort()
    if name == "hangs":
        time.sleep(600)
    if name == "raises":
        raise ValueError("a mistake of the check")
    return dict(entry=[name, dtype, form], kind="native", reason="", sample=0, counts={}, strides=0)
'''


@pytest.mark.skipif(not database.LONG, reason="starts three processes; ZELLIGE_LONG=1")
def test_crashes(tmp_path, monkeypatch):
    import walk

    (tmp_path / "falling.py").write_text(ENTRIES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("ZELLIGE_CONFORMANCE_LIMIT", "5")
    outcomes = {line["entry"][0]: (line["kind"], line["reason"]) for line in walk.walk("falling", str(tmp_path / "out.jsonl"))}
    assert list(outcomes) == ["first", "falls", "hangs", "raises", "last"]
    assert [kind for kind, _ in outcomes.values()] == ["native", "crash", "crash", "wrong", "native"]
    assert "-6" in outcomes["falls"][1] and "more than" in outcomes["hangs"][1] and "a mistake" in outcomes["raises"][1]
