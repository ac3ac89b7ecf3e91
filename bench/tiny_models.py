"""Time of tiny models beside the CPU's: python bench/tiny_models.py [--cpu] [NAME ...]

What a call costs before any arithmetic shows in models that are nearly all calls. CPU, eager device and compiled device
take turns, so that what else the machine does meets all three; a figure is the median of the rounds, and the last line
has the medians of the ratios over the models.

The wall clock counts what a user feels. On a machine with more work than cores it counts the waiting of whoever needs
longer than a slice of the scheduler, too; ``--cpu`` counts the time that the process really computes.
"""

import copy
import os
import pathlib
import statistics
import sys
import time
import warnings

# PyTorch's threads wait by turning in circles, on the cores that the next call of somebody else needs.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python" / "tests"))
import models

warnings.simplefilter("ignore")
ROUNDS = 15
clock = time.perf_counter


def of_config(name, **changes):
    """A model of transformers with random weights, and token numbers for it."""
    import transformers

    sizes = dict(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )
    config = getattr(transformers, name + "Config")(**{**sizes, **changes})
    model = transformers.AutoModel.from_config(config).eval()
    tokens = torch.randint(3, 128, (2, 16))
    return Output(model), (tokens,)


class Output(torch.nn.Module):
    """The last states of a model of transformers."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens)[0]


def plain(make, *inputs):
    return make().eval(), inputs


KEYS = dict(num_key_value_heads=2)
MODELS = {
    "mlp": lambda: plain(lambda: torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)), torch.randn(4, 64)),
    "conv": lambda: plain(models.ConvNet, torch.randn(2, 3, 16, 16)),
    "encoder": lambda: plain(models.encoder, torch.randn(2, 16, 64)),
    "block": lambda: plain(models.LlamaBlock, torch.randn(2, 16, 64), torch.arange(16)),
    "bert": lambda: of_config("Bert"),
    "roberta": lambda: of_config("Roberta", max_position_embeddings=80),
    "electra": lambda: of_config("Electra", embedding_size=64),
    "distilbert": lambda: of_config("DistilBert", dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    "albert": lambda: of_config("Albert", embedding_size=64),
    "gpt2": lambda: of_config("GPT2", n_embd=64, n_layer=2, n_head=4, n_positions=64),
    "gpt_neox": lambda: of_config("GPTNeoX"),
    "opt": lambda: of_config("OPT", ffn_dim=128, word_embed_proj_dim=64),
    "llama": lambda: of_config("Llama", **KEYS),
    "mistral": lambda: of_config("Mistral", **KEYS),
    "qwen2": lambda: of_config("Qwen2", **KEYS),
    "qwen3": lambda: of_config("Qwen3", head_dim=16, **KEYS),
    "gemma": lambda: of_config("Gemma", head_dim=16, **KEYS),
    "gemma2": lambda: of_config("Gemma2", head_dim=16, **KEYS),
    "granite": lambda: of_config("Granite", **KEYS),
    "phi": lambda: of_config("Phi"),
    "stablelm": lambda: of_config("StableLm", **KEYS),
    "olmo2": lambda: of_config("Olmo2", **KEYS),
    "starcoder2": lambda: of_config("Starcoder2", **KEYS),
    "cohere": lambda: of_config("Cohere", **KEYS),
}


def seconds(function, inputs):
    start = clock()
    result = function(*inputs)
    # A result on the host is one that is done.
    result.cpu()
    return clock() - start


def ratios(make):
    """Times of the eager and of the compiled device, each as a multiple of the CPU's."""
    torch.manual_seed(0)
    model, inputs = make()
    device = copy.deepcopy(model).to("spyre")
    there = [i.to("spyre") for i in inputs]
    compiled = torch.compile(device, backend="spyre")
    variants = [(model, inputs), (device, there), (compiled, there)]
    with torch.no_grad():
        for variant in variants:
            for _ in range(3):
                seconds(*variant)
        rounds = [[seconds(*variant) for variant in variants] for _ in range(ROUNDS)]
    cpu, eager, fused = (statistics.median(column) for column in zip(*rounds))
    return cpu, eager / cpu, fused / cpu


def main(names):
    global clock
    if "--cpu" in names:
        clock, names = time.process_time, [n for n in names if n != "--cpu"]
    torch.set_num_threads(1)
    found = []
    for name in names or MODELS:
        try:
            cpu, eager, fused = ratios(MODELS[name])
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            print(f"{name:<12} cannot be made here: {error}")
            continue
        torch._dynamo.reset()
        found.append((eager, fused))
        print(f"{name:<12} CPU {cpu * 1e3:7.2f} ms  eager {eager:5.2f}  compiled {fused:5.2f}", flush=True)
    eager, fused = (statistics.median(column) for column in zip(*found))
    print(f"median of {len(found)}: eager {eager:.2f}, compiled {fused:.2f} times the CPU")


if __name__ == "__main__":
    main(sys.argv[1:])
