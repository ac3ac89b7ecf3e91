"""What every comparison needs: the program, random numbers, and counts.

A script of this folder makes random cases from a seed, asks the program over `zellige ask` (one process, JSON lines), asks
another library the same, and compares point by point. Where the two differ, the law of the operation decides, by
enumeration: if ours obeys it and the other one does not, the case counts as "peer wrong", and as passed.

    python tests/peers/peer_cute.py path/to/zellige [--seed N] [--cases N]
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import math
import random
import subprocess
import sys


class Zellige:
    """The program, answering requests."""

    def __init__(self, path: str):
        self.process = subprocess.Popen([path, "ask"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, op: str, **fields) -> dict:
        """The answer: an object with `ok` or with `error`."""
        self.process.stdin.write(json.dumps({"op": op, **fields}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the program ended at {op} {fields}")
        answer = json.loads(line)
        if answer.get("error", {}).get("kind") == "internal":
            raise SystemExit(f"a mistake in the engine at {op} {fields}: {answer}")
        return answer

    def ok(self, op: str, **fields) -> dict:
        """The answer to a request that must have one."""
        answer = self.ask(op, **fields)
        if "ok" not in answer:
            raise Refused(f"{op} {json.dumps(fields)[:300]}: {answer['error']['message'][:300]}")
        return answer["ok"]


class Refused(Exception):
    """Ours refused what it should answer."""


class Tally:
    """Counts of one library, and what differs."""

    def __init__(self, name: str):
        self.name, self.passed, self.failed, self.peer_wrong = name, 0, 0, 0
        self.notes: collections.Counter = collections.Counter()
        self.shown: collections.Counter = collections.Counter()

    def good(self, peer_wrong: str | None = None, case: str = "") -> None:
        """A case that passes; `peer_wrong` says what the other library does."""
        self.passed += 1
        if peer_wrong:
            self.peer_wrong += 1
            self.notes[peer_wrong] += 1
            if self.shown[peer_wrong] < 1:
                self.shown[peer_wrong] += 1
                print(f"  peer wrong: {peer_wrong}: {case}")

    def bad(self, case: str, ours, theirs) -> None:
        self.failed += 1
        if self.failed <= 20:
            print(f"  MISMATCH {case}\n    ours   {str(ours)[:400]}\n    theirs {str(theirs)[:400]}")

    def same(self, case: str, ours, theirs) -> bool:
        if ours == theirs:
            self.good()
            return True
        self.bad(case, ours, theirs)
        return False

    def finish(self) -> None:
        """The closing lines, and the exit code of the script."""
        for note, count in sorted(self.notes.items()):
            print(f"  {count} x peer wrong: {note}")
        print(f"{self.name}: {self.passed} passed, {self.failed} failed, {self.peer_wrong} peer wrong")
        if self.passed == 0:
            raise SystemExit(f"{self.name}: nothing was compared")
        sys.exit(1 if self.failed else 0)


def arguments(cases: int):
    """The program, and random numbers that are the same for a seed; `cases` is how many where none is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=20260101)
    parser.add_argument("--cases", type=int, default=cases)
    options = parser.parse_args()
    return Zellige(options.program), random.Random(options.seed), options.cases


def coordinates(shape):
    """Every coordinate, row-major."""
    return itertools.product(*(range(n) for n in shape))


def flatten(shape, coordinate) -> int:
    at = 0
    for n, c in zip(shape, coordinate):
        at = at * n + c
    return at


def unflatten(shape, index: int) -> list:
    coordinate = []
    for n in reversed(shape):
        coordinate.append(index % n)
        index //= n
    return coordinate[::-1]


def size(shape) -> int:
    return math.prod(shape)


def factors(rng: random.Random, most: int, count: int) -> list:
    """Random small extents whose product is at most `most`."""
    out, left = [], most
    for _ in range(count):
        n = rng.choice([1, 2, 2, 3, 4, 4, 5, 6, 8])
        if n <= left:
            out.append(n)
            left //= n
    return out or [1]
