"""The summary that git keeps: a row a model, a row a processor, and who was the best other."""

from __future__ import annotations

from typing import Any

from tests.benchmarks.scripts import script

runs, summary, whole, field = map(
    script, ("measured_runs", "results_summary", "results_page", "field_tables")
)


def a_result(model: str, **medians: float) -> dict[str, Any]:
    return {
        **{"model": model, "device": "a processor", "threads": 2, "versions": {"ort": "1.0"}},
        **{"ops": 10, "kernels": {"fusionx": 2}},
        "latency_ms": {
            side: {"median": median, "p10": median * 0.9, "p90": median * 1.2, "n": 50}
            for side, median in medians.items()
        },
    }


def a_run(device: str, *results: dict[str, Any]) -> Any:
    return runs.MeasuredRun({"device": device}, results)


def test_a_model_is_told_beside_its_best_rival_and_the_controls() -> None:
    run = a_run("a", a_result("net", fusionx=2.0, unfused=3.0, tvm=8.0, ort=4.0, mnn=5.0))
    told = summary.brief(run, [])
    assert "| net | 10 | 2 | 2.00 | 3.00 | 8.00 | 4.00 ORT | 2.00 |" in told
    assert "at least 50 interleaved runs a side on a processor" in told


def test_what_computed_something_else_is_marked_and_no_rival() -> None:
    result = a_result("net", fusionx=2.0, ort=1.0, mnn=5.0)
    result["rel_err"] = {"fusionx": 1e-6, "ort": 0.3, "mnn": 1e-6}
    told = summary.brief(a_run("a", result), [])
    assert "| net | 10 | 2 | 2.00 | - | - | 5.00 MNN | 2.50 |" in told


def test_a_model_measured_alone_has_no_rival() -> None:
    told = summary.brief(a_run("a", a_result("net", fusionx=2.0)), [])
    assert "| net | 10 | 2 | 2.00 | - | - | - | - |" in told


def test_a_processor_is_told_by_geometric_means() -> None:
    fast = a_result("fast", fusionx=1.0, tvm=8.0, ort=4.0)
    slow = a_result("slow", fusionx=4.0, tvm=8.0, ort=2.0)
    told = summary.brief(a_run("a", fast), [a_run("b", fast, slow), a_run("c")])
    assert "| b | 2 | 1 | 1.41 | 4.00 |" in told
    assert "| c | 0 | 0 | - | - |" in told


def test_the_page_in_git_is_of_the_runs_in_git() -> None:
    newest = runs.newest_run()
    assert newest is not None
    told = summary.brief(runs.read_run(newest), runs.kept_runs(), field.sections())
    assert whole.SUMMARY.read_text(encoding="utf-8") == told
