"""A model compiled onto the simulated card: python examples/python/compiled.py"""

import torch

model = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True).eval()
x = torch.randn(2, 64, 256)
with torch.no_grad():
    want = model(x)
    compiled = torch.compile(model.to("spyre"), backend="spyre")
    got = compiled(x.to("spyre")).cpu()
print("relative error of 16 bits:", ((want - got).norm() / want.norm()).item())
report = torch.spyre.last_report()
print(report)
report.save("report.html")
with open("trace.json", "w") as file:
    file.write(report.chrome_trace())
print("wrote report.html and trace.json (for chrome://tracing)")
