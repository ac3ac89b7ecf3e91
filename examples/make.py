#!/usr/bin/env python3
"""Writes the example graphs of this folder. The models are described here, not copied: sizes are
the published ones, weights are inputs without values."""

import pathlib

HERE = pathlib.Path(__file__).parent


class Graph:
    """Collects inputs and operations and writes them as text."""

    def __init__(self, name, about, symbols=""):
        self.name, self.about, self.symbols = name, about, symbols
        self.inputs, self.ops = [], []

    def input(self, name, size, dtype="float16", role="", pin=""):
        size = ", ".join(str(n) for n in size)
        role = f" @{role}" if role else ""
        pin = f" pin {pin}" if pin else ""
        self.inputs.append(f"{name}: {dtype}[{size}]{role}{pin}")
        return name

    def weight(self, name, size, dtype="float16", pin=""):
        return self.input(name, size, dtype, "weight", pin)

    def op(self, result, op, *operands, **attributes):
        args = [str(o) for o in operands]
        args += [f"{k}={text(v)}" for k, v in attributes.items()]
        self.ops.append(f"    {result} = {op}({', '.join(args)})")
        return result

    def note(self, text):
        self.ops.append(f"\n    # {text}")

    def write(self, *outputs):
        lines = [f"# {line}" for line in self.about.splitlines()]
        lines.append(f"graph {self.name}{self.symbols}(")
        lines += [f"    {i}," for i in self.inputs]
        lines.append(") {")
        lines += self.ops
        lines += [f"    return {', '.join(outputs)}", "}", ""]
        file = self.name.replace("_", "-")
        (HERE / f"{file}.graph").write_text("\n".join(lines))


def text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(text(v) for v in value) + "]"
    return str(value)


def mlp():
    g = Graph("matmul_bias_gelu", "A product, a bias and an activation.")
    x = g.input("x", (512, 1024))
    w, b = g.weight("weight", (1024, 4096)), g.weight("bias", (4096,))
    g.op("h", "matmul", x, w)
    g.op("s", "add", "h", b)
    g.op("y", "gelu", "s", approximate="tanh")
    g.write("y")


def softmax():
    g = Graph("softmax", "Rows of probabilities.")
    x = g.input("x", (4096, 1024))
    g.op("y", "softmax", x, dim=-1)
    g.write("y")


def layer_norm():
    g = Graph("layer_norm", "A normalisation over the last dimension.")
    x = g.input("x", (4096, 1024))
    w, b = g.weight("weight", (1024,)), g.weight("bias", (1024,))
    g.op("y", "layer_norm", x, w, b, normalized_shape=[1024], eps=1e-5)
    g.write("y")


def transposed_sum():
    g = Graph("transposed_sum", "One transposed operand feeds two sums: its moved copy is shared.")
    a = g.input("a", (256, 128))
    x, y = g.input("x", (128, 256)), g.input("y", (128, 256))
    g.op("at", "transpose", a, dim0=0, dim1=1)
    g.op("p", "add", "at", x)
    g.op("q", "mul", "at", y)
    g.op("r", "add", "p", "q")
    g.write("r")


def attention():
    g = Graph("attention", "Scaled dot-product attention written out: batch 2, 8 heads of 64.")
    shape = (2, 8, 256, 64)
    q, k, v = (g.input(n, shape) for n in "qkv")
    g.op("kt", "transpose", k, dim0=2, dim1=3)
    g.op("scores", "matmul", q, "kt")
    g.op("scaled", "mul", "scores", 0.125)
    g.op("p", "softmax", "scaled", dim=-1)
    g.op("y", "matmul", "p", v)
    g.write("y")


def swiglu():
    g = Graph("swiglu", "The gated MLP of Llama and Granite.")
    x = g.input("x", (128, 4096))
    gate, up = g.weight("gate", (12800, 4096)), g.weight("up", (12800, 4096))
    down = g.weight("down", (4096, 12800))
    g.op("a", "linear", x, gate)
    g.op("b", "linear", x, up)
    g.op("s", "silu", "a")
    g.op("h", "mul", "s", "b")
    g.op("y", "linear", "h", down)
    g.write("y")


def conv_net():
    g = Graph("conv_net", "Two convolutions, pooling and a classifier.")
    x = g.input("x", (8, 64, 32, 32))
    w1, w2 = g.weight("conv1", (128, 64, 3, 3)), g.weight("conv2", (128, 128, 3, 3))
    fc, bias = g.weight("fc", (1000, 128)), g.weight("fc_bias", (1000,))
    g.op("c1", "conv2d", x, w1, stride=[1, 1], padding=[1, 1])
    g.op("r1", "relu", "c1")
    g.op("c2", "conv2d", "r1", w2, stride=[2, 2], padding=[1, 1])
    g.op("r2", "relu", "c2")
    g.op("pool", "adaptive_avg_pool2d", "r2", output_size=[1, 1])
    g.op("flat", "reshape", "pool", size=[8, 128])
    g.op("y", "linear", "flat", fc, bias)
    g.write("y")


class Sizes:
    def __init__(self, hidden, heads, kv_heads, mlp, layers, vocab=0):
        self.hidden, self.heads, self.kv, self.mlp = hidden, heads, kv_heads, mlp
        self.layers, self.vocab = layers, vocab
        self.dim = hidden // heads


def rotary(g, name, x, size):
    """Turns pairs of features by the angles in cos and sin."""
    half = size[-1] // 2
    g.op(f"{name}.lo", "slice", x, dim=3, start=0, end=half)
    g.op(f"{name}.hi", "slice", x, dim=3, start=half, end=2 * half)
    g.op(f"{name}.neg", "neg", f"{name}.hi")
    g.op(f"{name}.turned", "cat", f"{name}.neg", f"{name}.lo", dim=3)
    g.op(f"{name}.c", "mul", x, "cos")
    g.op(f"{name}.s", "mul", f"{name}.turned", "sin")
    return g.op(f"{name}.rope", "add", f"{name}.c", f"{name}.s")


def block(g, n, x, s, rows, decode, past):
    """One transformer layer; `rows` tokens of batch 1, and a cache of `past` positions in decode."""
    p = f"layer{n}"
    qkv = {"q": s.heads, "k": s.kv, "v": s.kv}
    g.weight(f"{p}.norm1", (s.hidden,))
    for w, heads in qkv.items():
        g.weight(f"{p}.{w}", (heads * s.dim, s.hidden))
    g.weight(f"{p}.o", (s.hidden, s.hidden))
    g.weight(f"{p}.norm2", (s.hidden,))
    g.weight(f"{p}.gate", (s.mlp, s.hidden))
    g.weight(f"{p}.up", (s.mlp, s.hidden))
    g.weight(f"{p}.down", (s.hidden, s.mlp))
    if decode:
        for c in "kv":
            g.input(f"{p}.{c}_cache", (1, s.kv, past, s.dim), role="state")
    g.note(f"layer {n}: attention")
    g.op(f"{p}.n1", "rms_norm", x, f"{p}.norm1", normalized_shape=[s.hidden], eps=1e-5)
    for w, heads in qkv.items():
        g.op(f"{p}.{w}p", "linear", f"{p}.n1", f"{p}.{w}")
        g.op(f"{p}.{w}v", "reshape", f"{p}.{w}p", size=[1, rows, heads, s.dim])
        g.op(f"{p}.{w}t", "transpose", f"{p}.{w}v", dim0=1, dim1=2)
    q = rotary(g, f"{p}.qr", f"{p}.qt", (1, s.heads, rows, s.dim))
    k = rotary(g, f"{p}.kr", f"{p}.kt", (1, s.kv, rows, s.dim))
    v = f"{p}.vt"
    kept = []
    if decode:
        k = g.op(f"{p}.k_new", "index_copy", f"{p}.k_cache", "position", k, dim=2)
        v = g.op(f"{p}.v_new", "index_copy", f"{p}.v_cache", "position", v, dim=2)
        kept = [k, v]
    g.op(f"{p}.att", "scaled_dot_product_attention", q, k, v, is_causal=not decode, enable_gqa=True)
    g.op(f"{p}.back", "transpose", f"{p}.att", dim0=1, dim1=2)
    g.op(f"{p}.flat", "reshape", f"{p}.back", size=[rows, s.hidden])
    g.op(f"{p}.proj", "linear", f"{p}.flat", f"{p}.o")
    g.op(f"{p}.scaled", "mul", f"{p}.proj", 0.22)
    g.op(f"{p}.mid", "add", x, f"{p}.scaled")
    g.note(f"layer {n}: MLP")
    g.op(f"{p}.n2", "rms_norm", f"{p}.mid", f"{p}.norm2", normalized_shape=[s.hidden], eps=1e-5)
    g.op(f"{p}.a", "linear", f"{p}.n2", f"{p}.gate")
    g.op(f"{p}.b", "linear", f"{p}.n2", f"{p}.up")
    g.op(f"{p}.act", "silu", f"{p}.a")
    g.op(f"{p}.h", "mul", f"{p}.act", f"{p}.b")
    g.op(f"{p}.mlp", "linear", f"{p}.h", f"{p}.down")
    g.op(f"{p}.scaled2", "mul", f"{p}.mlp", 0.22)
    return g.op(f"{p}.out", "add", f"{p}.mid", f"{p}.scaled2"), kept


def angles(g, rows, s):
    g.input("cos", (1, 1, rows, s.dim))
    g.input("sin", (1, 1, rows, s.dim))


def one_block(name, about, s, rows, decode, past=0):
    g = Graph(name, about)
    g.input("x", (rows, s.hidden))
    if decode:
        g.input("position", (rows,), "int64")
    angles(g, rows, s)
    out, kept = block(g, 0, "x", s, rows, decode, past)
    g.write(out, *kept)


def whole(name, about, s, rows, decode, past=0):
    g = Graph(name, about)
    g.input("tokens", (rows,), "int64")
    if decode:
        g.input("position", (rows,), "int64")
    angles(g, rows, s)
    g.weight("embed", (s.vocab, s.hidden))
    g.op("e", "embedding", "embed", "tokens")
    x = g.op("x", "mul", "e", 12)
    kept = []
    for n in range(s.layers):
        x, more = block(g, n, x, s, rows, decode, past)
        kept += more
    g.note("logits of the last token")
    g.weight("norm", (s.hidden,))
    g.op("final", "rms_norm", x, "norm", normalized_shape=[s.hidden], eps=1e-5)
    g.op("last", "slice", "final", dim=0, start=rows - 1, end=rows)
    g.op("scores", "linear", "last", "embed")
    g.op("logits", "div", "scores", 16)
    g.write("logits", *kept)


def main():
    mlp()
    softmax()
    layer_norm()
    transposed_sum()
    attention()
    swiglu()
    conv_net()
    small = Sizes(hidden=512, heads=8, kv_heads=2, mlp=1536, layers=1)
    one_block("llama_block", "A small transformer layer: prefill of 64 tokens.", small, 64, False)
    one_block("llama_block_decode", "The same layer: one token beside a cache of 128.", small, 1, True, 128)
    granite = Sizes(hidden=4096, heads=32, kv_heads=8, mlp=12800, layers=40, vocab=49159)
    one_block("granite_block", "One layer of Granite-3.3-8B: prefill of 128 tokens.", granite, 128, False)
    whole("granite_8b_prefill", "Granite-3.3-8B, batch 1: prefill of 128 tokens.", granite, 128, False)
    whole("granite_8b_decode", "Granite-3.3-8B, batch 1: one token beside a cache of 256.", granite, 1, True, 256)


if __name__ == "__main__":
    main()
