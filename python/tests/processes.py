"""Processes of ``torch.distributed`` that stay, and run functions of test modules one after the other."""

import contextlib
import importlib
import multiprocessing
import os
import tempfile
import time
import traceback
from multiprocessing import connection

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch.distributed.tensor", "zellige.distributed"])


def _serve(rank, size, store, pipe, timeout, backend):
    import datetime

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        backend, init_method=f"file://{store}", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=timeout)
    )
    while True:
        task = pipe.recv()
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
    """Some processes in one group."""

    def __init__(self, size, timeout=60, backend="gloo"):
        self._folder = tempfile.TemporaryDirectory()
        self.size, self._limit = size, timeout + 60
        self._all = []
        for rank in range(size):
            own, other = _context.Pipe()
            store = os.path.join(self._folder.name, "store")
            process = _context.Process(target=_serve, args=(rank, size, store, other, timeout, backend), daemon=True)
            process.start()
            other.close()
            self._all.append((process, own))

    def run(self, module, name, *arguments, lost=()):
        """What the function gives on every process; None for those that are lost on the way."""
        for _, pipe in self._all:
            pipe.send((module, name, arguments))
        pipes = {pipe: rank for rank, (_, pipe) in enumerate(self._all)}
        answers, failed = [None] * self.size, []
        end = time.monotonic() + self._limit
        while pipes:
            ready = connection.wait(list(pipes), max(end - time.monotonic(), 0))
            if not ready:
                failed.append(f"no answer from {sorted(pipes.values())}")
                break
            for pipe in ready:
                rank = pipes.pop(pipe)
                try:
                    fine, answers[rank] = pipe.recv()
                except EOFError:
                    fine, answers[rank] = rank in lost, None
                if not fine:
                    failed.append(f"process {rank}:\n{answers[rank]}")
                    # The others wait for it, perhaps for ever.
                    end = min(end, time.monotonic() + 3)
        assert not failed, "\n".join(failed)
        return answers

    def close(self):
        for process, pipe in self._all:
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process, _ in self._all:
            process.join(2)
            if process.is_alive():
                process.kill()
        self._folder.cleanup()
