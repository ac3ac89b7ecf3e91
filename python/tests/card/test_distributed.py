"""Collectives between processes, each with cards of its own."""

import os
import socket
import subprocess
import sys

CODE = """
import os, torch, torch.distributed as dist
dist.init_process_group("spyreccl")
rank = dist.get_rank()
x = torch.full((3, 70), float(rank + 1), device="spyre")
dist.all_reduce(x)
parts = [torch.zeros(2, device="spyre") for _ in range(2)]
dist.all_gather(parts, torch.full((2,), float(rank), device="spyre"))
y = torch.full((4,), float(rank), device="spyre")
dist.broadcast(y, src=1)
dist.barrier()
print(x.sum().item(), [p[0].item() for p in parts], y[0].item(), x.device.type)
dist.destroy_process_group()
"""


def test_two_processes():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE="2", GLOO_SOCKET_IFNAME="lo")
    ranks = [
        subprocess.Popen([sys.executable, "-W", "ignore", "-c", CODE], env={**env, "RANK": str(r)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for r in range(2)
    ]
    for rank in ranks:
        out, err = rank.communicate(timeout=240)
        assert out.strip().splitlines()[-1] == "630.0 [0.0, 1.0] 1.0 spyre", err[-2000:]
