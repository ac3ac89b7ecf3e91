"""Models in the formats of the card, beside PyTorch's CPU in float32."""

import copy

import models
import pytest
import torch


def near(want, got, limit):
    """The error of the whole, in parts of the length of the answer."""
    error = ((want - got).norm() / want.norm()).item()
    assert error < limit, f"relative error {error}"


def test_conv_net():
    torch.manual_seed(0)
    net = models.ConvNet().eval()
    near(*models.both(net, torch.randn(2, 3, 16, 16)), 1e-2)


def test_transformer_encoder_layer():
    torch.manual_seed(0)
    near(*models.both(models.encoder(), torch.randn(2, 10, 64)), 1e-2)


def test_llama_block_runs_without_the_cpu():
    torch.manual_seed(0)
    torch.spyre.reset_fallbacks()
    near(*models.both(models.LlamaBlock().eval(), torch.randn(2, 12, 64), torch.arange(12)), 1e-2)
    assert not torch.spyre.fallbacks()


@pytest.mark.parametrize("kind", ["llama", "granite"])
def test_causal_models(kind):
    model = models.hugging_face(kind)
    ids = torch.tensor([[1, 5, 9, 77, 3, 12]])
    with torch.no_grad():
        want = model(ids).logits
        got = copy.deepcopy(model).to("spyre")(ids.to("spyre")).logits.cpu()
    near(want, got, 2e-2)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("family, variant", models.FMS)
def test_models_of_fms(family, variant, compiled):
    model, device = models.fms(family, variant)
    torch._dynamo.reset()
    run = torch.compile(device, backend="spyre", dynamic=True) if compiled else device
    ids = torch.tensor([[1, 5, 9, 77, 3, 12]])
    with torch.no_grad():
        want, cache = model(ids, use_cache=True)
        got, device_cache = run(ids.to("spyre"), use_cache=True)
        near(want, got.cpu(), 2e-2)
        for step in range(3):
            token, position = want[:, -1:].argmax(-1), torch.full((1, 1), ids.shape[1] + step)
            want, cache = model(token, past_key_value_states=cache, use_cache=True, position_ids=position)
            got, device_cache = run(
                token.to("spyre"), past_key_value_states=device_cache, use_cache=True, position_ids=position.to("spyre")
            )
            near(want, got.cpu(), 2e-2)


def test_sentences_of_minilm():
    tokenizer, model = models.sentence_model()
    want = models.embed(tokenizer, model, "cpu")
    got = models.embed(tokenizer, copy.deepcopy(model).to("spyre"), "spyre").cpu()
    cosine = torch.nn.functional.cosine_similarity(want, got, dim=-1)
    assert cosine.min() > 0.999, cosine.tolist()
