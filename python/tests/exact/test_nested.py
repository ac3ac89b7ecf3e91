"""Nested and sparse tensors work or are an exception: no attempt ends the process."""

import json
import subprocess
import sys

import pytest

PARTS = "[torch.randn(2, 3), torch.randn(4, 3)]"
HEADS = "[torch.randn(2, 2, 8), torch.randn(4, 2, 8)]"
# What works prints nothing of an exception; what does not names a way that does.
ATTEMPTS = {
    "jagged": f"n = torch.nested.nested_tensor({PARTS}, layout=torch.jagged, device='spyre'); assert (n * 2).values().shape == (6, 3)",
    "jagged gradients": (
        "t = [torch.randn(2, 3, device='spyre', requires_grad=True), torch.randn(4, 3, device='spyre', requires_grad=True)]; "
        "n = torch.nested.as_nested_tensor(t, layout=torch.jagged); (n * 2).sum().backward(); assert (t[1].grad == 2).all()"
    ),
    "jagged moved": f"assert torch.nested.nested_tensor({PARTS}, layout=torch.jagged).to('spyre').device.type == 'spyre'",
    "jagged linear": (
        f"l = torch.nn.Linear(3, 2).to('spyre'); n = torch.nested.nested_tensor({PARTS}, layout=torch.jagged, device='spyre'); "
        "l(n).values().sum().backward(); assert l.bias.grad.tolist() == [6, 6]"
    ),
    "a list with gradients": "torch.nested.as_nested_tensor([torch.randn(2, 3, device='spyre', requires_grad=True)])*2",
    "a list with gradients to the device": f"torch.nested.as_nested_tensor([p.requires_grad_() for p in {PARTS}], device='spyre')*2",
    "a list": f"torch.nested.nested_tensor({PARTS}, device='spyre', requires_grad=True) * 2",
    "a move": f"torch.nested.nested_tensor({PARTS}).to('spyre') * 2",
    "a print": f"repr(torch.nested.nested_tensor({PARTS}, device='spyre'))",
    "padding": f"torch.nested.nested_tensor({PARTS}, device='spyre', requires_grad=True).to_padded_tensor(0.0).sum().backward()",
    "linear": f"torch.nn.Linear(3, 2).to('spyre')(torch.nested.nested_tensor({PARTS}, device='spyre'))",
    "a copy": f"import copy; copy.deepcopy(torch.nested.nested_tensor({PARTS}, device='spyre'))",
    "unbind": f"torch.nested.nested_tensor({PARTS}, device='spyre').unbind()",
    "attention": f"q = torch.nested.nested_tensor({HEADS}, device='spyre', requires_grad=True); F.scaled_dot_product_attention(q, q, q)",
    "jagged attention with gradients": (
        f"q = torch.nested.nested_tensor({HEADS}, layout=torch.jagged, device='spyre', requires_grad=True); p = q.transpose(1, 2); "
        "F.scaled_dot_product_attention(p, p, p).values().sum().backward()"
    ),
    "sparse COO": "torch.eye(3).to_sparse().to('spyre') @ torch.ones(3, 3, device='spyre')",
    "sparse COO made": "torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), device='spyre') * 2",
    "sparse COO of the device": "torch.eye(3, device='spyre').to_sparse() * 2",
    "sparse CSR": "torch.eye(3).to_sparse_csr().to('spyre') @ torch.ones(3, 3, device='spyre')",
    "sparse CSR of the device": "torch.eye(3, device='spyre').to_sparse_csr() * 2",
}
# PyTorch's C++ refuses these before a kernel of the device is called.
REFUSED_BY_PYTORCH = {
    "linear": "RuntimeError: Internal error: NestedTensorImpl doesn't support sizes",
    "jagged attention with gradients": "RuntimeError: scaled_dot_product_attention: If inputs are nested tensors they must be contiguous",
}
WORK = {"jagged", "jagged gradients", "jagged moved", "jagged linear"}

# One process imports PyTorch, and a child of it makes each attempt.
CHILD = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
import torch, torch.nn.functional as F
torch.set_num_threads(1)
found = {}
for name, attempt in json.loads(sys.argv[1]).items():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            exec(attempt)
            said = ""
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode()[:4000])
        os._exit(0)
    os.close(write)
    said = b"".join(iter(lambda: os.read(read, 4096), b"")).decode()
    found[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def results():
    run = subprocess.run([sys.executable, "-c", CHILD, json.dumps(ATTEMPTS)], capture_output=True, text=True, check=True, timeout=300)
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_works_or_is_an_exception(results, name):
    status, said = results[name]
    assert status == 0, f"the process ended with {status}"
    if name in WORK:
        assert said == ""
    elif name.startswith("sparse"):
        assert "x.to_dense().to('spyre')" in said
    elif name in REFUSED_BY_PYTORCH:
        assert said.startswith(REFUSED_BY_PYTORCH[name])
    else:
        assert "layout=torch.jagged" in said
