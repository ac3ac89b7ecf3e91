"""How long compiling takes with the number of layers: a table, and a plot in docs/pictures.

    python3 bench/compile_growth.py PROGRAM

PROGRAM is a release build of zellige. Every time is the processor time of a whole command, reading and
reporting included, the least of five; the cache is off.
"""

import os
import pathlib
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))
import make  # noqa: E402

LAYERS = [1, 2, 5, 10, 20, 30, 40]


def seconds(program, path):
    best = None
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [program, "compile", path, "--no-cache"], check=True, stdout=subprocess.DEVNULL,
            env={**os.environ, "ZELLIGE_CACHE": "off"},
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = took if best is None else min(best, took)
    return best


def plot(rows):
    width, height, left, top = 640, 320, 60, 20
    right, bottom = width - 20, height - 45
    most = max(t for _, t in rows) * 1.1
    x = lambda n: left + (right - left) * n / LAYERS[-1]
    y = lambda t: bottom - (bottom - top) * t / most
    line = " ".join(f"{x(n):.1f},{y(t):.1f}" for n, t in rows)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="#888"/>',
        f'<polyline points="{line}" fill="none" stroke="#3b6db8" stroke-width="2"/>',
    ]
    for n, t in rows:
        out.append(f'<circle cx="{x(n):.1f}" cy="{y(t):.1f}" r="4" fill="#3b6db8"/>')
        out.append(f'<text x="{x(n):.1f}" y="{bottom + 18}" text-anchor="middle">{n}</text>')
    out.append(f'<text x="{(left + right) / 2}" y="{height - 8}" text-anchor="middle">layers</text>')
    for k in range(5):
        t = most * k / 4
        out.append(f'<text x="{left - 6}" y="{y(t) + 4:.1f}" text-anchor="end">{t:.2f} s</text>')
    return "\n".join(out) + "\n</svg>\n"


def main(program):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        make.HERE = pathlib.Path(folder)
        print("| layers | compile |\n|---:|---:|")
        for n in LAYERS:
            sizes = make.Sizes(hidden=4096, heads=32, kv_heads=8, mlp=12800, layers=n, vocab=49159)
            make.whole("growth", "For a measurement.", sizes, 128, False)
            path = next(pathlib.Path(folder).glob("growth*"))
            rows.append((n, seconds(program, str(path))))
            print(f"| {n} | {rows[-1][1] * 1e3:.0f} ms |", flush=True)
    (ROOT / "docs/pictures/compile-time.svg").write_text(plot(rows))


if __name__ == "__main__":
    main(str(pathlib.Path(sys.argv[1]).resolve()))
