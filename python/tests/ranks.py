"""Processes of one group of `spyreccl` that stay, and do one case after the other: starting them is slow."""

import os
import pickle
import select
import socket
import subprocess
import sys
import traceback


class Ranks:
    """``n`` processes; ``run`` calls a function of a module of tests in each, and returns what they return, by rank."""

    def __init__(self, n, seconds=60, **environment):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        base = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(n), GLOO_SOCKET_IFNAME="lo")
        base.update(OMP_NUM_THREADS="1", ZELLIGE_THREADS="1", RANK_SECONDS=str(seconds), PYTHONPATH=os.pathsep.join(sys.path), **environment)
        self.processes, self.pipes = [], []
        for rank in range(n):
            (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
            command = [sys.executable, "-W", "ignore", __file__, str(theirs_in), str(theirs_out)]
            env = {**base, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            self.processes.append(subprocess.Popen(command, env=env, pass_fds=(theirs_in, theirs_out)))
            os.close(theirs_in)
            os.close(theirs_out)
            self.pipes.append((os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")))

    def start(self, function, *args):
        for _, out in self.pipes:
            pickle.dump((function.__module__, function.__name__, args), out)
            out.flush()

    def results(self, seconds=240):
        """What each returns or raises, as (value, None) or (None, text); (None, "ended") of a process that is gone."""
        found = []
        for ours, _ in self.pipes:
            ready, _, _ = select.select([ours], [], [], seconds)
            if not ready:
                found.append((None, "did not answer"))
                continue
            try:
                found.append(pickle.load(ours))
            except EOFError:
                found.append((None, "ended"))
        return found

    def run(self, function, *args):
        self.start(function, *args)
        found = self.results()
        for rank, (_, error) in enumerate(found):
            assert error is None, f"rank {rank}: {error}"
        return [value for value, _ in found]

    def close(self):
        for _, out in self.pipes:
            out.close()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for ours, _ in self.pipes:
            ours.close()


def _work(given, answers):
    import datetime
    import importlib

    import torch.distributed as dist

    dist.init_process_group("spyreccl", timeout=datetime.timedelta(seconds=float(os.environ["RANK_SECONDS"])))
    while True:
        try:
            module, name, args = pickle.load(given)
        except EOFError:
            break
        try:
            answer = getattr(importlib.import_module(module), name)(*args), None
        except Exception:
            answer = None, traceback.format_exc()
        pickle.dump(answer, answers)
        answers.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    _work(os.fdopen(int(sys.argv[1]), "rb"), os.fdopen(int(sys.argv[2]), "wb"))
