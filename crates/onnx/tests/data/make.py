"""Writes nodes.json: single nodes with operands, and what ONNX's reference evaluator makes of them.

    pip install onnx numpy
    python crates/onnx/tests/data/make.py
"""

import json
import pathlib

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

rng = np.random.default_rng(5)
CASES = []


def x(*size):
    return (rng.standard_normal(size) * 2).astype(np.float32)


def ints(*values):
    return np.array(values, dtype=np.int64)


def case(op, *operands, opset=18, outputs=1, constants=(), **attributes):
    """Operands by place, None where one is left out; those in `constants` are part of the model."""
    names = ["" if o is None else f"i{k}" for k, o in enumerate(operands)]
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, names, results, **attributes)
    given = {n: o for n, o in zip(names, operands) if n}
    info = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(o.dtype), o.shape) for n, o in given.items()]
    outs = [helper.make_tensor_value_info(r, TensorProto.UNDEFINED, None) for r in results]
    graph = helper.make_graph([node], "case", info, outs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made = ReferenceEvaluator(model).run(None, given)

    def told(name, a, constant=False):
        a = np.asarray(a)
        kind = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9}[str(a.dtype)]
        return {"name": name, "dtype": kind, "size": a.shape, "values": [float(v) for v in a.ravel()], "constant": constant}

    CASES.append(
        {
            "op": op,
            "opset": opset,
            "attributes": {k: v for k, v in attributes.items()},
            "inputs": [None if o is None else told(n, o, k in constants) for k, (n, o) in enumerate(zip(names, operands))],
            "outputs": [told(n, m) for n, m in zip(results, made)],
        }
    )


def main():
    for op in ["Abs", "Neg", "Exp", "Tanh", "Erf", "Floor", "Ceil", "Round", "Sign", "Sigmoid", "Relu", "Softplus"]:
        case(op, x(3, 5))
    for op in ["Softsign", "HardSwish", "Mish", "Elu", "Selu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Celu"]:
        case(op, x(3, 5))
    case("Gelu", x(3, 5), opset=20)
    case("Gelu", x(3, 5), opset=20, approximate="tanh")
    case("Log", np.abs(x(4)) + 0.1)
    case("Sqrt", np.abs(x(4)))
    case("Reciprocal", x(4) + 9)
    for op in ["Add", "Sub", "Mul", "Div"]:
        case(op, x(2, 3, 4), x(3, 1) + 7)
        case(op, ints(7, -7, 9, -9), ints(2, 2, -4, -4))
    case("Mod", ints(7, -7, 9, -9), ints(2, 2, -4, -4))
    case("Mod", ints(7, -7, 9, -9), ints(2, 2, -4, -4), fmod=1)
    case("Pow", np.abs(x(3)) + 0.1, x(3))
    for op in ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]:
        case(op, ints(1, 2, 3), ints(3, 2, 1))
    for op in ["And", "Or", "Xor"]:
        case(op, np.array([True, True, False]), np.array([True, False, False]))
    case("Where", np.array([[True], [False]]), x(2, 3), x(3))
    case("Clip", x(7), np.float32(-0.5), np.float32(0.75), constants=[1, 2])
    case("Clip", x(7), None, np.float32(0.75))
    case("PRelu", x(2, 3, 4), x(3, 1))
    case("Max", x(2, 3), x(3), x(2, 1))
    case("Mean", x(2, 3), x(2, 3), x(2, 3))
    case("MatMul", x(2, 3, 4), x(4, 5))
    case("MatMul", x(4), x(4, 5))
    case("Gemm", x(3, 4), x(5, 4), x(5), transB=1)
    case("Gemm", x(4, 3), x(4, 5), x(3, 1), transA=1, alpha=0.5, beta=2.0)
    case("Einsum", x(3), x(4), equation="i,j->ij")
    case("Einsum", x(2, 3, 4), x(5, 4), equation="bij,kj->bki")
    case("Einsum", x(2, 3, 4, 5), x(2, 6, 4, 5), equation="bqhd,bkhd->bhqk")
    case("Einsum", x(3, 4), equation="ij->j")
    case("Einsum", x(2, 3), x(3, 4), equation="bi,ic")
    case("Einsum", x(3, 4), x(4, 2), equation="ij,jk->k")
    for op in ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"]:
        case(op, x(2, 3, 4), ints(0, -1), constants=[1], keepdims=0)
    case("ArgMax", x(3, 4), axis=1, keepdims=0)
    case("Softmax", x(3, 4), axis=0)
    case("LogSoftmax", x(3, 4))
    case("CumSum", x(3, 4), ints(1)[0], constants=[1], reverse=1)
    case("TopK", x(3, 6), ints(2), constants=[1], outputs=2)
    case("LayerNormalization", x(2, 3, 4), x(3, 4), x(3, 4), axis=1)
    case("GroupNormalization", x(2, 4, 3), x(4), x(4), num_groups=2, opset=21)
    case("InstanceNormalization", x(2, 3, 4), x(3), x(3))
    case("BatchNormalization", x(2, 3, 2, 2), x(3), x(3), x(3), np.abs(x(3)))
    case("LpNormalization", x(3, 4), axis=1)
    case("Conv", x(1, 4, 6, 5), x(6, 2, 3, 2), x(6), group=2, pads=[1, 0, 2, 1], strides=[2, 1], dilations=[1, 2])
    case("Conv", x(2, 3, 9), x(4, 3, 3), auto_pad="SAME_LOWER", strides=[2])
    case("MaxPool", x(1, 2, 6, 6), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1])
    case("MaxPool", x(1, 2, 9), kernel_shape=[3], strides=[2])
    case("AveragePool", x(1, 2, 6, 6), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    case("AveragePool", x(1, 2, 6, 6), kernel_shape=[3, 3], pads=[0, 1, 2, 1], count_include_pad=1)
    case("GlobalAveragePool", x(2, 3, 4, 5))
    case("Reshape", x(2, 3, 4), ints(0, -1), constants=[1])
    case("Transpose", x(2, 3, 4), perm=[1, 2, 0])
    case("Expand", x(3, 1), ints(2, 1, 4), constants=[1])
    case("Slice", x(6, 7), ints(-2, 1), ints(-9, 6), ints(0, 1), ints(-2, 3), constants=[1, 2, 3, 4])
    case("Split", x(7, 2), outputs=3, num_outputs=3)
    case("Concat", x(2, 1), x(2, 3), axis=1)
    case("Tile", x(2, 3), ints(2, 1), constants=[1])
    case("Pad", x(2, 3), ints(1, 0, 0, 2), np.float32(4), constants=[1, 2])
    case("Pad", x(3, 4), ints(1, 2, 1, 2), constants=[1], mode="reflect")
    case("Trilu", x(4, 5), ints(-1)[0], constants=[1], upper=0)
    case("DepthToSpace", x(1, 8, 2, 3), blocksize=2)
    case("DepthToSpace", x(1, 8, 2, 3), blocksize=2, mode="CRD")
    case("SpaceToDepth", x(1, 2, 4, 6), blocksize=2)
    case("Gather", x(3, 4), ints(2, 0, 1), axis=1)
    case("Gather", x(3, 4, 2), ints(1, 0, 2, 2).reshape(2, 2), axis=1)
    case("Gather", x(3, 4), ints(-1, 0), constants=[1], axis=0)
    case("GatherElements", x(3, 4), ints(0, 1, 2, 3, 1, 0).reshape(3, 2), axis=1)
    case("GatherND", x(3, 4, 2), ints(0, 1, 2, 3).reshape(2, 2))
    case("ScatterElements", x(3, 3), ints(0, 2, 1, 1).reshape(2, 2), x(2, 2), axis=1, reduction="add")
    case("ScatterND", x(4, 2), ints(1, 3).reshape(2, 1), x(2, 2))
    sizes = dict(constants=[3])
    case("Resize", x(1, 2, 4, 5), None, None, ints(1, 2, 7, 3), mode="linear", **sizes)
    case("Resize", x(1, 2, 4, 5), None, None, ints(1, 2, 2, 9), mode="cubic", coordinate_transformation_mode="align_corners", **sizes)
    case("Resize", x(1, 2, 4, 5), None, None, ints(1, 2, 6, 3), mode="nearest", nearest_mode="floor", **sizes)
    case("Resize", x(1, 1, 6, 6), None, None, ints(1, 1, 3, 4), mode="linear", antialias=1, **sizes)
    case("ConvTranspose", x(1, 3, 4, 3), x(3, 2, 3, 2), x(2), strides=[2, 1], pads=[1, 0, 0, 1], output_padding=[1, 0])
    case("ConvTranspose", x(2, 4, 5), x(4, 2, 3), strides=[3], dilations=[2])
    case("Conv", x(1, 2, 3, 4, 3), x(3, 2, 2, 2, 2), x(3), pads=[0, 1, 0, 1, 0, 1])
    case("AveragePool", x(1, 2, 3, 4, 3), kernel_shape=[2, 2, 2], opset=19)
    case("MaxPool", x(1, 2, 3, 4, 3), kernel_shape=[2, 2, 2], dilations=[1, 2, 1])
    case("LSTM", x(3, 2, 4), x(1, 12, 4), x(1, 12, 3), x(1, 24), outputs=3, hidden_size=3, opset=14)
    case("GRU", x(3, 2, 4), x(1, 9, 4), x(1, 9, 3), x(1, 18), outputs=2, hidden_size=3, linear_before_reset=1, opset=14)
    case("RNN", x(3, 2, 4), x(1, 3, 4), x(1, 3, 3), x(1, 6), outputs=2, hidden_size=3, opset=14)
    eight = np.array([[3, 250, 7], [0, 128, 255]], dtype=np.uint8)
    case("QuantizeLinear", x(2, 3), np.float32(0.05), np.uint8(120), opset=21)
    case("QuantizeLinear", x(2, 3), np.array([0.1, 0.02, 0.4], np.float32), np.array([1, -5, 0], np.int8), axis=1, opset=21)
    case("DequantizeLinear", eight, np.array([0.5, 2], np.float32), np.array([3, 200], np.uint8), axis=0, opset=21)
    case("DynamicQuantizeLinear", x(3, 4), outputs=3)
    case("MatMulInteger", eight, np.array([[1, -2], [3, 4], [-128, 127]], np.int8), np.uint8(12), np.int8(-1))
    case("ConvInteger", eight.reshape(1, 1, 2, 3), np.array([1, 2, 255, 4], np.uint8).reshape(1, 1, 2, 2), np.uint8(3))
    case("QLinearMatMul", eight, np.float32(0.02), np.uint8(9), eight.T.copy(), np.float32(0.01), np.uint8(100), np.float32(0.3), np.uint8(60))
    case("ArgMax", ints(1, 3, 3, 2).astype(np.float32).reshape(2, 2).T.copy(), axis=0, select_last_index=1)
    case("Hardmax", x(3, 4), axis=0)
    case("CumSum", x(3, 4), ints(1)[0], constants=[1], exclusive=1, reverse=1)
    case("OneHot", ints(0, 3, -1), ints(4)[0], np.array([2, 5], np.float32), constants=[1])
    case("ReverseSequence", x(4, 2), ints(3, 1))
    # As many images as channels: the evaluator looks at one channel for each image.
    case("LRN", x(5, 5, 2, 2), size=3, alpha=0.5)
    case("NegativeLogLikelihoodLoss", x(3, 4, 2), np.array([[0, 3], [1, 1], [2, 0]]), np.abs(x(4)), ignore_index=1)
    case("SoftmaxCrossEntropyLoss", x(3, 4), ints(0, 3, 2), outputs=2)
    case("LayerNormalization", x(2, 3, 4), x(4), x(4), outputs=3)
    heads = dict(opset=23, outputs=3, is_causal=1, softcap=2.0)
    case("Attention", x(1, 2, 3, 4), x(1, 2, 3, 4), x(1, 2, 3, 4), None, x(1, 2, 2, 4), x(1, 2, 2, 4), **heads)
    path = pathlib.Path(__file__).with_name("nodes.json")
    path.write_text("[\n" + ",\n".join(json.dumps(c) for c in CASES) + "\n]\n")
    print(len(CASES), "cases")


if __name__ == "__main__":
    main()
