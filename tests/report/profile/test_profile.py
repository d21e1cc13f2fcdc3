from __future__ import annotations

import json
import os

import numpy as np
import pytest
from tvm import relay

import tvm_fusionx as fx
from tests.relay_modules import const, module, var
from tests.tiny_models import FEATURES, ROWS, TARGET, perceptron
from tvm_fusionx.build.fused_build import build_fused, kernel_notes
from tvm_fusionx.build.library import describe_library
from tvm_fusionx.errors import InputError
from tvm_fusionx.inputs import inputs_of, random_inputs
from tvm_fusionx.measuring.machine_peak import MachinePeak
from tvm_fusionx.records import Record
from tvm_fusionx.report.bench.plain_tvm import build_plain
from tvm_fusionx.report.profile.profile import KernelTime, ProfileReport, format_seconds
from tvm_fusionx.schedules import resolve_target, target_key
from tvm_fusionx.threads import threads_in_use, usable_cores


@pytest.fixture(scope="module")
def report() -> ProfileReport:
    mod, params = fx.from_onnx(perceptron())
    build = build_fused(mod, TARGET, params=params, fuse=False)
    library = describe_library(
        build.library,
        model="perceptron",
        target=TARGET,
        inputs=inputs_of(mod, params),
        kernels=kernel_notes(build),
    )
    return fx.profile(library, random_inputs(library.inputs), repeat=2)


def test_the_peak_of_this_cpu_is_measured_and_speeds_are_parts_of_it(
    report: ProfileReport,
) -> None:
    assert report.peak is not None
    for kernel in report.kernels:
        if kernel.gflops_per_second is not None:
            assert kernel.part_of_peak == pytest.approx(
                kernel.gflops_per_second / report.peak.gflops_per_second
            )
    assert any(kernel.part_of_peak for kernel in report.kernels)


# A record without trials only tells what the default took.
@pytest.mark.parametrize(("trials", "is_tuned"), [(0, False), (8, True)])
def test_a_kernel_is_tuned_where_its_record_has_trials(trials: int, is_tuned: bool) -> None:
    mod, params = fx.from_onnx(perceptron())
    inputs = random_inputs(inputs_of(mod, params))
    target = resolve_target(TARGET)
    untuned = build_fused(mod, target, params=params)
    entry = next(each for each in untuned.log.entries if each.key is not None)
    record = Record(target_key(target), str(entry.key), entry.template, entry.knobs, trials=trials)
    tuned = build_fused(mod, target, params, {record.hash: record})
    found = []
    for build in (untuned, tuned):
        library = describe_library(
            build.library, model="", target="", inputs=(), kernels=kernel_notes(build)
        )
        taken = fx.profile(library, inputs, repeat=1, peak=MachinePeak(100.0, 10.0, 1))
        found.append({kernel.name for kernel in taken.kernels if kernel.is_tuned})
        assert all(kernel.is_tuned is not None for kernel in taken.kernels)
    assert found[0] == set()
    assert bool(found[1]) == is_tuned


@pytest.mark.skipif(len(usable_cores()) < 2, reason="one core")
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_the_caller_has_a_core_to_itself_while_kernels_are_timed() -> None:
    before, seen = usable_cores(), []
    mod, params = fx.from_onnx(perceptron())
    fx.profile(
        fx.build(mod, TARGET, params=params),
        random_inputs(inputs_of(mod, params)),
        repeat=1,
        peak=None,
        on_kernel=lambda: seen.append(usable_cores()),
    )
    # A pool of one thread, or of more than there are cores, is left as it is.
    apart = 1 < threads_in_use() <= len(before)
    assert seen
    assert all(cores == (before[:1] if apart else before) for cores in seen)
    assert usable_cores() == before


def test_every_kernel_has_a_time_that_is_not_zero(report: ProfileReport) -> None:
    assert len(report.kernels) == 5
    assert all(kernel.seconds > 0 for kernel in report.kernels)
    assert all("0.000" not in format_seconds(kernel.seconds) for kernel in report.kernels)


def test_the_shares_add_up_and_the_gap_is_named(report: ProfileReport) -> None:
    assert sum(kernel.share for kernel in report.kernels) == pytest.approx(1)
    assert report.sum_seconds + report.gap_seconds == pytest.approx(report.end_to_end_seconds)
    assert "caches" in report.gap_text()


def test_speeds_are_operations_and_bytes_over_time(report: ProfileReport) -> None:
    dense = next(kernel for kernel in report.kernels if "dense" in kernel.name)
    assert dense.gflops_per_second == pytest.approx(2 * 4 * 8 * 16 / dense.seconds / 1e9)
    moved = 4 * (4 * 16 + 8 * 16 + 4 * 8)
    assert dense.gbytes_per_second == pytest.approx(moved / dense.seconds / 1e9)
    assert dense.operators == ("fc1",)
    assert dense.template


def test_the_speeds_of_a_kernel_are_those_of_what_it_executes_and_touches() -> None:
    image, ids = var("image", 1, 32, 32, 32), var("ids", 8, dtype="int32")
    convolved = relay.nn.conv2d(image, const(32, 32, 3, 3), padding=(1, 1))
    mod = module(convolved, relay.take(const(1000, 16), ids, axis=0))
    peak = MachinePeak(100.0, 10.0, 1)
    library = fx.build(mod, TARGET, fuse=False)
    taken = fx.profile(library, random_inputs(inputs_of(mod)), repeat=1, peak=peak)
    filtering = next(kernel for kernel in taken.kernels if kernel.template == "winograd")
    assert filtering.work is not None
    assert filtering.flops == 2 * 32**4 * 9
    executed = filtering.work.flops / filtering.seconds / 1e9
    assert filtering.gflops_per_second == pytest.approx(executed)
    assert filtering.part_of_peak == pytest.approx(executed / 100.0)
    gather = next(kernel for kernel in taken.kernels if "take" in kernel.name)
    touched = 4 * (8 + 2 * 8 * 16)
    assert gather.gbytes_per_second == pytest.approx(touched / gather.seconds / 1e9)
    assert gather.bytes == 4 * (8 + 1000 * 16 + 8 * 16)
    block = next(block for block in taken.to_blocks() if "take" in block["name"])
    assert block["bytes"] == gather.bytes
    assert block["work"]["read_bytes"] + block["work"]["written_bytes"] == touched


def test_templates_share_the_whole_among_them(report: ProfileReport) -> None:
    rows = report.by_template()
    assert sum(row.kernels for row in rows) == len(report.kernels)
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert [row.seconds for row in rows] == sorted((row.seconds for row in rows), reverse=True)


def test_what_build_returns_is_profiled_as_it_is() -> None:
    mod, params = fx.from_onnx(perceptron())
    inputs = random_inputs(inputs_of(mod, params))
    library, peak = fx.build(mod, TARGET, params=params), MachinePeak(100.0, 10.0, 1)
    taken = fx.profile(library, inputs, repeat=1, peak=peak)
    assert {kernel.is_tuned for kernel in taken.kernels} == {False}
    assert "rows" in {kernel.template for kernel in taken.kernels}
    for kernel in taken.kernels:
        assert kernel.template
        assert kernel.gflops_per_second
        assert kernel.part_of_peak == pytest.approx(kernel.gflops_per_second / 100.0)


def test_what_tvm_built_is_profiled_without_what_only_we_know() -> None:
    mod, params = fx.from_onnx(perceptron())
    inputs = random_inputs(inputs_of(mod, params))
    taken = fx.profile(build_plain(mod, resolve_target(TARGET), params), inputs, 1, peak=None)
    assert taken.kernels
    assert taken.peak is None
    for kernel in taken.kernels:
        assert kernel.seconds > 0
        assert (kernel.template, kernel.part_of_peak, kernel.is_tuned) == ("", None, None)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, "missing: 'x'"),
        ({"wrong": np.ones((ROWS, FEATURES), "float32")}, "'wrong'"),
        ({"x": np.ones((1, FEATURES), "float32")}, r"shape \(1, 16\)"),
        ({"x": np.ones((ROWS, FEATURES), "float64")}, "dtype float64"),
    ],
    ids=["missing", "unknown", "shape", "dtype"],
)
def test_inputs_that_do_not_fit_are_refused(inputs: dict[str, np.ndarray], said: str) -> None:
    mod, params = fx.from_onnx(perceptron())
    with pytest.raises(InputError, match=said):
        fx.profile(fx.build(mod, TARGET, params=params), inputs, peak=None)


def test_something_must_be_timed() -> None:
    with pytest.raises(InputError, match="repeat: expected a number of at least 1; found 0"):
        fx.profile(None, {}, repeat=0)


def test_the_report_is_json(report: ProfileReport) -> None:
    assert set(json.loads(json.dumps(report.to_json()))) == {
        "kernels",
        "templates",
        "sum_s",
        "end_to_end_s",
        "gap_s",
        "peak",
    }


@pytest.mark.parametrize("whole", [3e-6, 1e-6])
def test_the_gap_may_have_either_sign(whole: float) -> None:
    kernel = KernelTime("k", (), "", 2e-6, 1.0, None, 1.0)
    text = ProfileReport((kernel,), whole).gap_text()
    assert text.startswith("1 µs more" if whole > 2e-6 else "1 µs less")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.5, "1.5 s"),
        (0.0123456, "12.3 ms"),
        (0.1234, "123 ms"),
        (4.56e-6, "4.56 µs"),
        (7e-9, "7 ns"),
    ],
)
def test_times_have_the_unit_that_suits_them(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_an_operand_used_twice_is_read_once() -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(1024,))
    mod = relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.Function([x], relay.multiply(x, x)))
    )
    library = describe_library(
        fx.build(mod, TARGET), model="m", target=TARGET, inputs=inputs_of(mod)
    )
    (kernel,) = fx.profile(library, {"x": np.ones(1024, "float32")}, repeat=1, peak=None).kernels
    assert kernel.gbytes_per_second == pytest.approx(2 * 4 * 1024 / kernel.seconds / 1e9)
