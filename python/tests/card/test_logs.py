"""Logs: what the environment asks for, and nothing else. Recompiles in reports."""

import logging
import os
import subprocess
import sys

import torch
import zellige
from zellige.compile.recompiles import guard_of

WORK = """
import torch
def f(x):
    return (x @ x).relu()
x = torch.rand(64, 64, dtype=torch.float16).to("spyre")
torch.compile(f, backend="spyre")(x)
torch.eye(3).to("spyre").det()
torch.eye(3).to("spyre").det()
"""


def run(before="", **environment):
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("SPYRE_", "TORCH_SPYRE_"))}
    code = "import warnings\nwarnings.simplefilter('ignore', UserWarning)\n" + before + WORK
    done = subprocess.run(
        [sys.executable, "-W", "ignore::UserWarning", "-c", code], env={**plain, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == ""
    return done.stderr


def test_silent_unless_asked():
    assert "zellige" not in run("import logging; logging.basicConfig()\n", SPYRE_INDUCTOR_LOG_LEVEL="DEBUG", SPYRE_INDUCTOR_LOG="0")


def test_what_is_said_at_each_level():
    info = run(SPYRE_INDUCTOR_LOG="1")
    assert "INFO zellige.compile: program torch compiled in " in info and "us on the card (computed)" in info
    assert "INFO zellige.compile: graph of " in info
    assert "INFO zellige.spyre: downcast of float32 at <string>:" in info
    assert info.count("fallback of aten::_linalg_det.result at <string>:") == 1, "the first is a warning, the others are details"
    assert "DEBUG" not in info
    debug = run(TORCH_SPYRE_DEBUG="1")
    assert debug.count("fallback of aten::_linalg_det.result") == 2
    assert "input arg0_1: (64, 64) float16 SpyreTensorLayout(" in debug and "buffer " in debug and "step " in debug
    warning = run(SPYRE_INDUCTOR_LOG="1", SPYRE_INDUCTOR_LOG_LEVEL="warning")
    assert "fallback of" in warning and "INFO" not in warning
    assert "zellige" not in run(SPYRE_INDUCTOR_LOG="1", SPYRE_INDUCTOR_LOG_LEVEL="ERROR")


def test_the_users_own_handlers_do_not_repeat_it():
    said = run("import logging; logging.basicConfig(level=logging.INFO)\n", SPYRE_INDUCTOR_LOG="1")
    assert said.count("program torch compiled") == 1


def test_a_file_instead_of_stderr(tmp_path):
    path = tmp_path / "log.txt"
    assert "zellige" not in run(SPYRE_INDUCTOR_LOG="1", SPYRE_LOG_FILE=str(path))
    assert "program torch compiled" in path.read_text()
    before = len(path.read_text())
    run(SPYRE_INDUCTOR_LOG="1", SPYRE_LOG_FILE=str(path))
    assert len(path.read_text()) > before, "a second process appends"


def test_mistakes_are_named_and_harmless():
    text = run(
        SPYRE_INDUCTOR_LOG="1", SPYRE_INDUCTOR_LOG_LEVEL="loud", SPYRE_LOG_FILE="/no/such/folder/log", TORCH_SPYRE_DEBUG="very"
    )
    assert "SPYRE_INDUCTOR_LOG_LEVEL='loud' is not accepted: DEBUG, INFO, WARNING, ERROR; INFO is used" in text
    assert "SPYRE_LOG_FILE='/no/such/folder/log' cannot be written" in text
    assert "TORCH_SPYRE_DEBUG='very' is not accepted: 1 or 0" in text
    assert "program torch compiled" in text


def test_a_program_can_ask_as_well(caplog):
    with caplog.at_level(logging.INFO, logger="zellige"), torch.no_grad():
        torch._dynamo.reset()
        torch.compile(lambda x: x * 3, backend="spyre")(torch.ones(64, dtype=torch.float16).to("spyre"))
    assert any(r.name == "zellige.compile" and "compiled in" in r.message for r in caplog.records)


def test_recompiles_are_named_with_place_and_guard():
    torch._dynamo.reset()
    x = torch.ones(64, dtype=torch.float16).to("spyre")
    before = zellige.compile.reports()

    def scaled(x, n):
        return x * n

    def other(x):
        return x + 1

    compiled = torch.compile(scaled, backend="spyre", dynamic=False)
    with torch.no_grad():
        compiled(x, 2)
        first = torch.spyre.last_report()
        assert first.recompiles == [] and first.to_dict()["recompiles"] == []
        compiled(x, 2)
        compiled(torch.ones(128, dtype=torch.float16).to("spyre"), 2)
        second = torch.spyre.last_report()
        compiled(torch.ones(192, dtype=torch.float16).to("spyre"), 2)
        third = torch.spyre.last_report()
        torch.compile(other, backend="spyre")(x)
    line = scaled.__code__.co_firstlineno
    (found,) = second.recompiles
    assert found.at == f"{__file__}:{line}" and found.function == "scaled"
    assert found.guards == ("tensor 'x' size mismatch at index 0. expected 64, actual 128",)
    assert f"recompiled scaled at {__file__}:{line}: tensor" in str(second)
    assert "recompiled scaled" in second._repr_html_()
    assert second.to_dict()["recompiles"][0]["guards"] == found.guards
    assert len(third.recompiles[-1].guards) == 2, "one for each graph that was there"
    assert torch.spyre.last_report().recompiles == [], "those of other functions are not named"
    assert sum(len(r.recompiles) for r in zellige.compile.reports() if not any(r is b for b in before)) == 2, "each once"
    # PyTorch forgets, and counts from the start again.
    torch._dynamo.reset()
    with torch.no_grad():
        compiled(x, 2)
        compiled(x, 3)
    (found,) = torch.spyre.last_report().recompiles
    assert torch.spyre.last_report().graphs == 2
    assert "n == 2" in found.guards[0]


def test_guards_are_read_from_pytorchs_words():
    assert guard_of("0/0: a == 1\nUser stack trace:\n  File x") == "a == 1"
    assert guard_of("12/3_1: len(x)   == 2") == "len(x) == 2"
    assert guard_of("Cache line: invalidated") == "Cache line: invalidated"
