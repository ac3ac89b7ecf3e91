"""Models with float32 kept: the same as PyTorch's CPU, token for token."""

import copy

import models
import pytest
import torch


def near(want, got):
    assert torch.allclose(want, got, rtol=1e-4, atol=1e-4), f"up to {(want - got).abs().max().item()}"


def test_conv_net():
    torch.manual_seed(0)
    near(*models.both(models.ConvNet().eval(), torch.randn(2, 3, 16, 16)))


def test_transformer_encoder_layer():
    torch.manual_seed(0)
    near(*models.both(models.encoder(), torch.randn(2, 10, 64)))


def test_llama_block():
    torch.manual_seed(0)
    near(*models.both(models.LlamaBlock().eval(), torch.randn(2, 12, 64), torch.arange(12)))


@pytest.mark.parametrize("kind", ["llama", "granite"])
def test_generate_gives_the_tokens_of_the_cpu(kind):
    model = models.hugging_face(kind)
    ids = torch.tensor([[1, 5, 9, 77, 3, 12], [1, 8, 8, 20, 4, 33]])
    options = dict(max_new_tokens=12, do_sample=False, attention_mask=torch.ones_like(ids))
    want = model.generate(ids, **options)
    options["attention_mask"] = options["attention_mask"].to("spyre")
    device = copy.deepcopy(model).to("spyre")
    got = device.generate(ids.to("spyre"), **options)
    assert torch.equal(want, got.cpu())
    with torch.no_grad():
        near(model(ids).logits, device(ids.to("spyre")).logits.cpu())


@pytest.mark.parametrize("family, variant", models.FMS)
def test_models_of_fms(family, variant):
    model, device = models.fms(family, variant)
    ids = torch.tensor([[1, 5, 9, 77, 3, 12]])
    with torch.no_grad():
        want, cache = model(ids, use_cache=True)
        got, device_cache = device(ids.to("spyre"), use_cache=True)
        near(want, got.cpu())
        token = want[:, -1:].argmax(-1)
        for step in range(4):
            position = torch.full((1, 1), ids.shape[1] + step)
            want, cache = model(token, past_key_value_states=cache, use_cache=True, position_ids=position)
            got, device_cache = device(
                token.to("spyre"), past_key_value_states=device_cache, use_cache=True, position_ids=position.to("spyre")
            )
            near(want, got.cpu())
            token = want[:, -1:].argmax(-1)


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("family, variant", models.FMS)
def test_generate_of_fms_gives_the_tokens_of_the_cpu(family, variant, use_cache):
    model, device = models.fms(family, variant)
    from fms.utils.generation import generate

    torch.spyre.reset_fallbacks()
    ids = torch.tensor([[1, 5, 9, 77, 3, 12], [1, 8, 8, 20, 4, 33]])
    options = dict(max_new_tokens=8, max_seq_len=64, use_cache=use_cache, do_sample=False)
    want = generate(model, ids, **options)
    got = generate(device, ids.to("spyre"), **options)
    assert torch.equal(want, got.cpu())
    assert not torch.spyre.fallbacks()


@pytest.mark.parametrize("kind", ["llama", "granite"])
def test_compiled_models_give_the_tokens_of_the_cpu(kind):
    model = models.hugging_face(kind)
    device = copy.deepcopy(model).to("spyre")
    device.forward = torch.compile(device.forward, backend="spyre", dynamic=True)
    ids = torch.tensor([[1, 5, 9, 77, 3, 12]])
    options = dict(max_new_tokens=6, do_sample=False)
    want = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
    got = device.generate(ids.to("spyre"), attention_mask=torch.ones_like(ids).to("spyre"), **options)
    assert torch.equal(want, got.cpu())


def test_sentences_of_minilm():
    tokenizer, model = models.sentence_model()
    want = models.embed(tokenizer, model, "cpu")
    near(want, models.embed(tokenizer, copy.deepcopy(model).to("spyre"), "spyre").cpu())
