"""Decoding with a cache of a fixed size, which every step writes in place: it runs as a compiled program."""

import copy

import models
import pytest
import torch


def tokens(model, device, **more):
    torch.manual_seed(0)
    prompt = torch.randint(3, 128, (1, 8)).to(device)
    with torch.no_grad():
        made = model.generate(prompt, max_new_tokens=6, min_new_tokens=6, do_sample=False, **more)
    return made.cpu()


@pytest.fixture
def both():
    torch._dynamo.reset()
    model = models.hugging_face("llama")
    return model, copy.deepcopy(model).to("spyre")


def known_reports():
    """The reports that are there, by identity: the oldest of a hundred make room for new ones."""
    from zellige.compile import reports

    return {id(report): report for report in reports()}


def test_generation_with_a_static_cache_is_compiled(both):
    model, device = both
    before = known_reports()
    want = tokens(model, "cpu", cache_implementation="static", disable_compile=True)
    assert torch.equal(tokens(device, "spyre", cache_implementation="static"), want)
    made = [report for number, report in known_reports().items() if number not in before]
    assert made and any("scaled_dot_product_attention" in {s["op"] for s in r.steps} for r in made), made
    assert not any(r.fallbacks or r.refused for r in made), [str(r) for r in made]


@pytest.mark.parametrize("more", [{}, {"cache_implementation": "static", "disable_compile": True}], ids=["growing", "asked not to"])
def test_other_generation_is_not(both, more):
    model, device = both
    before = known_reports()
    assert torch.equal(tokens(device, "spyre", **more), tokens(model, "cpu", **more))
    assert known_reports().keys() == before.keys()
