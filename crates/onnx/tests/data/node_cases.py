"""Writes the node tests of the `onnx` package into a folder, in a form that tests/node_tests.rs reads.

    python node_cases.py FOLDER

`FOLDER/cases.json` lists the cases; models and elements lie one after the other in `FOLDER/cases.bin`,
and the list says from which byte to which. Inputs are stored as they lie in memory (what has fewer than
eight bits takes a byte an element), expected outputs as float64 or int64.
"""

import json
import pathlib
import sys
import warnings

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    cases, blob = [], bytearray()

    def put(data):
        start = len(blob)
        blob.extend(data)
        return [start, len(blob)]

    def array(value):
        if isinstance(value, onnx.TensorProto):
            value = onnx.numpy_helper.to_array(value)
        return np.asarray(value) if isinstance(value, np.ndarray | np.generic) else None

    def given(value):
        value = array(value)
        if value is None or value.dtype.kind in "OSU":
            return None
        value = np.ascontiguousarray(value).reshape(value.shape)
        return {"shape": list(value.shape), "dtype": value.dtype.name, "at": put(value.tobytes())}

    def expected(value):
        value = array(value)
        if value is None or value.dtype.kind in "OSUc":
            return None
        integer = value.dtype.kind in "biu" or value.dtype.name.startswith(("int", "uint"))
        wide = value.astype(np.uint64).view(np.int64) if value.dtype == np.uint64 else value.astype(np.int64 if integer else np.float64)
        return {"shape": list(value.shape), "dtype": value.dtype.name, "float": not integer, "at": put(wide.tobytes())}

    for case in collect_testcases(None):
        (inputs, outputs), = case.data_sets
        model = case.model
        cases.append(
            {
                "name": case.name,
                "rtol": case.rtol,
                "atol": case.atol,
                "model": put(model.SerializeToString()),
                "inputs": [[v.name, given(a)] for v, a in zip(model.graph.input, inputs)],
                "outputs": [[v.name, expected(a)] for v, a in zip(model.graph.output, outputs)],
            }
        )
    (folder / "cases.bin").write_bytes(blob)
    (folder / "cases.json").write_text(json.dumps({"onnx": onnx.__version__, "cases": cases}))
    print(len(cases), "cases of onnx", onnx.__version__)


if __name__ == "__main__":
    # The package makes infinities and NaNs on purpose, and numpy warns of each.
    warnings.simplefilter("ignore")
    main(sys.argv[1])
