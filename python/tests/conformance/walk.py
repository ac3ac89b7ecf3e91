"""Long walks in processes of their own, so that a crash or an operator that never ends costs one entry.

`python walk.py operators FILE FROM` is such a process: it writes one line of JSON before each entry and one
after it. `walk("operators")` starts them one after the other and gives all outcomes.
"""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# Seconds that one entry may take.
LIMIT = int(os.environ.get("ZELLIGE_CONFORMANCE_LIMIT", "60"))
# Entries of one process: what it holds on to is given back after them.
SLICE = 1500


def _library(kind):
    sys.path.insert(0, HERE)
    import database

    database.quiet()
    return __import__(kind)


def work(kind: str, path: str, first: int) -> None:
    """Entries from `first` on, one slice of them."""
    library = _library(kind)
    wanted = library.entries()
    with open(path, "a") as file:

        def say(**line):
            file.write(json.dumps(line) + "\n")
            file.flush()

        for number in range(first, min(first + SLICE, len(wanted))):
            at = wanted[number]
            name = [str(part).removeprefix("torch.") for part in at]
            say(start=number, entry=name)
            # Ends the process, from a thread that no lock holds up.
            faulthandler.dump_traceback_later(LIMIT, exit=True)
            try:
                say(number=number, **library.entry(*at))
            except Exception as error:
                reason = "the check itself failed: " + sys.modules["database"].message(error)
                say(number=number, entry=name, kind="wrong", reason=reason, sample=0, counts={}, strides=0)
            faulthandler.cancel_dump_traceback_later()
        say(end=min(first + SLICE, len(wanted)), of=len(wanted))


def walk(kind: str, path: str | None = None, progress=None) -> list:
    """The outcome of every entry."""
    path = path or os.path.join(tempfile.mkdtemp(), kind + ".jsonl")
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    first = 0
    while True:
        command = [sys.executable, os.path.join(HERE, "walk.py"), kind, path, str(first)]
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        with open(path) as file:
            lines = [json.loads(line) for line in file]
        last = lines[-1] if lines else {}
        if progress:
            progress(last)
        if "end" in last:
            if last["end"] >= last["of"]:
                return [line for line in lines if "kind" in line]
            first = last["end"]
            continue
        if "start" not in last:
            raise RuntimeError(f"the walk ended before its first entry:\n{done.stderr[-3000:]}")
        reason = f"more than {LIMIT} s" if "Timeout" in done.stderr else f"the process ended with {done.returncode}"
        crash = dict(number=last["start"], entry=last["entry"], kind="crash", reason=reason, sample=0, counts={"crash": 1}, strides=0)
        with open(path, "a") as file:
            file.write(json.dumps(crash) + "\n")
        first = last["start"] + 1


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
