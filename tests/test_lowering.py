"""The lowering scope: what it decides, and that nothing of it is left behind."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm.meta_schedule
from tvm import relay

from tests.relay_modules import (
    EXACT,
    REASSOCIATING,
    TARGET,
    assert_close,
    inputs_of,
    module,
    run_plain,
    var,
)
from tests.schedules.blocked_blocks import as_block, unscheduled
from tvm_fusionx.blocks import block as block_module
from tvm_fusionx.errors import TargetError
from tvm_fusionx.lowering import compile_kernel, lowering
from tvm_fusionx.records import FORMAT_VERSION
from tvm_fusionx.records.record import TRACE_VERSION
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target, schedule, target_key
from tvm_fusionx.schedules.traced import trace_text

RESOLVED = resolve_target(TARGET)


def _context() -> tuple[Any, ...]:
    context = tvm.transform.PassContext.current()
    database = tvm.meta_schedule.Database.current()
    build = tvm.get_global_func("relay.backend.build")
    return (
        context.opt_level,
        sorted(map(str, context.config)),
        sorted(map(str, context.disabled_pass)),
        None if database is None else database.handle.value,
        build is not None,
    )


def _relu_block() -> tvm.IRModule:
    return as_block(relay.nn.relu(var("x", 4, 8)))


def test_each_kernel_is_logged_under_its_name() -> None:
    with lowering(TARGET) as log:
        library = relay.build(_relu_block(), RESOLVED)
    (entry,) = log.entries
    assert entry.name in library.get_graph_json()
    assert (entry.template, entry.fallback_reason) == ("rows", None)


def test_the_scope_is_undone() -> None:
    before = _context()
    with lowering(TARGET):
        assert _context() != before
    assert _context() == before


def test_the_scope_is_undone_after_an_exception() -> None:
    before = _context()
    with pytest.raises(KeyError), lowering(TARGET):
        raise KeyError
    assert _context() == before


def test_scopes_nest_and_each_logs_its_own() -> None:
    with lowering(TARGET) as outer:
        with lowering("llvm -mcpu=x86-64") as inner:
            relay.build(_relu_block(), "llvm -mcpu=x86-64")
        relay.build(_relu_block(), RESOLVED)
    assert len(inner.entries) == len(outer.entries) == 1


def test_another_thread_is_not_in_the_scope() -> None:
    seen: list[Any] = []
    with lowering(TARGET) as log:
        worker = threading.Thread(target=lambda: seen.append(relay.build(_relu_block(), RESOLVED)))
        worker.start()
        worker.join()
    assert len(seen) == 1
    assert log.entries == []


def test_equal_blocks_are_scheduled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    original = block_module.schedule_by_record
    monkeypatch.setattr(
        block_module, "schedule_by_record", lambda *args: calls.append(args) or original(*args)
    )
    with lowering(TARGET) as log:
        relay.build(_relu_block(), RESOLVED)
        relay.build(_relu_block(), RESOLVED)
    assert len(log.entries) == 2
    assert len(calls) == 1


EXTERN = {
    "argsort": lambda: relay.argsort(var("x", 4, 8), axis=1),
    "topk": lambda: relay.topk(var("x", 4, 8), k=3, ret_type="values"),
    "cumsum": lambda: relay.cumsum(var("x", 4, 8), axis=1),
    "sort": lambda: relay.sort(var("x", 4, 8), axis=1),
}


@pytest.mark.parametrize("operator", EXTERN)
def test_extern_operators_get_tvms_own_schedule(operator: str) -> None:
    body = EXTERN[operator]()
    mod = as_block(body)
    with lowering(TARGET) as log:
        library = relay.build(mod, RESOLVED)
    assert [entry.template for entry in log.entries] == ["topi"]
    assert all("extern" in str(entry.fallback_reason) for entry in log.entries)
    inputs = inputs_of(mod)
    assert_close(run_once(library, inputs), run_plain(module(body), inputs), EXACT)


def test_constants_fold_inside_the_scope() -> None:
    constant = relay.const(np.arange(6, dtype="float32").reshape(2, 3))
    mod = module(var("x", 3, 2) + relay.transpose(constant))
    with lowering(TARGET):
        library = relay.build(mod, RESOLVED)
    inputs = inputs_of(mod)
    assert_close(run_once(library, inputs), run_plain(mod, inputs), EXACT)


def test_unknown_target() -> None:
    with pytest.raises(TargetError), lowering("abacus"):
        pass


def _write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _record(body: relay.Expr, **knobs: int) -> dict[str, Any]:
    digest = str(tvm.ir.structural_hash(unscheduled(body)))
    return {
        "version": FORMAT_VERSION,
        "target": target_key(RESOLVED),
        "hash": digest,
        "template": "dot",
        "knobs": knobs,
    }


def test_a_record_sets_the_knobs(tmp_path: Path) -> None:
    body = relay.nn.matmul(var("x", 8, 6), var("w", 6, 32))
    path = _write(tmp_path / "tuned.jsonl", _record(body, tile_rows=2))
    for records in (path, tmp_path):
        with lowering(TARGET, records) as log:
            relay.build(as_block(body), RESOLVED)
        assert log.entries[0].knobs["tile_rows"] == 2


def test_a_default_that_was_kept_is_the_default_of_today(tmp_path: Path) -> None:
    body = relay.nn.matmul(var("x", 8, 6), var("w", 6, 32))
    (template, knobs), *rest = (
        _template_and_knobs(body, tmp_path, seconds, row)
        for seconds, row in [
            (1.0, {"tile_rows": 2}),
            (1.0, {"tile_rows": 2, "template": "rows"}),
            (0.5, {"tile_rows": 2}),
        ]
    )
    assert (template, knobs["tile_rows"] != 2) == ("dot", True)
    assert rest[0] == (template, knobs)
    assert rest[1][1]["tile_rows"] == 2


def _template_and_knobs(
    body: relay.Expr, folder: Path, seconds: float, row: dict[str, Any]
) -> tuple[str, dict[str, int]]:
    """Build by a record of a choice that takes `seconds`, where the default took one."""
    knobs = {name: value for name, value in row.items() if name != "template"}
    timed = {"seconds": seconds, "default_seconds": 1.0, "template": row.get("template", "dot")}
    path = _write(folder / "tuned.jsonl", _record(body, **knobs) | timed)
    with lowering(TARGET, path) as log:
        relay.build(as_block(body), RESOLVED)
    (entry,) = log.entries
    return entry.template, dict(entry.knobs)


def test_a_record_may_hold_a_schedule_of_tvms_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    body = relay.nn.matmul(var("x", 8, 6), var("w", 6, 32))
    sch = tvm.tir.Schedule(tvm.IRModule({"main": unscheduled(body)}))
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    _, columns, _ = sch.get_loops(block)
    sch.vectorize(sch.split(columns, [None, 8])[1])
    traced = {"version": TRACE_VERSION, "template": "tvm", "trace": trace_text(sch.trace)}
    path = _write(tmp_path / "tuned.jsonl", _record(body) | traced)
    with lowering(TARGET, path) as log:
        library = relay.build(as_block(body), RESOLVED)
    assert [(each.template, each.fallback_reason) for each in log.entries] == [("tvm", None)]
    inputs = inputs_of(module(body))
    assert_close(run_once(library, inputs), run_plain(module(body), inputs), REASSOCIATING)

    # The trace of another block, under this one's name.
    relu = relay.nn.relu(var("x", 4, 8))
    _write(path, _record(relu) | traced)
    with lowering(TARGET, path) as log:
        relay.build(_relu_block(), RESOLVED)
    assert log.entries[0].template == "rows"
    assert "does not fit the block" in (log.entries[0].fallback_reason or "")
    assert [each.levelname for each in caplog.records if "does not fit" in each.message]


def test_the_share_of_the_records_is_logged_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    body = relay.nn.matmul(var("x", 8, 6), var("w", 6, 32))
    path = _write(tmp_path / "tuned.jsonl", _record(body, tile_rows=2) | {"trials": 3})
    with caplog.at_level("INFO", "tvm_fusionx.lowering"), lowering(TARGET, path) as log:
        relay.build(as_block(body), RESOLVED)
    said = [each.message for each in caplog.records if "tuning records" in each.message]
    assert said == ["tuning records: 1 of 1 blocks tuned"]
    assert log.coverage == "1 of 1 blocks tuned"


def test_records_of_no_block_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = _write(tmp_path / "tuned.jsonl", _record(relay.nn.relu(var("x", 4, 7))))
    with lowering(TARGET, path):
        relay.build(_relu_block(), RESOLVED)
    assert [each.levelname for each in caplog.records if "0 of 1" in each.message] == ["WARNING"]


def test_records_of_several_devices_in_one_build_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _write(tmp_path / "a.jsonl", _record(relay.nn.relu(var("x", 4, 8))) | {"device": "a"})
    _write(tmp_path / "b.jsonl", _record(relay.nn.relu(var("x", 4, 7))) | {"device": "b"})
    with lowering(TARGET, tmp_path, "a") as log:
        relay.build(_relu_block(), RESOLVED)
    assert not caplog.records
    with lowering(TARGET, tmp_path, "a") as log:
        relay.build(_relu_block(), RESOLVED)
        relay.build(as_block(relay.nn.relu(var("x", 4, 7))), RESOLVED)
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    assert "records of 2 devices" in log.coverage


def test_the_log_keeps_the_block_that_records_know() -> None:
    body = relay.nn.relu(var("x", 4, 8))
    with lowering(TARGET) as log:
        relay.build(as_block(body), RESOLVED)
    assert log.entries[0].key == str(tvm.ir.structural_hash(unscheduled(body)))


def test_a_kernel_compiled_alone_computes_what_the_model_does() -> None:
    body = relay.nn.softmax(var("x", 4, 37))
    scheduled = schedule(unscheduled(body), RESOLVED)
    kernel = compile_kernel(scheduled.func, RESOLVED, "alone")
    inputs = inputs_of(module(body))
    result = tvm.nd.empty((4, 37))
    kernel["alone"](tvm.nd.array(inputs["x"]), result)
    assert_close([result.numpy()], run_plain(module(body), inputs), REASSOCIATING)


@pytest.mark.parametrize(
    ("target", "accumulator"),
    [
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", "<4 x float>"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=core-avx2", "<8 x float>"),
    ],
)
def test_vectors_have_the_width_of_the_target_not_of_the_host(
    target: str, accumulator: str
) -> None:
    body = relay.nn.softmax(relay.nn.matmul(var("x", 8, 6), var("w", 6, 32)))
    with lowering(target) as log:
        library = relay.build(as_block(body), target)
    assert [(entry.template, entry.fallback_reason) for entry in log.entries] == [("dot", None)]
    text = library.get_lib().get_source("ll")
    assert accumulator in text
    assert "@expf" not in text
