"""Writes the sample files beside it, with NumPy and safetensors as their authors ship them.

    python -m venv v && v/bin/pip install numpy safetensors ml_dtypes && v/bin/python generate.py

Values count up from 0 in row-major order (booleans alternate), so that a test knows them.
`samples.json` lists what each file holds, as NumPy reads it back.
"""

import io
import json
import pathlib
import struct

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

HERE = pathlib.Path(__file__).parent
SAMPLES = {}


def count(shape, dtype, order="C"):
    n = int(np.prod(shape))
    values = np.arange(n) % 2 if np.dtype(dtype) == bool else np.arange(n)
    return np.asarray(values.reshape(shape).astype(dtype), order=order)


def note(file, name, array, **more):
    """Elements as the file has them: row-major values, the order and byte order aside."""
    little = array.astype(array.dtype.newbyteorder("<"), order="C")
    entry = {
        "dtype": array.dtype.newbyteorder("=").name,
        "shape": list(array.shape),
        "fortran": bool(array.flags.f_contiguous and not array.flags.c_contiguous),
        "big": array.dtype.str[0] == ">",
        "row_major_little": little.tobytes().hex(),
        **more,
    }
    SAMPLES.setdefault(file, {})[name] = entry


def npy(name, array, version=None):
    with open(HERE / f"{name}.npy", "wb") as f:
        np.lib.format.write_array(f, array, version=version)
    note(f"{name}.npy", name, np.load(HERE / f"{name}.npy"))


npy("c_f32", count((3, 4), "<f4"))
npy("fortran_f64", count((3, 4), "<f8", "F"))
npy("fortran_3d_i2", count((2, 3, 4), "<i2", "F"))
npy("big_i4", count((2, 5), ">i4"))
npy("big_c8", (count((3,), ">c8") * (1 + 2j)).astype(">c8"))
npy("scalar_f8", np.array(2.5))
npy("empty_f4", count((0, 7), "<f4"))
npy("bool", count((9,), bool))
npy("f16", count((4, 2), "<f2"))
npy("i64", count((2, 2, 2), "<i8"))
npy("u8", count((5,), "|u1"))
npy("version2", count((3,), "<u2"), version=(2, 0))
npy("version3", count((3,), "<u4"), version=(3, 0))

# What must be refused: raw bytes of bfloat16, records, text, several arrays in one file.
np.save(HERE / "refused_bf16.npy", count((4,), ml_dtypes.bfloat16))
np.save(HERE / "refused_record.npy", np.zeros(2, [("a", "<f4"), ("b", "<i2", (2,))]))
np.save(HERE / "refused_text.npy", np.array(["ab", "c"]))
two = io.BytesIO()
np.save(two, count((2,), "<f4"))
np.save(two, count((2,), "<f4"))
(HERE / "refused_two.npy").write_bytes(two.getvalue())

arrays = {"a": count((3, 4), "<f4"), "é": count((2, 3), "<i8", "F"), "deep/b": count((), "<f2")}
for file, save in [("stored.npz", np.savez), ("deflated.npz", np.savez_compressed)]:
    save(HERE / file, text=np.array(["x"]), **arrays)
    for name in arrays:
        note(file, name, np.load(HERE / file)[name], deflated=file == "deflated.npz")

TENSORS = {
    "f32": count((2, 3), "<f4"),
    "bf16": count((5,), ml_dtypes.bfloat16),
    "e4m3": count((2, 4), ml_dtypes.float8_e4m3fn),
    "e5m2": count((3,), ml_dtypes.float8_e5m2),
    "i64": count((), "<i8"),
    "bool": count((3,), bool),
    "empty": count((0, 2), "<f2"),
}
blob = safetensors.numpy.save(TENSORS, {"by": "generate.py"})
(HERE / "tensors.safetensors").write_bytes(blob)
for name, tensor in safetensors.deserialize(blob):
    array = TENSORS[name]
    assert bytes(tensor["data"]) == array.tobytes() and tensor["shape"] == list(array.shape)
    SAMPLES.setdefault("tensors.safetensors", {})[name] = {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "fortran": False,
        "big": False,
        "row_major_little": array.tobytes().hex(),
    }

# A dtype of the format that Zellige has no name for, beside one that it has.
header = json.dumps({
    "scale": {"dtype": "F8_E8M0", "shape": [2], "data_offsets": [4, 6]},
    "x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
}).encode()
blob = struct.pack("<Q", len(header)) + header + struct.pack("<f", 1.5) + b"\x7f\x80"
assert len(safetensors.deserialize(blob)) == 2
(HERE / "e8m0.safetensors").write_bytes(blob)

(HERE / "samples.json").write_text(json.dumps(SAMPLES, indent=1, ensure_ascii=False) + "\n")
