"""Processes of ``torch.distributed`` that stay, and run functions of test modules one after the other.

Starting them is slow: all are forks of one process that has imported PyTorch. It has not registered the device, as each process may
have settings of its own, which count when that is done.
"""

import contextlib
import importlib
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from multiprocessing import connection, forkserver

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch.distributed.tensor.parallel", "zellige.distributed", "numpy", "pytest"])


def _ensure_server():
    before = os.environ.get("ZELLIGE_AUTOLOAD")
    os.environ["ZELLIGE_AUTOLOAD"] = "0"
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop("ZELLIGE_AUTOLOAD")
        if before is not None:
            os.environ["ZELLIGE_AUTOLOAD"] = before


def _serve(rank, size, store, pipe, timeout, backend, environment, path):
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = path
    import datetime

    import torch
    import torch.distributed as dist
    from zellige import _autoload

    _autoload.autoload()
    torch.set_num_threads(1)
    dist.init_process_group(
        backend, init_method=f"file://{store}", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=timeout)
    )
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            break
        if task is None:
            break
        module, name, arguments = task
        try:
            answer = True, getattr(importlib.import_module(module), name)(*arguments)
        except BaseException:
            answer = False, traceback.format_exc()
        pipe.send(answer)
    dist.destroy_process_group()


class Processes:
    """Some processes in one group; further settings are variables of their environment."""

    def __init__(self, size, timeout=60, backend="gloo", **environment):
        self._folder = tempfile.TemporaryDirectory()
        self.size, self._limit = size, timeout + 60
        self._all = []
        _ensure_server()
        store = os.path.join(self._folder.name, "store")
        base = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "ZELLIGE_THREADS": "1", "WORLD_SIZE": str(size), **environment}
        for rank in range(size):
            own, other = _context.Pipe()
            variables = {**base, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            arguments = (rank, size, store, other, timeout, backend, variables, list(sys.path))
            process = _context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            other.close()
            self._all.append((process, own))

    def answers(self, function, *arguments, seconds=None):
        """What a function of a test module gives on every process, as (True, value); (False, text) of one that raised, and (None, text) of one that
        is gone or silent."""
        for _, pipe in self._all:
            pipe.send((function.__module__, function.__name__, arguments))
        pipes = {pipe: rank for rank, (_, pipe) in enumerate(self._all)}
        answers = [(None, "did not answer")] * self.size
        end = time.monotonic() + (self._limit if seconds is None else seconds)
        while pipes:
            ready = connection.wait(list(pipes), max(end - time.monotonic(), 0))
            if not ready:
                break
            for pipe in ready:
                rank = pipes.pop(pipe)
                try:
                    answers[rank] = pipe.recv()
                except EOFError:
                    answers[rank] = None, "ended"
                if answers[rank][0] is False:
                    # The others wait for it, perhaps for ever.
                    end = min(end, time.monotonic() + 3)
        return answers

    def run(self, function, *arguments, lost=()):
        """What a function of a test module gives on every process; None for those that are lost on the way."""
        answers = self.answers(function, *arguments)
        failed = [f"process {rank}: {text}" for rank, (fine, text) in enumerate(answers) if not fine and rank not in lost]
        assert not failed, "\n".join(failed)
        return [value if fine else None for fine, value in answers]

    def close(self):
        for process, pipe in self._all:
            with contextlib.suppress(OSError):
                pipe.send(None)
        end = time.monotonic() + 2
        for process, pipe in self._all:
            process.join(max(end - time.monotonic(), 0))
            if process.is_alive():
                process.kill()
            pipe.close()
        self._folder.cleanup()
