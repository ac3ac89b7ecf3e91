"""What the host does inside compiled programs, under the card's own coverage: it is counted, and takes its time once."""

import os
import subprocess
import sys

COMMON = """
import torch, warnings
warnings.simplefilter("ignore")

def elapsed_us(function, *args):
    start, end = torch.spyre.Event(), torch.spyre.Event()
    start.record()
    function(*args)
    end.record()
    return start.elapsed_time(end) * 1e3

x = torch.rand(128, 256).half().to("spyre")
w = torch.rand(256, 64).half().to("spyre")
"""

COUNTED = """
def f(x):
    return (x + 1).sin().relu().cumsum(0).sin()

compiled = torch.compile(f, backend="spyre")
for calls in (1, 2, 3):
    compiled(x)
    counts = {op: found.count for op, found in torch.spyre.fallbacks().items()}
    assert counts == {"sin": 2 * calls, "cumsum": calls}, counts
report = torch.spyre.last_report()
assert {op: n for (op, _), n in report.fallbacks.items()} == {"sin": 2, "cumsum": 1}, report.fallbacks
assert all(at.endswith("script.py:16") for _, at in report.fallbacks), report.fallbacks
found = torch.spyre.fallbacks()["sin"]
assert found.bytes == 3 * 2 * 2 * x.numel() * 2 and "host" in found.reason and list(found.places) == [next(iter(report.fallbacks))[1]], found
assert "3 steps done by the host: cumsum, sin" in str(report), report
assert [f["count"] for f in report.to_dict()["fallbacks"]] == [2, 1] and not report.to_dict()["eager"]
torch.spyre.reset_fallbacks()
f(x)
assert {op: found.count for op, found in torch.spyre.fallbacks().items()} == {"sin": 2, "cumsum": 1}
print("done")
"""

TIMED = """
cases = {
    "pointwise": (lambda x: (x + 1).relu().sin(), x),
    "product": (lambda x, w: (x @ w).softmax(-1), x, w),
    "host": (lambda x: x.cumsum(0).relu().cumsum(1), x),
    "pick": (lambda x, i: x[i] * 2, x, torch.arange(10).to("spyre")),
}
for name, (function, *args) in cases.items():
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="spyre")
    compiled(*args)
    took, report = elapsed_us(compiled, *args), torch.spyre.last_report()
    assert report.launch_us > 0 and took > 0
    # One launch for all steps of the card between two of the host.
    assert report.launches <= 1 + sum(s["on_host"] for s in report.steps), (name, report.launches)
    assert report.launches == 1 or any(s["on_host"] for s in report.steps), (name, report.launches)
    assert abs(took + report.launch_us - report.latency_us) < 1e-3, (name, took, report.launch_us, report.latency_us)
print("done")
"""


def run(folder, code, profile):
    # In a file, as PyTorch knows no lines of a command.
    script = folder / "script.py"
    script.write_text(COMMON + code)
    kept = {k: v for k, v in os.environ.items() if k not in ("ZELLIGE_FP32", "ZELLIGE_INT64")}
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env={**kept, "ZELLIGE_PROFILE": profile})


def test_they_are_counted(tmp_path):
    done = run(tmp_path, COUNTED, "card")
    assert done.stdout.split() == ["done"], done.stderr


def test_nothing_is_counted_where_the_card_does_all(tmp_path):
    done = run(tmp_path, "torch.compile(torch.sin, backend='spyre')(x)\nprint(torch.spyre.fallbacks(), torch.spyre.last_report().fallbacks)", "full")
    assert done.stdout.strip() == "{} {}", done.stderr


def test_events_and_the_report_agree_but_for_launches(tmp_path):
    for profile in ("full", "card"):
        done = run(tmp_path, TIMED, profile)
        assert done.stdout.split() == ["done"], (profile, done.stderr)
