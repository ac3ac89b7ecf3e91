"""The simulated card, operator by operator: python examples/python/eager.py"""

import torch
from zellige import SpyreTensorLayout

x = torch.rand(5, 100, 150, dtype=torch.float16)
y = x.to("spyre")
print(y.device, y.device_tensor_layout())

# Another layout, from the host or on the card.
layout = SpyreTensorLayout((5, 100, 150), torch.float16, [1, 0, 2])
z = y.to("spyre", device_layout=layout)
print("the same elements:", torch.equal(z.cpu(), y.cpu()))

# What 16 bits of the device make of numbers.
print("rounding on the way:", (y.cpu() - x).abs().max().item())

model = torch.nn.Sequential(torch.nn.Linear(150, 64), torch.nn.GELU(), torch.nn.Linear(64, 10)).half().to("spyre")
with torch.no_grad():
    print(model(y).softmax(-1)[0, 0])

start, end = torch.spyre.Event(), torch.spyre.Event()
start.record()
y @ y.transpose(1, 2)
end.record()
print(f"that product takes {start.elapsed_time(end) * 1000:.1f} us on the card (simulated)")

y.nonzero()
for name, fallback in torch.spyre.fallbacks().items():
    print(f"{name} ran on the CPU {fallback.count} times, first at {next(iter(fallback.places))}")
print(f"{torch.spyre.memory_allocated()} bytes in use, {torch.spyre.max_memory_allocated()} at most")
