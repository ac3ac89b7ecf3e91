"""Panics of the engine: an exception of ours, and the process goes on."""

import subprocess
import sys

import numpy as np
import pytest
import zellige
from zellige import InternalError, _native, relayout


@pytest.mark.parametrize("place", ["at the door", "with locks", "on a thread"])
def test_a_panic_is_an_exception_of_ours(place):
    with pytest.raises(InternalError) as caught:
        _native._panic_for_tests(place)
    message = str(caught.value)
    assert message.startswith(f"internal error: a panic {place}, asked for by a test")
    assert "panics.rs:" in message and "please report it" in message
    assert message.count("please report it") == 1
    # The locks that were held, the threads and the caches still work.
    a = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
    assert np.array_equal(relayout(a, None, "S[(1024,1024):(1,1024)]"), a.T.ravel())
    assert zellige.Layout("S[4:1]").apply(3) == [{"m": 3}]


def test_except_exception_catches_it():
    try:
        _native._panic_for_tests("at the door")
    except Exception as e:
        assert type(e) is InternalError and isinstance(e, RuntimeError)
    assert (InternalError.__module__, InternalError.__name__) == ("zellige", "InternalError")
    assert "pyo3" not in repr(InternalError) and "report" in InternalError.__doc__


def test_a_callback_of_a_library_does_not_unwind(capfd):
    _native._panic_for_tests("in a callback")
    assert "zellige: internal error: a panic in a callback" in capfd.readouterr().err
    with pytest.raises(ValueError, match="there are"):
        _native._panic_for_tests("nowhere")


def test_a_panic_that_nobody_catches_ends_as_python_errors_do():
    program = "import zellige; zellige._native._panic_for_tests('at the door')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "zellige.InternalError: internal error: a panic at the door" in done.stderr


def test_the_device_works_after_a_panic():
    torch = pytest.importorskip("torch")
    x = torch.arange(6, dtype=torch.float16).reshape(2, 3).to("spyre")
    with pytest.raises(InternalError):
        _native._panic_for_tests("with locks")
    y = torch.ones(2, 3, dtype=torch.float16).to("spyre")
    assert torch.equal((x + y * 2).cpu(), torch.arange(2, 8, dtype=torch.float16).reshape(2, 3))
