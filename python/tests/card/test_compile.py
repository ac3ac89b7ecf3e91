"""`torch.compile` on tensors of the device."""

import copy
import gc
import json
import os
import subprocess
import sys

import models
import pytest
import torch
import torch.nn.functional as F
import zellige
from zellige import SpyreTensorLayout


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def near(want, got, limit=1e-2):
    error = ((want.float() - got.cpu().float()).norm() / want.float().norm()).item()
    assert error < limit, f"relative error {error}"


def check(model, *inputs, programs=1, limit=1e-2, **options):
    """A model compiled whole: one program, nothing beside it, and the answer of the CPU."""
    want = model(*inputs)
    device = copy.deepcopy(model).to("spyre") if isinstance(model, torch.nn.Module) else model
    compiled = torch.compile(device, backend="spyre", **options)
    for _ in range(2):
        got = compiled(*[i.to("spyre") for i in inputs])
        near(want, got, limit)
    report = torch.spyre.last_report()
    assert len(report.programs) == programs and not report.fallbacks and not report.refused, str(report)
    return report


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x, lambda x: x.mean(-1), F.gelu, F.softplus, lambda x: x.softmax(-1), F.silu,
        lambda x: (x - 1).relu().sum(0), lambda x: x.t() @ x, lambda x: torch.cat([x, x * 2], -1)[:, 5:90],
        lambda x: x.view(-1, 7).max(-1)[0], lambda x: torch.where(x > 0, x, 0.1 * x), lambda x: x.clamp(-1, 1).exp(),
        lambda x: x.split([20, 50], 1)[1].contiguous() + torch.ones(50, device=x.device),
        lambda x: F.layer_norm(x, (70,)), lambda x: F.rms_norm(x, (70,)), lambda x: (x > 0).float(), lambda x: x.to(torch.float16),
    ],
)
def test_functions(function):
    torch.manual_seed(0)
    check(function, torch.randn(14, 70))


def test_models_are_one_program():
    torch.manual_seed(0)
    check(models.encoder(), torch.randn(2, 10, 64))
    report = check(models.LlamaBlock().eval(), torch.randn(2, 12, 64), torch.arange(12))
    kinds = {s["op"] for s in report.steps}
    assert {"linear", "rms_norm", "scaled_dot_product_attention", "silu"} <= kinds, "kept whole"
    check(models.ConvNet().eval(), torch.randn(2, 3, 16, 16))


@pytest.mark.parametrize("kind", ["llama", "granite"])
def test_models_of_transformers(kind):
    model = models.hugging_face(kind)
    ids = torch.tensor([[1, 5, 9, 77, 3, 12]])
    want = model(ids).logits
    device = copy.deepcopy(model).to("spyre")
    compiled = torch.compile(device, backend="spyre")
    near(want, compiled(ids.to("spyre")).logits, 2e-2)
    report = torch.spyre.last_report()
    assert report.programs and not report.refused, str(report)


def test_minilm():
    tokenizer, model = models.sentence_model()
    want = models.embed(tokenizer, model, "cpu")
    compiled = torch.compile(copy.deepcopy(model).to("spyre"), backend="spyre")
    got = models.embed(tokenizer, compiled, "spyre").cpu()
    assert F.cosine_similarity(want, got, dim=-1).min() > 0.999


def test_the_default_backend_comes_here_for_tensors_of_the_device():
    compiled = torch.compile(lambda x: x.sin() + 1)
    x = torch.randn(4, 70)
    near(x.sin() + 1, compiled(x.to("spyre")))
    assert torch.spyre.last_report().programs


def test_layouts_of_inputs_are_respected():
    x = torch.randn(40, 70)
    layout = SpyreTensorLayout([40, 70], torch.float16, [1, 0])
    compiled = torch.compile(lambda x: x + 1, backend="spyre")
    plain, other = x.half().to("spyre"), x.half().to("spyre", device_layout=layout)
    near(x + 1, compiled(plain))
    near(x + 1, compiled(other))
    near(x + 1, compiled(other[:, :]))
    report = torch.spyre.last_report()
    assert len(report.programs) == 2, "one for each layout"
    text = [b["layout"] for b in report.programs[1].report()["buffers"]]
    assert str(layout) in text
    near(x.t() + 1, compiled(plain.t()))


def test_sizes_may_change(monkeypatch):
    monkeypatch.setenv("ZELLIGE_CACHE", "off")
    compiled = torch.compile(lambda x, w: F.gelu(x @ w) + x.shape[0], backend="spyre", dynamic=True)
    w = torch.randn(70, 9)
    torch._dynamo.utils.counters.clear()
    for n in (5, 6, 17, 5):
        x = torch.randn(n, 70)
        near(F.gelu(x @ w) + n, compiled(x.to("spyre"), w.to("spyre")))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1, "traced once"
    report = torch.spyre.last_report()
    assert [p.source for p in report.programs][1:] == ["other sizes"] * 2, "and searched once"
    assert len(report.current) == 1 and report.latency_us == report.programs[0].latency_us
    assert "as for other sizes" in str(report)


def test_sizes_that_are_computed():
    def function(x, y):
        rows = torch.linalg.matrix_exp(x[: x.shape[0] // 2, : x.shape[0] // 2])
        # The part after it is given a size that is half of another, and not that other.
        return (rows * 2).repeat(2, 1) @ y[: rows.shape[0]] + rows.shape[0]

    compiled = torch.compile(function, backend="spyre", dynamic=True)
    for n in (8, 11, 20):
        x, y = torch.rand(n, 64) / 64, torch.rand(n, 70)
        near(function(x, y), compiled(x.to("spyre"), y.to("spyre")))
    assert not torch.spyre.last_report().refused


def test_weights_are_there_once_for_all_sizes():
    torch.manual_seed(0)
    model = models.LlamaBlock(128, 4, 2, 256).eval().to("spyre")
    compiled = torch.compile(model, backend="spyre", dynamic=True)

    def run(n):
        compiled(torch.randn(1, n, 128).to("spyre"), torch.arange(n).to("spyre"))
        gc.collect()
        return torch.spyre.memory_allocated()

    first = run(16)
    held = [run(n) for n in (24, 40, 48, 56)]
    # What a program holds besides: numbers, and tables of positions.
    assert max(held) < first + 4 * 65536, (first, held)
    with torch.no_grad():
        model.up.weight.mul_(2)
    x = torch.randn(1, 24, 128)
    near(model(x.to("spyre"), torch.arange(24).to("spyre")).cpu(), compiled(x.to("spyre"), torch.arange(24).to("spyre")))
    del compiled, model
    torch._dynamo.reset()
    gc.collect()
    assert torch.spyre.memory_allocated() < first / 2, "reports hold nothing on the card"


PROGRAM = """
import torch
f = torch.compile(lambda x, w: (x @ w).relu().softmax(-1), backend="spyre")
x, w = torch.arange(640.0).view(10, 64).half().to("spyre") / 640, torch.ones(64, 128).half().to("spyre")
y = f(x, w)
p, = torch.spyre.last_report().programs
print(p.source, p.latency_us, y.float().sum().item(), [s["splits"] for s in p.report()["steps"]])
"""


def test_decisions_are_kept_on_disk(tmp_path):
    def run(**more):
        env = {**os.environ, "ZELLIGE_CACHE": str(tmp_path / "cache"), **more}
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.split(maxsplit=1)

    source, said = run()
    assert source == "search"
    assert run() == ["cache", said], "the same program without a search"
    assert run(SENCORES="4")[0] == "search", "for other cores it is another one"
    assert run(LX_PLANNING="0")[0] == "search"
    assert run(ZELLIGE_CACHE="off") == ["search", said]
    for entry in (tmp_path / "cache").iterdir():
        entry.write_bytes(entry.read_bytes()[:-3])
    assert run() == ["search", said], "a broken entry is made anew"
    assert run() == ["cache", said]


def test_scratchpads_by_the_environment():
    def places(**more):
        code = PROGRAM + "print([b['place'].split()[0] for b in p.report()['buffers']])"
        env = {**os.environ, "ZELLIGE_CACHE": "off", **more}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
        return done.stdout.splitlines()[-1] if done.returncode == 0 else done.stderr

    assert "scratchpad" in places()
    assert "scratchpad" not in places(LX_PLANNING="0")
    assert "scratchpad" not in places(DXP_LX_FRAC_AVAIL="1")
    assert "`0` or `1`" in places(LX_PLANNING="yes")
    assert "a number from 0 to 1" in places(DXP_LX_FRAC_AVAIL="2")


def test_hints_divide_loops():
    def function(x, w):
        with zellige.compile.hint(split={"M": 2, "N": 4}):
            y = x @ w
        with zellige.compile.hint(split={"c0": 8}):
            return y.exp()

    x, w = torch.rand(64, 256) / 64, torch.rand(256, 512)
    near(function(x, w), torch.compile(function, backend="spyre")(x.to("spyre"), w.to("spyre")))
    report = torch.spyre.last_report()
    splits = {s["op"]: s["splits"] for s in report.steps}
    assert splits["matmul"][:2] == [2, 4] and splits["exp"][0] == 8 and not report.hints

    def impossible(x):
        with zellige.compile.hint(split={"c0": 3}):
            return x.exp()

    near(x.exp(), torch.compile(impossible, backend="spyre")(x.to("spyre")))
    report = torch.spyre.last_report()
    assert len(report.programs) == 1 and "not evenly divisible" in str(report)


def test_a_cache_is_written_in_the_graph():
    def step(cache, position, value):
        cache.index_copy_(1, position, value)
        return (cache * 2).sum(-1)

    cache = torch.zeros(2, 8, 64)
    device = cache.to("spyre")
    compiled = torch.compile(step, backend="spyre")
    for i in range(3):
        value, at = torch.randn(2, 1, 64), torch.tensor([i])
        near(step(cache, at, value), compiled(device, at.to("spyre"), value.to("spyre")))
        near(cache, device)


def select_row(cache, value):
    cache[:, 3] = value[:, 0]
    return cache.sum(-1)


def slice_rows(cache, value):
    cache[:, 3:5] = value
    return cache.sum(-1)


def put_rows(cache, value):
    cache[:, torch.tensor([2, 5], device=cache.device)] = value
    return cache @ value.transpose(1, 2)


def arithmetic(cache, value):
    cache.mul_(0.5).add_(value[:, :1])
    return cache


def swap(a, b):
    kept = a.clone()
    a.copy_(b)
    b.copy_(kept)
    return a + b


def views(cache, value):
    before = cache.sum(-1)
    cache[:, 1:3].zero_()
    return before, cache.transpose(0, 1)


@pytest.mark.parametrize("function", [select_row, slice_rows, put_rows, arithmetic, swap, views])
def test_changes_of_inputs_are_part_of_the_program(function):
    torch.manual_seed(0)
    cache, value = torch.randn(2, 8, 64), torch.randn(2, 8 if function is swap else 2, 64)
    given = [cache.to("spyre"), value.to("spyre")]
    places = [t.data_ptr() for t in given]
    compiled = torch.compile(function, backend="spyre")
    for _ in range(3):
        want, got = function(cache, value), compiled(*given)
        for w, g in zip(want if isinstance(want, tuple) else (want,), got if isinstance(got, tuple) else (got,)):
            near(w, g)
        near(cache, given[0])
        near(value, given[1])
    assert [t.data_ptr() for t in given] == places
    report = torch.spyre.last_report()
    assert len(report.programs) == 1 and not report.fallbacks, str(report)
    if function not in (arithmetic, swap):
        assert any(b["place"].startswith("over ") for b in report.programs[0].report()["buffers"]), "in place"


def test_a_parameter_that_changes_is_read_anew():
    layer = torch.nn.Linear(64, 64, bias=False).to("spyre")
    x = torch.randn(4, 64).to("spyre")
    step = torch.compile(lambda: layer.weight.mul_(2), backend="spyre")
    run = torch.compile(lambda x: layer(x), backend="spyre")
    for _ in range(3):
        near(layer(x).cpu(), run(x))
        step()


def test_what_the_compiler_does_not_take_runs_beside():
    def function(x):
        y = x * 2
        z = y.nonzero()
        return (y + 1)[: z.shape[0] * 0 + 2].sum() + torch.linalg.matrix_exp(y[:4, :4]).sum()

    torch._dynamo.config.capture_dynamic_output_shape_ops = False
    x = torch.rand(6, 70) / 10
    compiled = torch.compile(function, backend="spyre")
    near(function(x), compiled(x.to("spyre")))
    reports = zellige.compile.reports()
    beside = [key for r in reports for key in r.fallbacks]
    assert any("matrix_exp" in op and __file__ in at for op, at in beside), beside


def test_weights_that_change_are_loaded_again():
    m = torch.nn.Linear(70, 9).to("spyre")
    compiled = torch.compile(m, backend="spyre")
    x = torch.randn(4, 70).to("spyre")
    near(m(x).cpu(), compiled(x))
    m.weight.mul_(3)
    near(m(x).cpu(), compiled(x))
    m.weight.data = torch.ones(9, 70).to("spyre")
    near(m(x).cpu(), compiled(x))


def test_gradients():
    torch.manual_seed(0)
    with torch.enable_grad():
        m = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
        d = copy.deepcopy(m).to("spyre")
        compiled = torch.compile(d, backend="spyre")
        x = torch.randn(5, 16)
        m(x).pow(2).mean().backward()
        compiled(x.to("spyre")).pow(2).mean().backward()
        for p, q in zip(m.parameters(), d.parameters()):
            near(p.grad, q.grad, 3e-2)


def test_reports():
    report = check(models.encoder(), torch.randn(2, 10, 64))
    assert report.latency_us > 0 and "us on the card" in str(report) and "<iframe" in report._repr_html_()
    data = report.to_dict()
    assert data["programs"][0]["steps"][0]["us"] >= 0 and zellige.report() is report
    assert '"traceEvents"' in report.chrome_trace() or report.chrome_trace().startswith("[")
    assert all(s["why"] for s in report.moves)
    assert report.page().lstrip().lower().startswith("<!doctype html") and report.programs[0].data()["version"] == 5


def test_operators_of_the_device_inside_a_graph():
    w = torch.rand(70)
    def function(x, w):
        return torch.ops.spyre.gelu(torch.ops.spyre.rms_norm(x, [70], w, 1e-5)) + 1
    x = torch.randn(4, 70)
    compiled = torch.compile(function, backend="spyre")
    near(F.gelu(F.rms_norm(x, (70,), w, 1e-5)) + 1, compiled(x.to("spyre"), w.to("spyre")))
    assert not torch.spyre.last_report().fallbacks


LAYOUT = SpyreTensorLayout([40, 70], torch.float16, [1, 0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.ops.spyre.restickify(x * 2, 0), lambda x: torch.spyre.restickify(x * 2, -2), lambda x: torch.spyre.to_with_layout(x * 2, LAYOUT),
        lambda x: (x * 2).to_with_layout(LAYOUT), lambda x: (x * 2).to("spyre", device_layout=LAYOUT),
        lambda x: (x * 2).to("spyre", device_layout=SpyreTensorLayout([40, 70], torch.float16, [1, 0])),
        lambda x: torch.ops.spyre.restickify(x.t().t(), 0),
    ],
)
def test_layouts_of_tensors_inside_a_graph_are_pinned(function):
    x = torch.randn(40, 70).half().to("spyre")
    want = function(x)
    assert want.device_tensor_layout() == LAYOUT, "eagerly"
    compiled = torch.compile(function, backend="spyre", fullgraph=True)
    got = compiled(x)
    assert torch.equal(want.cpu(), got.cpu())
    assert got.device_tensor_layout() == LAYOUT, "what a function returns lies as it says"
    compiled = torch.compile(lambda x: function(x) + 1, backend="spyre", fullgraph=True)
    assert torch.equal((want + 1).cpu(), compiled(x).cpu())
    report = torch.spyre.last_report()
    assert len(report.programs) == 1 and not report.fallbacks and not report.breaks, str(report)
    layouts = [b["layout"] for b in report.programs[0].report()["buffers"]]
    assert str(LAYOUT) in layouts, "the tensor between the two operations is pinned"


def test_constants_inside_a_graph():
    x = torch.randn(4, 70)
    compiled = torch.compile(lambda x: x + torch.ops.spyre.constant(2.5, torch.float32, x.device), backend="spyre", fullgraph=True)
    near(x + 2.5, compiled(x.to("spyre")))
    report = torch.spyre.last_report()
    assert len(report.programs) == 1 and not report.fallbacks, str(report)


def _set(c, at, v):
    c[:, :, at] = v


@pytest.mark.parametrize(
    "write",
    [
        _set, lambda c, at, v: c.index_copy_(2, at, v), lambda c, at, v: c[:, :, 3:4].copy_(v), lambda c, at, v: c.copy_(c + v),
        lambda c, at, v: c[:, :, 2:5].mul_(3).add_(v), lambda c, at, v: (c[:, :, 0:1].copy_(v), c[:, :, 0:1].add_(v * 2)), lambda c, at, v: c.transpose(0, 2).index_put_((at,), v.transpose(0, 2), accumulate=True),
    ],
)
def test_a_cache_is_written_by_one_program(write):
    def step(cache, at, value):
        write(cache, at, value)
        return (cache * 2).sum(-1), cache[:, :, at]

    torch.manual_seed(0)
    cache, at = torch.randn(1, 2, 8, 16), torch.tensor([3])
    device = cache.to("spyre")
    compiled = torch.compile(step, backend="spyre")
    for _ in range(2):
        value = torch.randn(1, 2, 1, 16)
        for want, got in zip(step(cache, at, value), compiled(device, at.to("spyre"), value.to("spyre"))):
            near(want, got)
        near(cache, device)
    report = torch.spyre.last_report()
    # The last step writes the result back into the tensor that came.
    assert len(report.programs) == 1 and all("copy_" in op for op, _ in report.fallbacks), str(report)


def test_a_model_of_eight_billion_weights_is_planned_without_them():
    from transformers import AutoModelForCausalLM, GraniteConfig

    layers = 40 if os.environ.get("ZELLIGE_LONG") else 1
    # Granite-3.3-8B.
    config = GraniteConfig(
        vocab_size=49159, hidden_size=4096, intermediate_size=12800, num_hidden_layers=layers, num_attention_heads=32,
        num_key_value_heads=8, max_position_embeddings=131072, rope_theta=1e7, use_cache=False,
        attention_multiplier=0.0078125, embedding_multiplier=12.0, logits_scaling=16.0, residual_multiplier=0.22,
    )
    gc.collect()
    before = torch.spyre.memory_allocated()
    report = zellige.compile.plan(
        lambda: AutoModelForCausalLM.from_config(config, dtype=torch.float16).eval(),
        lambda: torch.zeros(1, 64, dtype=torch.int64),
    )
    assert torch.spyre.memory_allocated() == before
    kinds = [s["op"] for s in report.steps]
    assert kinds.count("scaled_dot_product_attention") == layers and kinds.count("linear") >= 7 * layers + 1
    # Reading the weights once from memory is the least that it can take.
    assert report.latency_us > 1000 * layers


def test_graph_breaks_are_named_with_place_and_remedy():
    def f(x):
        y = x + 1
        print("here")
        return y * 2

    x = torch.rand(4, 64).to("spyre")
    found = torch.compile(f, backend="spyre")(x)
    assert torch.equal(found.cpu(), f(x).cpu())
    breaks = [b for r in zellige.compile.reports() for b in r.breaks if "test_compile.py" in b.at]
    assert breaks and "print" in breaks[-1].reason
    line = int(breaks[-1].at.rsplit(":", 1)[1])
    assert "print" in open(__file__).read().splitlines()[line - 1]
    assert any("print" in remedy for remedy in breaks[-1].remedies)
    assert "graph break at" in "\n".join(str(r) for r in zellige.compile.reports())


def test_a_report_covers_all_graphs_of_a_function():
    def f(x):
        y = x + 1
        torch._dynamo.graph_break()
        y = (y @ y).relu()
        torch._dynamo.graph_break()
        y = (y @ y).relu()
        return y.sum(0)

    x = torch.rand(64, 64).to("spyre")
    compiled = torch.compile(f, backend="spyre")
    compiled(x)
    report = torch.spyre.last_report()
    ops = [s["op"] for s in report.steps if not s["is_move"]]
    assert ops == ["add", "matmul", "relu", "matmul", "relu", "sum"] and report.graphs == 3, str(report)
    assert len(report.current) == 3 and report.latency_us == sum(p.latency_us for p in report.current)
    lines = str(report).splitlines()
    assert lines[0].startswith("3 graphs, 3 programs") and "graph break at" in lines[1], "breaks come first"
    compiled(x)
    assert [s["op"] for s in torch.spyre.last_report().steps if not s["is_move"]] == ops, "of one call"
    # Another function has a report of its own.
    torch.compile(lambda x: x - 1, backend="spyre")(x)
    assert torch.spyre.last_report().graphs == 1


def test_messages_quote_the_cpu_where_it_spoke():
    x = torch.rand(3, 4).to("spyre")
    with pytest.raises(RuntimeError, match="the CPU says"):
        x @ x
    with pytest.raises(RuntimeError) as found:
        x + torch.rand(3, 4)
    assert "the CPU says" not in str(found.value)


def test_one_refused_operator_leaves_the_rest_compiled(monkeypatch):
    from zellige.compile import segment

    compile_ = segment._program

    def refusing(doc, device, like, options):
        for op in doc["ops"]:
            if op["op"] == "sin":
                refusal = zellige.DeviceError("this test says so")
                refusal.refused_result = op["outputs"][0]
                raise refusal
        return compile_(doc, device, like, options)

    monkeypatch.setattr(segment, "_program", refusing)

    def f(x, w):
        y = (x + 1).relu() @ w
        z = y.sin()
        return (z * 2).sum(0), y.t()

    compiled = torch.compile(f, backend="spyre", dynamic=True)
    for n in (48, 32):
        x, w = torch.randn(n, 64), torch.randn(64, 64)
        for want, got in zip(f(x, w), compiled(x.to("spyre"), w.to("spyre"))):
            near(want, got)
    report = torch.spyre.last_report()
    assert [op for op, _ in report.fallbacks] == ["aten.sin.default"], str(report)
    assert {"matmul", "sum"} <= {s["op"] for s in report.steps} and len(report.current) == 2, str(report)
    assert any("this test says so" in reason for reason in report.refused.values())


def test_an_error_has_the_refused_operation_as_a_field():
    """The operation that is run alone is found by this field, whatever the message says."""
    pin = {"layout": "SpyreTensorLayout(device_size=[2, 128, 256], stride_map=[256, 512, 1], device_dtype=SENINT4)"}
    graph = {
        "name": "g",
        "inputs": [{"name": "a", "dtype": "float16", "size": [128, 512]}, {"name": "b", "dtype": "float16", "size": [512, 128]}],
        "ops": [
            {"op": "exp", "inputs": ["a"], "outputs": ["e"], "pin": pin},
            {"op": "matmul", "inputs": ["e", "b"], "outputs": ["product"]},
        ],
        "outputs": ["product"],
    }
    with pytest.raises(zellige.DeviceError) as found:
        zellige._native.Program(json.dumps(graph), 0)
    assert found.value.refused_result == "product", str(found.value)
    with pytest.raises(zellige.DeviceError) as found:
        zellige._native.Program("{}", 0)
    assert found.value.refused_result is None, "the refusal is about no single operation"


def test_attention_with_a_bias_and_half_a_stick_of_head():
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    config = T5Config(vocab_size=64, d_model=64, d_kv=32, d_ff=128, num_layers=2, num_heads=2, decoder_start_token_id=0)
    model, ids = T5ForConditionalGeneration(config).eval(), torch.randint(1, 64, (1, 10))
    want = model(input_ids=ids, decoder_input_ids=ids).logits
    compiled = torch.compile(model.to("spyre"), backend="spyre")
    near(want, compiled(input_ids=ids.to("spyre"), decoder_input_ids=ids.to("spyre")).logits, 2e-2)
    report = torch.spyre.last_report()
    assert len(report.current) == 1 and not report.refused, str(report)


def test_a_hint_beyond_the_cores_is_an_error():
    def function(x, w):
        with zellige.compile.hint(split={"M": 32, "N": 4}):
            return x @ w

    x, w = torch.rand(64, 128).half().to("spyre"), torch.rand(128, 256).half().to("spyre")
    refusal = "split=4 of dim N needs more cores than there are: the hints before it take 32 slices"
    with pytest.raises(Exception, match=refusal):
        torch.compile(function, backend="spyre")(x, w)
