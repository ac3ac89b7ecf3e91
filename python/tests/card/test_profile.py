"""`torch.profiler` on tensors of the device: simulated time beside the host's."""

import gc
import gzip
import json
import subprocess
import sys
import threading
import warnings

import models
import pytest
import torch
import zellige.spyre
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from zellige.spyre import profiling

HOST, CARD = False, True


@pytest.fixture(autouse=True)
def inference():
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def some(*size, device="spyre"):
    return torch.rand(*size, dtype=torch.float16).to(device)


def trace_of(prof, path, **options):
    prof.export_chrome_trace(str(path), **options)
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt") as file:
        return json.load(file)


def processes(trace):
    return {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}


def of(trace, card=0, what="streams"):
    """The operations of a card in a trace."""
    (pid,) = [p for p, name in processes(trace).items() if name == f"spyre:{card} (simulated time): {what}"]
    return [e for e in trace["traceEvents"] if e["pid"] == pid and e["ph"] == "X"]


def rows(prof):
    """What a table has, by name and whether it is the card's."""
    return {(a.key, a.device_type == DeviceType.PrivateUse1): a for a in prof.key_averages()}


def test_eager_operators_and_the_card_in_one_trace(tmp_path):
    x = some(128, 128)
    start, end = torch.spyre.Event(), torch.spyre.Event()
    x @ x
    with profile() as prof:
        start.record()
        with record_function("mine"):
            y = (x @ x).relu()
        y.cpu()
        end.record()
    trace = trace_of(prof, tmp_path / "t.json")
    names = [e["name"] for e in trace["traceEvents"]]
    assert "aten::matmul" in names and "mine" in names, "what PyTorch writes is there"
    streams = of(trace)
    assert [e["name"] for e in streams] == ["matmul", "relu", "download"]
    assert [e["args"]["launched by"] for e in streams] == ["aten::matmul", "aten::relu", "aten::_to_copy"]
    ids = {e["name"]: e["args"]["External id"] for e in trace["traceEvents"] if e.get("cat") == "cpu_op"}
    assert all(e["args"]["External id"] == ids[e["args"]["launched by"]] for e in streams)

    # Tools that read traces of other devices find these by their categories, and the call of the host by a number.
    assert [e["cat"] for e in streams] == ["kernel", "kernel", "gpu_memcpy"]
    calls = {e["args"]["correlation"]: e for e in trace["traceEvents"] if e.get("cat") == "privateuse1_runtime"}
    assert [calls[e["args"]["correlation"]]["name"] for e in streams] == ["launch matmul", "launch relu", "launch download"]
    assert all(e["dur"] > 0 and "cbid" in e["args"] for e in calls.values())

    # The card's clock is that of its events, and one operation follows the other.
    total = sum(e["args"]["simulated duration us"] for e in streams)
    assert total == pytest.approx(start.elapsed_time(end) * 1e3, abs=1e-6)
    first, last = streams[0]["args"], streams[-1]["args"]
    assert last["simulated us"] + last["simulated duration us"] - first["simulated us"] == pytest.approx(total, abs=1e-6)

    # In the trace the first stands where the profile begins.
    (span,) = [e for e in trace["traceEvents"] if e["name"].startswith("PyTorch Profiler (")]
    assert span["ts"] <= streams[0]["ts"] <= span["ts"] + span["dur"]
    cores = of(trace, what="cores")
    assert {e["name"] for e in cores} == {"matmul", "relu", "download"} and len({e["tid"] for e in cores}) == 33
    by_name = {e["name"]: e for e in streams}
    for event in cores:
        around = by_name[event["name"]]
        assert around["ts"] == event["ts"] and event["dur"] <= around["dur"] + 1e-3
    for track in ((streams, 0), *((cores, tid) for tid in range(33))):
        own = [e for e in track[0] if e["tid"] == track[1]]
        for before, after in zip(own, own[1:]):
            # A microsecond since the start of the machine has a fraction of half a nanosecond as a float.
            assert round((before["ts"] + before["dur"]) * 1e3) <= round(after["ts"] * 1e3) + 1
    assert trace["spyre"]["dropped_events"] == {"spyre:0": 0}


def test_tables_show_the_cards_time():
    x = some(128, 128)
    with profile() as prof:
        with record_function("mine"):
            (x @ x).relu()
        x + x
        x + x
    found = rows(prof)
    matmul, relu, add = (found[name, CARD] for name in ("matmul", "relu", "add"))
    assert add.count == 2 and matmul.self_device_time_total > 0
    for op, row in (("aten::matmul", matmul), ("aten::relu", relu), ("aten::add", add)):
        assert found[op, HOST].self_device_time_total == pytest.approx(row.device_time_total)
        assert row.self_cpu_time_total == 0
    assert found["mine", HOST].self_device_time_total == 0
    assert found["mine", HOST].device_time_total == pytest.approx(matmul.device_time_total + relu.device_time_total)
    table = prof.key_averages().table(sort_by="self_device_time_total", row_limit=3)
    assert "Self SPYRE" in table and "SPYRE time avg" in table
    total = matmul.device_time_total + relu.device_time_total + add.device_time_total
    assert f"Self SPYRE time total: {total:.3f}us" in table


def test_compiled_models(tmp_path):
    model = models.encoder().to("spyre")
    compiled = torch.compile(model, backend="spyre")
    x = torch.randn(2, 10, 64).to("spyre")
    compiled(x)
    start, end = torch.spyre.Event(), torch.spyre.Event()
    with profile() as prof:
        start.record()
        compiled(x)
        end.record()
    streams = of(trace_of(prof, tmp_path / "t.json"))
    report = torch.spyre.last_report()
    assert len(streams) >= len(report.steps) > 5
    # Steps of a wave begin together: what the card was busy is what their times cover.
    covered, until = 0.0, 0.0
    for at, took in sorted((e["args"]["simulated us"], e["args"]["simulated duration us"]) for e in streams):
        covered += max(0.0, at + took - max(at, until))
        until = max(until, at + took)
    assert covered == pytest.approx(start.elapsed_time(end) * 1e3, abs=1e-5)
    assert {e["args"]["launched by"].partition(":")[0] for e in streams} == {"Torch-Compiled Region"}
    regions = [a for (key, _), a in rows(prof).items() if key.startswith("Torch-Compiled Region")]
    total = sum(e["args"]["simulated duration us"] for e in streams)
    assert sum(a.device_time_total for a in regions) == pytest.approx(total, abs=1e-5)


def test_backward_passes_run_in_another_thread():
    with torch.enable_grad():
        w = some(64, 64).requires_grad_()
        with profile() as prof:
            (w @ w).sum().backward()
    table = rows(prof)
    device = [a for (_, on_card), a in table.items() if on_card]
    host = [a for (_, on_card), a in table.items() if not on_card]
    assert sum(a.self_device_time_total for a in device) == pytest.approx(sum(a.self_device_time_total for a in host))
    assert any("Backward" in a.key and a.device_time_total > 0 for a in host)


def test_cards_streams_and_threads(tmp_path):
    x, y = some(64, 64), some(64, 64, device="spyre:1")
    with profile() as prof:
        x + x
        with torch.spyre.stream(torch.spyre.Stream()):
            x * x
        worker = threading.Thread(target=lambda: torch.no_grad()(lambda: y - y)())
        worker.start()
        worker.join()
    trace = trace_of(prof, tmp_path / "t.json")
    first, second = of(trace), of(trace, 1)
    assert {e["name"]: e["tid"] for e in first}.keys() == {"add", "mul"} and len({e["tid"] for e in first}) == 2
    # PyTorch profiles the thread that asked; the card shows all of its work.
    assert [e["name"] for e in second] == ["sub"] and "launched by" not in second[0]["args"]
    assert {key for key, on_card in rows(prof) if on_card} == {"add", "mul", "sub"}


def test_schedules_have_one_trace_for_each_cycle(tmp_path):
    x = some(64, 64)
    seen = []

    def ready(prof):
        path = tmp_path / f"{len(seen)}.json"
        seen.append([e["name"] for e in of(trace_of(prof, path))])
        assert {key for key, on_card in rows(prof) if on_card} == set(seen[-1])

    operators = [torch.neg, torch.exp, torch.relu, torch.sigmoid, torch.tanh, torch.abs]
    with profile(schedule=schedule(wait=1, warmup=1, active=1, repeat=2), on_trace_ready=ready) as prof:
        for operator in operators:
            operator(x)
            prof.step()
    assert seen == [["relu"], ["abs"]], "what came in between is not kept"


def test_events_of_cycles_are_added_up_on_request():
    x = some(64, 64)
    with profile(schedule=schedule(wait=0, warmup=1, active=1, repeat=2), acc_events=True) as prof:
        for _ in range(4):
            x + x
            prof.step()
    assert rows(prof)["add", CARD].count == 2


def test_compressed_traces_and_pythons_exporter(tmp_path):
    x = some(64, 64)
    for name, options in (("a.json.gz", {}), ("b.json", {"use_python_export": True}), ("b.json.gz", {"use_python_export": True})):
        with profile() as prof:
            x + x
        trace = trace_of(prof, tmp_path / name, **options)
        assert [(e["name"], e["args"]["launched by"]) for e in of(trace)] == [("add", "aten::add")], name


def test_with_stacks_shapes_and_memory(tmp_path):
    x = some(64, 64)
    with profile(with_stack=True, record_shapes=True, profile_memory=True) as prof:
        x + x
        torch.eye(3).to("spyre").det()
    assert rows(prof)["aten::add", HOST].self_device_time_total > 0, "the operator, not a Python frame in it"
    assert "add" in [e["name"] for e in of(trace_of(prof, tmp_path / "t.json"))]
    assert prof.key_averages(group_by_input_shape=True).table()


def test_profiles_without_the_card_are_pytorchs_own(tmp_path):
    x, y = some(64, 64), torch.ones(3)
    with profile() as prof:
        y + y
    trace = trace_of(prof, tmp_path / "t.json")
    assert "spyre" not in trace and not any("simulated" in name for name in processes(trace).values())
    assert "SPYRE" not in prof.key_averages().table()
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        x + x
    assert "spyre" not in trace_of(prof, tmp_path / "u.json"), "the device was not asked for"
    assert "SPYRE" not in prof.key_averages().table()


def test_an_exception_ends_the_profile(tmp_path):
    x = some(64, 64)
    with pytest.raises(ZeroDivisionError):
        with profile() as prof:
            x + x
            1 / 0
    assert [e["name"] for e in of(trace_of(prof, tmp_path / "t.json"))] == ["add"]
    with profile() as prof:
        x * x
    assert [e["name"] for e in of(trace_of(prof, tmp_path / "t.json"))] == ["mul"]


def test_a_profile_in_a_profile(tmp_path):
    """PyTorch cancels the outer one, and would crash when that is exported; the card has both."""
    x = some(64, 64)
    with profile() as outer:
        x + x
        with profile() as inner:
            x - x
        x * x
    assert [e["name"] for e in of(trace_of(inner, tmp_path / "t.json"))] == ["sub"]
    assert [key for key, on_card in rows(outer) if on_card] == ["add", "sub", "mul"]
    with pytest.raises(RuntimeError, match="PyTorch cancelled this profile"):
        outer.export_chrome_trace(str(tmp_path / "u.json"))


def test_profiles_of_two_threads(tmp_path):
    x = some(64, 64)
    begun, over = threading.Event(), threading.Event()
    found = []

    def work():
        with profile() as prof:
            begun.set()
            over.wait(60)
            torch.neg(x)
        found.append(prof)

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(60)
    with profile() as prof:
        torch.exp(x)
    over.set()
    thread.join()
    assert {key for key, on_card in rows(prof) if on_card} == {"exp"}
    assert {key for key, on_card in rows(found[0]) if on_card} == {"exp", "neg"}
    with pytest.raises(RuntimeError, match="PyTorch cancelled this profile"):
        found[0].export_chrome_trace(str(tmp_path / "t.json"))


def test_the_profiler_of_autograd():
    x = some(64, 64)
    with torch.autograd.profiler.profile(use_device="spyre") as prof:
        x + x
    assert rows(prof)["aten::add", HOST].device_time_total == pytest.approx(rows(prof)["add", CARD].device_time_total)
    assert rows(prof)["add", CARD].device_time_total > 0
    with torch.autograd.profiler.profile() as prof:
        x + x
    assert {key for key, on_card in rows(prof) if on_card} == set()
    with torch.autograd.profiler.profile(enabled=False) as prof:
        x + x
    assert prof is None


def test_started_and_stopped_by_hand(tmp_path):
    x = some(64, 64)
    prof = profile()
    prof.start()
    x + x
    prof.stop()
    assert [e["name"] for e in of(trace_of(prof, tmp_path / "t.json"))] == ["add"]
    prof.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prof.start()  # begins anew
    x * x
    prof.stop()
    assert [e["name"] for e in of(trace_of(prof, tmp_path / "t.json"))] == ["mul"]
    prof.stop()
    with pytest.raises(RuntimeError, match="cancelled this profile, or ended it twice"):
        prof.export_chrome_trace(str(tmp_path / "t.json"))


def test_files_that_cannot_be_written():
    with profile() as prof:
        some(64, 64) + 1
    with pytest.raises(OSError, match="no/such/folder"):
        prof.export_chrome_trace("/no/such/folder/t.json")


def test_memory_is_bounded(monkeypatch, tmp_path):
    x = some(64, 64)
    monkeypatch.setattr(profiling, "_MOST_EVENTS", 100)
    with pytest.warns(UserWarning, match="the profile has 100 events of spyre:0 and not"):
        with profile() as prof:
            for _ in range(200):
                x + x
    trace = trace_of(prof, tmp_path / "t.json")
    assert trace["spyre"]["dropped_events"]["spyre:0"] > 0
    assert len(of(trace)) > 50, "streams are kept longer than cores"


def test_a_profile_thrown_away_records_no_more():
    window = profiling._Window()
    key = window._key
    del window
    gc.collect()
    assert profiling._native.stop_recording(key) == []


def test_the_cards_own_trace_after_a_profile(tmp_path):
    code = """if True:
        import json, os, torch
        x = torch.ones(64, 64, dtype=torch.float16).to("spyre")
        for file in (None, "t.json"):
            try:
                torch.spyre.chrome_trace() if file is None else torch.spyre.export_chrome_trace(file)
            except RuntimeError as error:
                assert "nothing was recorded on spyre:0" in str(error) and "torch.profiler" in str(error), error
            else:
                raise SystemExit("no error")
        assert not os.path.exists("t.json")
        with torch.profiler.profile():
            x + x
        x * x
        torch.spyre.export_chrome_trace("t.json")
        names = {e["name"] for e in json.load(open("t.json"))["traceEvents"] if e["ph"] == "X"}
        assert names == {"add"}, names
        try:
            torch.spyre.chrome_trace(1)
        except RuntimeError as error:
            assert "spyre:1" in str(error)
        else:
            raise SystemExit("no error")
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_pytorch_gets_its_own_class_back():
    ours = torch.autograd.profiler.profile
    try:
        zellige.spyre.unpatch()
        assert torch.autograd.profiler.profile is ours.__base__
        with profile() as prof:
            some(64, 64) + 1
        assert not hasattr(prof.profiler, "_spyre")
    finally:
        zellige.spyre.patch()
    zellige.spyre.patch()
    assert torch.autograd.profiler.profile.__base__ is ours.__base__


def test_launchers_are_the_innermost_spans_of_their_thread():
    spans = [(1, 0, 100, "a"), (1, 10, 50, "b"), (1, 20, 30, "c"), (1, 60, 70, "d"), (2, 0, 40, "e")]
    at = [(1, 5), (1, 25), (1, 30), (1, 35), (1, 55), (1, 65), (1, 101), (2, 25), (2, 60), (3, 5)]
    assert profiling.launchers(at, spans) == ["a", "c", "c", "b", "a", "d", None, "e", None, None]
    assert profiling.launchers([], spans) == [] and profiling.launchers([(1, 1)], []) == [None]
