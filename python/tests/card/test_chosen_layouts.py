"""Layouts of the user's choice: every field of them arrives, from the host and on the card, eagerly and in graphs."""

import pytest
import torch

from zellige import DataFormats, ElementArrangement, SpyreTensorLayout

FP16 = DataFormats.SEN169_FP16
# Each differs from the default layout of (40, 256) in a field that is neither device_size nor stride_map alone.
FIELDS = {
    "device_stride": SpyreTensorLayout([4, 40, 64], [64, 256, 1], FP16, device_stride=[4096, 64, 1]),
    "stick_dims": SpyreTensorLayout([32, 5, 8, 8], [8, 2048, 256, 1], FP16, stick_dims=2),
    "both": SpyreTensorLayout([32, 5, 8, 8], [8, 2048, 256, 1], FP16, stick_dims=2, device_stride=[512, 64, 8, 1]),
    "host_stride": SpyreTensorLayout([4, 40, 64], [64, 512, 1], FP16, host_size=[40, 256], host_stride=[512, 1]),
    "element_arrangement": SpyreTensorLayout([40, 256], torch.float16, [0, 1], ElementArrangement.FP32_TO_DL16),
}


def host_values():
    return torch.rand(40, 256).half()


@pytest.fixture(autouse=True)
def forget_graphs():
    torch._dynamo.reset()


@pytest.mark.parametrize("layout", FIELDS.values(), ids=FIELDS)
@pytest.mark.parametrize("move", [lambda x, g: x.to("spyre", device_layout=g), lambda x, g: x.to_with_layout(g), torch.spyre.to_with_layout])
def test_a_layout_on_the_card_is_the_one_from_the_host(layout, move):
    x = host_values()
    want, got = move(x, layout), move(x.to("spyre"), layout)
    assert want.device_tensor_layout() == layout and got.device_tensor_layout() == layout
    assert got.device_tensor_layout()._whole == want.device_tensor_layout()._whole
    assert torch.equal(want.cpu(), got.cpu()) and torch.equal(got.cpu(), x.to("spyre").cpu())
    view = move(x.to("spyre").t().contiguous().t(), layout)
    assert view.device_tensor_layout() == layout and torch.equal(view.cpu(), got.cpu())


@pytest.mark.parametrize("layout", FIELDS.values(), ids=FIELDS)
def test_a_layout_inside_a_graph_has_all_fields(layout):
    x = host_values().to("spyre")
    got = torch.compile(lambda x: x.to("spyre", device_layout=layout), backend="spyre", fullgraph=True)(x)
    assert got.device_tensor_layout() == layout and torch.equal(got.cpu(), x.cpu())
    got = torch.compile(lambda x: (x * 2).to("spyre", device_layout=layout) + 1, backend="spyre", fullgraph=True)(x)
    assert torch.equal(got.cpu(), (x * 2 + 1).cpu())
    report = torch.spyre.last_report()
    assert not report.fallbacks and not report.breaks, str(report)
    assert str(layout) in [b["layout"] for b in report.programs[0].report()["buffers"]]


@pytest.mark.parametrize("layout", FIELDS.values(), ids=FIELDS)
def test_a_graph_takes_an_input_in_its_layout(layout):
    x = host_values().to("spyre", device_layout=layout)
    got = torch.compile(lambda x: x * 3, backend="spyre")(x)
    assert torch.equal(got.cpu(), (x.cpu().to("spyre") * 3).cpu())
    if x.is_contiguous():
        assert str(layout) in [b["layout"] for b in torch.spyre.last_report().programs[0].report()["buffers"]]


def test_gradients_pass_through_a_layout():
    x = host_values().to("spyre").requires_grad_()
    x.to("spyre", device_layout=FIELDS["stick_dims"]).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.ones(40, 256, dtype=torch.float16))
