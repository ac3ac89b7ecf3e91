"""Layouts of what compiled programs take and give: results as they are computed, views through their storage."""

import pytest
import torch
from zellige.compile import restickify


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def random(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed)).half()


def near(want, got, limit=1e-2):
    assert want.shape == got.shape and want.stride() == got.stride()
    error = (want.float() - got.cpu().float()).abs().max().item() / max(want.float().abs().max().item(), 1e-3)
    assert error < limit, f"relative error {error}"


def ops(report):
    return [s["op"] for s in report.steps]


def layout(tensor):
    return tensor.device_tensor_layout()


# Results.


def stick_0(x):
    return restickify(x.to("spyre"), 0)


@pytest.mark.parametrize(
    "function, make, steps",
    [
        (lambda a, b: a + b, lambda: (stick_0(random(256, 512)), stick_0(random(256, 512, seed=1))), ["add"]),
        (lambda a: restickify(a, 0) + 1, lambda: (random(256, 512).to("spyre"),), ["move", "add"]),
        (lambda a: a.sum(1), lambda: (random(256, 512).to("spyre"),), ["sum"]),
        (lambda a: a.mean(-1, keepdim=True), lambda: (random(3, 40, 200).to("spyre"),), ["mean"]),
        (lambda a: a.clone(), lambda: (stick_0(random(100, 70)),), ["clone"]),
        (lambda a: restickify(a * 2, 0), lambda: (stick_0(random(100, 70)),), ["mul"]),
    ],
)
def test_results_have_the_layout_of_eager(function, make, steps):
    args = make()
    want = function(*args)
    got = torch.compile(function, backend="spyre")(*args)
    near(want.cpu(), got)
    assert layout(got) == layout(want)
    assert ops(torch.spyre.last_report()) == steps


def test_default_layouts_are_an_option():
    x = stick_0(random(256, 512))
    got = torch.compile(lambda a: a + 1, backend="spyre", options={"outputs": "default"})(x)
    near(x.cpu() + 1, got)
    assert layout(got) == layout(random(256, 512).to("spyre"))
    assert ops(torch.spyre.last_report()) == ["add", "move"]


def test_results_in_other_layouts_go_on():
    """Eager operators, writes in place, views, saving and other graphs take a result in any layout."""
    x, w = random(96, 80), random(80, 40, seed=1)
    first = torch.compile(lambda a: (restickify(a, 0) * 2, a.sum(1)), backend="spyre")
    again = torch.compile(lambda a, s, w: (a @ w) * s[:, None], backend="spyre")
    want = ((x * 2) @ w) * x.sum(1)[:, None]
    for _ in range(3):
        wide, sums = first(x.to("spyre"))
        near(want, again(wide, sums, w.to("spyre")), 3e-2)
    assert len(torch.spyre.last_report().programs) == 1, "the layout of a result is always the same"
    near(x * 2, wide)
    near((x * 2)[3:50, 7:9].t(), wide[3:50, 7:9].t())
    near(x.sum(1) + 1, sums + 1, 2e-2)
    wide[:, 5] = 0
    wide.add_(1)
    want = x * 2
    want[:, 5] = 0
    near(want + 1, wide)
    near(wide.cpu(), wide.clone())
    assert "spyre" in repr(wide)


def test_results_that_share_memory_are_copied_in_the_report():
    """A part of a result that an eager operator takes is a copy, and a step."""

    def function(x):
        part = (x + 1)[:, 3:131]
        return torch.special.i1(part) + 1, part * 2

    x = random(64, 256)
    with pytest.warns(UserWarning):
        got = torch.compile(function, backend="spyre")(x.to("spyre"))
    for w, g in zip(function(x), got):
        near(w, g)
    assert "move" in ops(torch.spyre.last_report())


def test_training_keeps_its_programs():
    """Saved activations and gradients have the layouts of the programs, and those do not change from step to step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(48, 70), torch.nn.Tanh(), torch.nn.Linear(70, 5))
    x, y = torch.randn(32, 48), torch.randn(32, 5)

    def train(model, x, y, run):
        losses, optimizer = [], torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(5):
            optimizer.zero_grad()
            loss = (run(x) - y).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    import copy

    device = copy.deepcopy(model).to("spyre")
    with torch.enable_grad():
        want = train(model, x, y, model)
        got = train(device, x.to("spyre"), y.to("spyre"), torch.compile(device, backend="spyre"))
    assert got == pytest.approx(want, rel=5e-2)
    assert len(torch.spyre.last_report().programs) == 2, "forward and backward"


# Views.

VIEWS = {
    "slice of the stick": lambda y: y[:, 3:131],
    "whole sticks": lambda y: y[:, 64:128],
    "rows": lambda y: y[3:70],
    "column": lambda y: y[:, 9],
    "row": lambda y: y[5],
    "transposed": lambda y: y.t(),
    "every second row": lambda y: y[::2],
    "every second column": lambda y: y[:, ::2],
    "expanded": lambda y: y[:1].expand(7, 256),
    "expanded column": lambda y: y[:, 2:3].expand(96, 5),
    "unfolded": lambda y: y.unfold(1, 16, 8),
    "strided": lambda y: y.as_strided((5, 7), (3, 11), 13),
    "overlapping": lambda y: y.as_strided((40, 40), (1, 1), 100),
    "flat": lambda y: y.view(-1),
    "split": lambda y: y.view(8, 12, 4, 64).permute(2, 0, 3, 1),
    "diagonal": lambda y: y.diagonal(),
    "flat part": lambda y: y.view(-1)[77:999],
}


def device_us(run):
    """Microseconds that events measure around a call."""
    begin, end = torch.spyre.Event(enable_timing=True), torch.spyre.Event(enable_timing=True)
    begin.record()
    run()
    end.record()
    torch.spyre.synchronize()
    return begin.elapsed_time(end) * 1e3


# A storage in the default layout, in another one, and of a host tensor whose columns are contiguous. A tensor of the last
# kind has no flat view.
STORAGES = {
    "default": (lambda x: x, lambda x: x.to("spyre")),
    "other sticks": (lambda x: x, stick_0),
    "columns": (lambda x: x.t().contiguous().t(), lambda x: x.to("spyre")),
}
CASES = [(view, storage) for view in VIEWS for storage in STORAGES if not (storage == "columns" and "flat" in view)]


@pytest.mark.parametrize("name, storage", CASES)
def test_views(name, storage):
    """Any view, of a storage in any layout: the result of the CPU, and all of its time in the report."""
    on_host, on_card = STORAGES[storage]
    host, view = on_host(random(96, 256)), VIEWS[name]
    compiled = torch.compile(lambda v: v * 2 + 1, backend="spyre", dynamic=False)
    seen = view(on_card(host))
    got = compiled(seen)
    want = view(host) * 2 + 1
    near(want, got)
    report = torch.spyre.last_report()
    steps = sum(s["us"] for s in report.steps)
    assert device_us(lambda: compiled(seen)) == pytest.approx(steps, rel=1e-6), str(report)
    assert not report.refused and not report.fallbacks, str(report)


def test_a_column_of_sticks_is_read_in_place():
    x = random(4096, 1)
    got = torch.compile(lambda v: v + 1, backend="spyre")(x.to("spyre")[:, 0])
    near(x[:, 0] + 1, got)
    assert ops(torch.spyre.last_report()) == ["add"]


def test_a_copy_of_a_view_is_a_step_with_its_reason():
    x = random(256, 512).to("spyre")
    torch.compile(lambda v: v + 1, backend="spyre")(x[:, 3:131])
    (move,) = torch.spyre.last_report().moves
    assert move["us"] > 0 and "stick" in move["why"]
    buffers = torch.spyre.last_report().buffers()
    assert any(list(b.size) == [256, 512] and b.device_layout == layout(x) for b in buffers.values())


def test_offsets_and_strides_are_part_of_the_key():
    x = random(64, 300)
    device, compiled = x.to("spyre"), torch.compile(lambda v: v + 1, backend="spyre", dynamic=False)
    for _ in range(2):
        for start in (0, 1, 64, 65):
            near(x[:, start : start + 64] + 1, compiled(device[:, start : start + 64]))
        near(x[:, :64].contiguous() + 1, compiled(x[:, :64].contiguous().to("spyre")))
        near(x[:, 0:128:2] + 1, compiled(device[:, 0:128:2]))


def test_views_that_are_written():
    def function(v, x):
        v.mul_(2).add_(x)
        return v.sum()

    def run(f, device):
        base, x = random(20, 90).to(device), random(20, 30, seed=1).to(device)
        total = f(base[:, 10:40], x)
        f(base.t()[50:80].t(), x)
        return base.cpu(), total.cpu()

    want, got = run(function, "cpu"), run(torch.compile(function, backend="spyre"), "spyre")
    for w, g in zip(want, got):
        near(w, g, 2e-2)


def test_a_part_without_elements():
    """A split of no rows has one part, which has none."""

    def function(x):
        rows = x[4:]
        return rows.split(1, 0)[0].clone(), x * 2

    compiled = torch.compile(function, backend="spyre", dynamic=True)
    for n in (6, 5, 3):
        x = torch.arange(n * 7, dtype=torch.float16).view(n, 7)
        for w, g in zip(function(x), compiled(x.to("spyre"))):
            assert w.shape == g.shape and torch.equal(w, g.cpu())


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_of_views(seed):
    """Several views of one storage and of storages in other layouts, in one graph."""
    pick = torch.Generator().manual_seed(seed)

    def number(limit):
        return int(torch.randint(limit, (1,), generator=pick))

    a, b = random(40, 72, seed=seed), random(72, 40, seed=seed + 100)
    starts = [number(30) for _ in range(3)]

    def views(a, b):
        made = [a[:, s : s + 33] for s in starts] + [b.t()[:, s : s + 33] for s in starts]
        made += [a.t()[:33].t(), b[::2][:33].t()[:, :33], a.unfold(1, 33, 5)[:, number(3)]]
        return [made[i % len(made)] for i in order]

    order = [number(9) for _ in range(4)]

    def function(p, q, r, s):
        p, q, r, s = (t[:, :33] for t in (p, q, r, s))
        return (p * q + r).relu() @ s.t(), (p - s).sum(number_of), torch.cat([q, r], 1).amax(1)

    number_of = number(2)
    state = pick.get_state()
    want = function(*views(a, b))
    pick.set_state(state)
    layouts = [lambda t: t.to("spyre"), stick_0]
    got = torch.compile(function, backend="spyre")(*views(layouts[number_of](a), layouts[1 - number_of](b)))
    for w, g in zip(want, got):
        near(w, g, 3e-2)


# Options.


def compiled_with(options, function=lambda a: a.softmax(-1).sum(-1), **kwargs):
    x = random(256, 512)
    got = torch.compile(function, options=options, **kwargs)(x.to("spyre"))
    near(function(x), got)
    return torch.spyre.last_report()


BACKENDS = [{"backend": "spyre"}, {}]


@pytest.mark.parametrize("backend", BACKENDS)
def test_options_have_an_effect(backend):
    usual = compiled_with({}, **backend)
    torch._dynamo.reset()
    assert all(s["cores"] <= 4 for s in compiled_with({"cores": 4}, **backend).steps)
    assert any(s["cores"] > 4 for s in usual.steps)
    torch._dynamo.reset()
    without = compiled_with({"lx": False}, **backend)
    places = [[b["place"] for b in r.programs[0].report()["buffers"]] for r in (usual, without)]
    assert any("scratchpad" in p for p in places[0]) and not any("scratchpad" in p for p in places[1])
    torch._dynamo.reset()
    assert ops(compiled_with({"outputs": "default"}, **backend)) == ["softmax", "sum", "move"]
    torch._dynamo.reset()
    other = compiled_with({"hardware": "ktir"}, **backend)
    assert other.latency_us != usual.latency_us
    torch._dynamo.reset()
    baseline = compiled_with({"policy": "baseline"}, **backend)
    assert baseline.programs[0].data()["options"]["policy"] == "baseline"


@pytest.mark.parametrize("backend", BACKENDS)
def test_strict_refuses_what_a_move_would_repair(backend):
    function = lambda a: a[:, 3:131] + 1
    with pytest.raises(RuntimeError, match="does not support"):
        compiled_with({"strict": True}, function, **backend)
    torch._dynamo.reset()
    assert compiled_with({"strict": True}, lambda a: a[:, 64:128] + 1, **backend)
    torch._dynamo.reset()
    assert compiled_with({"strict": False}, function, **backend).moves


@pytest.mark.parametrize(
    "options, accepted",
    [
        ({"policy": "fast"}, '"best" or "baseline"'),
        ({"outputs": "stick"}, '"computed" or "default"'),
        ({"outputs": 1}, '"computed" or "default"'),
        ({"cores": 0}, "an integer from 1 to 32"),
        ({"cores": 33}, "an integer from 1 to 32"),
        ({"cores": True}, "an integer from 1 to 32"),
        ({"hardware": "nothing"}, "card, card-2026-05, card-2026-09, ktir"),
        ({"lx": "yes"}, "True or False"),
        ({"strict": 1}, "True or False"),
        ({"polices": "best"}, "cores, hardware, lx, outputs, policy, strict"),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_bad_options_are_errors_that_list_what_is_accepted(options, accepted, backend):
    with pytest.raises(Exception) as raised:
        compiled_with(options, **backend)
    assert accepted in str(raised.value)


def test_inductors_options_stay():
    assert compiled_with({"max_autotune": True, "cores": 2}).steps
    with pytest.raises(RuntimeError, match="should be bool"):
        torch.compile(lambda a: a, options={"max_autotune": 3})
    with_options = [torch.compile(lambda a: a, options={"cores": n}).__class__ for n in (2, 3)]
    assert len(set(with_options)) == 1
    wrapper = torch._TorchCompileInductorWrapper
    assert wrapper(None, {"cores": 2}, None) != wrapper(None, {"cores": 3}, None)
    assert wrapper(None, {"cores": 2}, None) == wrapper(None, {"cores": 2}, None)
    assert wrapper(None, {"max_autotune": True, "cores": 2}, None).config == {"max_autotune": True}


def test_views_that_move_share_one_program():
    """A loop over the batches of one tensor makes some programs, and then copies what moves."""
    x = torch.rand(40, 64).half().to("spyre")

    def scale(batch):
        return batch * 2 + 1

    compiled = torch.compile(scale, backend="spyre", dynamic=False)
    with torch.no_grad():
        for turn in range(2):
            for start in range(0, 40, 4):
                batch = x[start : start + 4]
                assert torch.equal(compiled(batch).cpu(), scale(batch).cpu()), (turn, start)
    report = torch.spyre.last_report()
    # The whole tensor's first batch, four offsets, and the copies.
    assert len(report.programs) <= 6
    assert any("a copy of the view" in op for op, _ in report.fallbacks)


def test_a_view_that_is_written_is_never_a_copy():
    x = torch.zeros(40, 64, dtype=torch.float16, device="spyre")

    def write(part):
        part.add_(1)

    compiled = torch.compile(write, backend="spyre", dynamic=False)
    with torch.no_grad():
        for start in range(0, 40, 4):
            compiled(x[start : start + 4])
    assert torch.equal(x.cpu(), torch.ones(40, 64, dtype=torch.float16))
