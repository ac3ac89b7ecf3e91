"""Handles of work: what collectives and messages return, and the thread that receives a message."""

from __future__ import annotations

import threading

import torch
import torch.distributed as dist

# A PyTorch without this class checks no types of handles, so that any object will do.
_Base = dist._Work if hasattr(dist, "_Work") else object


class Done(_Base):
    """A handle of work that is complete when it is returned."""

    def __init__(self, result):
        super().__init__()
        self._result = result
        self._future = torch.futures.Future()
        self._future.set_result(result)

    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True

    def is_success(self):
        return True

    def result(self):
        return self._result

    def get_future(self):
        return self._future


class Later(_Base):
    """A handle of a message; ``finish`` waits for it, once."""

    def __init__(self, tensors, finish):
        super().__init__()
        self._tensors, self._finish = tensors, finish

    def wait(self, timeout=None):
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        return True

    def is_completed(self):
        return self._finish is None

    def is_success(self):
        return self._finish is None

    def result(self):
        self.wait()
        return self._tensors

    def get_future(self):
        self.wait()
        future = torch.futures.Future()
        future.set_result(self._tensors)
        return future


class Receiver(threading.Thread):
    """Receives a message while its process does something else, so that processes may send to each other at once.
    Messages of one sender are received one after the other, because gloo matches them by their order."""

    def __init__(self, after: Receiver | None, take):
        super().__init__(daemon=True)
        self._after, self._take = after, take
        self._made = self._error = None
        self.start()

    def run(self):
        try:
            if self._after is not None:
                self._after.join()
                self._after = None
            self._made = self._take()
        except BaseException as error:
            self._error = error

    def message(self):
        """The result of the receiver; its error is raised here."""
        self.join()
        if self._error is not None:
            raise self._error
        return self._made
