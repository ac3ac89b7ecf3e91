"""Layouts and moves, with numpy alone: python examples/python/layouts.py"""

import numpy as np
import zellige
from zellige import Layout, SpyreTensorLayout, relayout

layout = Layout("S[(8,64):(64,1)]")
print(layout, "puts element (1, 2) at", layout.apply(1, 2))
print("as PyTorch writes it:", layout.to("torch"))
print("its first part:", layout[0:4, :])

turned = Layout("S[(8,64):(1,8)]")
print("first difference to the transpose:", layout.difference(turned))

stick = SpyreTensorLayout([3, 100], "float16")
print(stick)
print(zellige.explain(stick))

a = np.arange(300, dtype=np.float16).reshape(3, 100)
on_device = relayout(a, None, stick)
print("on the device it has the shape", on_device.shape, "and the padding", on_device[1, 0, 36:40])
assert np.array_equal(relayout(on_device, stick, Layout.strided([3, 100])), a)

zellige.draw(Layout("S[(8,8):(8,1)]"), dtype="float16", title="eight rows").save("rows.svg")
print(zellige.draw(Layout("S[(4,4):(1,4)]"), dtype="float16"))
