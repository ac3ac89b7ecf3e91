"""Writes the ONNX models of this folder, with an input and PyTorch's float32 result of each.

    pip install torch onnx onnxscript numpy
    python examples/onnx/make.py
"""

import pathlib
import warnings

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional as F

HERE = pathlib.Path(__file__).parent


class Mlp(nn.Module):
    """LayerNorm, GELU, a residual."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class ConvNet(nn.Module):
    """Convolutions, one of them in groups, pooling, a classifier."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=2)
        self.classes = nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.classes(F.adaptive_avg_pool2d(x, 1).flatten(1)).softmax(-1)


class Block(nn.Module):
    """A transformer block with its embedding: causal attention written out, an MLP."""

    def __init__(self, width=32, heads=4, words=24):
        super().__init__()
        self.heads = heads
        self.words = nn.Embedding(words, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, tokens):
        x = self.words(tokens)
        batch, rows, width = x.shape

        def split(y):
            return y.view(batch, rows, self.heads, width // self.heads).transpose(1, 2)

        q, k, v = map(split, self.qkv(self.norm1(x)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        past = torch.ones(rows, rows, dtype=torch.bool, device=x.device).tril()
        p = scores.masked_fill(~past, float("-inf")).softmax(-1)
        x = x + self.out((p @ v).transpose(1, 2).reshape(batch, rows, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def plain(path):
    """Without notes of the exporter: they hold paths of the machine that ran it."""
    model = onnx.load(path)
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    for part in [*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output]:
        del part.metadata_props[:]
        part.doc_string = ""
    for tensor in model.graph.initializer:
        del tensor.metadata_props[:]
    del model.graph.value_info[:]
    onnx.checker.check_model(model)
    onnx.save(model, path)


def write(name, module, x, shapes=None, opset=None):
    module.eval()
    path = str(HERE / f"{name}.onnx")
    names = {"input_names": ["x"], "output_names": ["y"]}
    if opset:  # the older exporter, which writes out how shapes are computed
        axes = {"x": {0: "batch", 1: "tokens"}}
        torch.onnx.export(module, (x,), path, dynamo=False, opset_version=opset, dynamic_axes=axes, **names)
    else:
        program = torch.onnx.export(module, (x,), dynamo=True, dynamic_shapes=shapes, verbose=False, **names)
        program.save(path, external_data=False)
    plain(path)
    np.save(HERE / f"{name}.x.npy", x.numpy())
    np.save(HERE / f"{name}.y.npy", module(x).detach().numpy())


def main():
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    size = torch.export.Dim
    write("mlp", Mlp(), torch.randn(4, 32), ({0: size("batch")},))
    write("conv-net", ConvNet(), torch.randn(2, 3, 16, 16))
    tokens = torch.randint(0, 24, (2, 8))
    write("block", Block(), tokens, ({0: size("batch"), 1: size("tokens")},))
    write("block-opset14", Block(width=24, words=24), tokens, opset=14)


if __name__ == "__main__":
    main()
