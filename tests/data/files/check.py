"""Reads with NumPy and safetensors what Zellige wrote: the other half of the round trip.

    cargo test -p zellige-files --test samples -- --ignored write_for_numpy
    python check.py FOLDER

The folder is the one that the test prints (with a sparse file of 5 GiB). Every sample is compared with `samples.json`.
"""

import json
import pathlib
import sys
import zipfile

import ml_dtypes  # noqa: F401  (registers bfloat16 and the 8-bit floats)
import numpy as np
import safetensors

samples = json.loads((pathlib.Path(__file__).parent / "samples.json").read_text())
folder = pathlib.Path(sys.argv[1])
checked = 0


def same(array, sample, where):
    global checked
    assert array.dtype == np.dtype(sample["dtype"]), (where, array.dtype)
    assert list(array.shape) == sample["shape"], (where, array.shape)
    assert array.tobytes().hex() == sample["row_major_little"], where
    checked += 1


def load(path):
    """With ml_dtypes for what NumPy itself has no type for."""
    known = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
    plain = {"BOOL": "?", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8"}
    tensors = {}
    for name, tensor in safetensors.deserialize(path.read_bytes()):
        code = tensor["dtype"]
        dtype = known.get(code) or plain.get(code) or f"<{code[0].lower()}{int(code[1:]) // 8}"
        tensors[name] = np.frombuffer(tensor["data"], np.dtype(dtype)).reshape(tensor["shape"])
    return tensors


for file, tensors in samples.items():
    for kind in ("npz", "safetensors"):
        path = folder / f"{file}.{kind}"
        if not path.exists():
            assert kind == "npz" and file == "tensors.safetensors", path
            continue
        loaded = np.load(path) if kind == "npz" else load(path)
        assert set(loaded.keys()) == set(tensors), path
        for name, sample in tensors.items():
            same(loaded[name], sample, (path, name))
    if file.endswith(".npy"):
        (sample,) = tensors.values()
        path = folder / f"{file}.npy"
        same(np.load(path), sample, path)
        same(np.load(path, mmap_mode="r"), sample, path)

with safetensors.safe_open(folder / "tensors.safetensors.safetensors", "numpy") as f:
    assert f.metadata() == {"by": "generate.py"}, f.metadata()
with zipfile.ZipFile(folder / "far.npz") as f:
    assert f.getinfo("big.npy").file_size == 128 + (5 << 30)
assert np.load(folder / "far.npz")["far"].tolist() == [1, 2, 3, 4]
print(f"{checked} arrays read back, NumPy {np.__version__}, safetensors {safetensors.__version__}")
