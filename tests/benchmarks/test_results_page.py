"""The pages of a run: every number from its files, and the pages in docs from the newest run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.benchmarks.scripts import script

runs, page, plots, readme = map(
    script, ("measured_runs", "results_page", "result_plots", "readme_table")
)


def a_work(flops: int, moved: int) -> dict[str, int]:
    return {
        "flops": flops,
        "instructions": flops // 2,
        "divisions": 0,
        "products": flops,
        "read_bytes": moved // 2,
        "written_bytes": moved // 2,
    }


def a_block(
    name: str, template: str, us: float, flops: int | None, held: int, work: dict[str, int] | None
) -> dict[str, Any]:
    known = {"name": name, "template": template, "us": us, "flops": flops, "bytes": held}
    return known | {"work": work}


BLOCKS = [
    a_block("dense_add", "dense", 100.0, 10_000_000, 1 << 20, a_work(10_000_000, 1 << 20)),
    a_block("reshape", "", 1.0, None, 1 << 10, None),
]


def a_result(model: str, **medians: float) -> dict[str, Any]:
    return {
        "model": model,
        "device": "a processor, 2 cores",
        "threads": 2,
        "versions": {"tvm": "0.19.0", "ort": "1.0"},
        "ops": 10,
        "kernels": {"fusionx": 2, "tvm": 5, "unfused": 9},
        "intermediate_bytes": {"fusionx": 1 << 20, "tvm": 3 << 20},
        "import_s": 0.5,
        "prepare_s": {"fusionx": 2.0, "ort": 0.25},
        "planned_bytes": {
            "fusionx": {"weights": 4 << 20, "activations": 2 << 20, "workspace": 1 << 20}
        },
        "code_bytes": {"fusionx": 1 << 19},
        "memory_bytes": {"ort": {"before": 1 << 20, "after": 5 << 20, "peak": 8 << 20}},
        "max_rel_err": 1e-6,
        "cosine": 1.0,
        "errors": {"ncnn": "RuntimeError: a | b"},
        "blocks": BLOCKS,
        "peer_kernels": {"ort": 4},
        "latency_ms": {
            side: {"median": median, "p10": median * 0.9, "p90": median * 1.2, "n": 50}
            for side, median in medians.items()
        },
    }


@pytest.fixture
def run() -> Any:
    machine = {"gflops_per_second": 200.0, "gbytes_per_second": 25.0, "threads": 2}
    facts = {"command": "python x", "date": "2026-01-31", "commit": "abc", "machine": machine}
    return runs.MeasuredRun(
        facts,
        (
            a_result("small", fusionx=1.0, tvm=4.0, ort=2.0),
            a_result("large", fusionx=10.0, tvm=10.0, ort=5.0, mnn=20.0),
        ),
    )


def test_a_side_that_computed_something_else_is_no_rival(run: Any) -> None:
    result = a_result("net", fusionx=2.0, mnn=1.0, ort=4.0, ncnn=0.5)
    result["rel_err"] = {"fusionx": 1e-6, "mnn": 0.3, "ort": 1e-6}
    assert "| 2.00 ORT |" in page.markdown(runs.MeasuredRun(run.facts, (result,)))
    told = page.markdown(runs.MeasuredRun(run.facts, (result,)))
    assert "Not first" not in told
    assert "| net | **2.00** (1.80-2.40) | 4.00 (3.60-4.80) | 1.00† (0.90-1.20) | 0.50† " in told
    table = readme.table(runs.MeasuredRun(run.facts, (result,)))
    assert "| 2.0 | 4.0 | 1.0† | 0.5† |" in table
    assert "† marks" in table
    assert "†" not in readme.table(run)


def test_every_commit_of_a_run_is_told(run: Any) -> None:
    results = (run.results[0], {**run.results[1], "commit": "def"})
    assert "at commit abc, def;" in page.markdown(runs.MeasuredRun(run.facts, results))


def test_a_run_that_went_on_tells_each_command(run: Any) -> None:
    went_on = runs.MeasuredRun({**run.facts, "then": ["python y"]}, run.results)
    assert "Made by `python x`, then `python y`, on 2026-01-31" in page.markdown(went_on)
    assert "Made by `python x` on 2026-01-31" in page.markdown(run)


def test_the_machine_that_the_models_met_is_told(run: Any) -> None:
    assert "copying 25 GB/s);" in readme.how_measured(run)
    met = {"asked": 150.0, "median": 200.0, "least": 152.0}
    first, last = ({**each, "machine": met} for each in run.results)
    last = {**last, "machine": {**met, "median": 190.0, "least": 160.0}}
    turns = "190 to 200 GFLOP/s in the median of each model's turns, 152 at least"
    told = readme.how_measured(runs.MeasuredRun(run.facts, (first, last)))
    assert f"copying 25 GB/s; {turns}, after waiting for 150);" in told


def test_what_is_measured_apart_says_where_it_is_not(run: Any) -> None:
    told = page.markdown(run)
    for title in ("Ablation", "Cost growth"):
        assert "not measured in this run" in told.split(f"## {title}\n")[1].split("##")[0]
    rows = {"net": {"all": {"kernels": 2, "commit": "fed"}}}
    told = page.markdown(runs.MeasuredRun(run.facts, run.results, ablation=rows))
    assert "`, on fed)." in told.split("## Ablation")[1].split("##")[0]


def test_every_section_has_its_numbers(run: Any) -> None:
    text = page.markdown(run)
    assert "| small | **1.00** (0.90-1.20) | 4.00 (3.60-4.80) | 2.00" in text
    assert "| small | 10 | 2 (5.0) | 5 (2.0) | 4 (2.5) | 1.0 | - | 3.0 |" in text
    assert "| small | 4.0 | 2.0 | 1.0 | - | 0.5 | - | 7.0 (4.0) |" in text
    assert "| small | 0.5 | 2.0 | 0.2 |" in text
    assert "| small | ncnn | RuntimeError: a \\| b |" in text
    assert "python x" in text
    assert "(measured peak 200 GFLOP/s, copying 25 GB/s)" in text


def test_where_we_are_behind_the_profile_says_why(run: Any) -> None:
    text = page.markdown(run)
    behind = text.split("## Not first: large")[1].split("##")[0]
    assert "Ours takes 10.00 ms; faster: ORT 5.00, 0.50 of ours." in behind
    # At 200 GFLOP/s; what the reshape does is unknown.
    limit = "1 of them at the machine's peaks, operands in memory, 0.05 ms."
    assert f"Our 2 kernels, each alone, add up to 0.10 ms; {limit}" in behind
    assert "dense 99% (100 GFLOP/s, 10 GB/s); unknown 1%." in behind
    assert "| dense_add | 1 | dense | 100 | 99% | 100 | 100 | 50% | 10 | 42% |" in behind
    assert "| reshape | 1 | - | 1 | 1% | - | - | - | - | - |" in behind
    assert "Not first: small" not in text
    assert "Not first: large" in page.page(run)


def test_kernels_are_measured_by_what_they_execute_and_touch(run: Any) -> None:
    slower = a_result("net", fusionx=1.0, ort=0.5)
    slower["blocks"] = [
        a_block("filtered", "winograd", 100.0, 46_000_000, 1 << 20, a_work(16_000_000, 1 << 20)),
        a_block("gathered", "rows", 10.0, None, 40 << 20, a_work(0, 500_000)),
    ]
    told = page.markdown(runs.MeasuredRun(run.facts, (slower,)))
    assert "| filtered | 1 | winograd | 100 | 91% | 460 | 160 | 80% | 10 | 42% |" in told
    assert "| gathered | 1 | rows | 10 | 9% | - | - | - | 50 | 200% |" in told
    assert "winograd 91% (160 GFLOP/s, 10 GB/s); rows 9% (0 GFLOP/s, 50 GB/s)." in told
    # 80 us, and 20 of a kernel that took 10: nothing is cut off.
    limit = "at the machine's peaks, operands in memory, 0.10 ms (1 took less than theirs)."
    assert f"add up to 0.11 ms; {limit}" in told


def test_older_results_tell_the_speed_of_direct_convolutions_alone(run: Any) -> None:
    slower = a_result("net", fusionx=1.0, ort=0.5)
    slower["blocks"] = [{key: BLOCKS[0][key] for key in BLOCKS[0] if key != "work"}]
    old = runs.MeasuredRun(run.facts, (slower,))
    told = page.markdown(old)
    assert "| dense_add | 1 | dense | 100 | 100% | 100 | - | - | - | - |" in told
    assert "add up to 0.10 ms. By template: dense 100%." in told
    assert "do not tell" in plots.roofline(old)
    assert "do not tell" not in plots.roofline(run)


def test_kernels_of_equal_work_are_one_row_and_the_lightest_another(run: Any) -> None:
    slower = a_result("net", fusionx=1.0, ort=0.5)
    light = [{**BLOCKS[0], "name": f"k{n}", "us": 10.0 + n, "bytes": 1 << n} for n in range(9)]
    slower["blocks"] = [BLOCKS[0], {**BLOCKS[0], "name": "dense_add_1", "us": 300.0}, *light]
    told = page.markdown(runs.MeasuredRun(run.facts, (slower,)))
    rows = told.split("| kernel |")[1].split("##")[0].strip().splitlines()[2:]
    assert rows[0].startswith("| dense_add | 2 | dense | 400 | 76% | 50 |")
    assert [row.split(" | ")[1] for row in rows] == ["2", *["1"] * 7, "2"]
    assert rows[-1].startswith("| others | 2 | - | 21 |")


def test_cost_growth_and_ablation_are_shown_where_they_were_measured(
    tmp_path: Path, run: Any
) -> None:
    assert "| depth |" not in page.markdown(run)
    points = [
        {"size": n, "kernels": 5 * n, "planning_s": n / 10, "fusionx_ms": n, "tvm_ms": 2 * n}
        for n in (2, 4)
    ]
    slopes = {"planning_s": 1.0, "fusionx_ms": 1.0, "tvm_ms": 1.25}
    growth = {"depth": {"points": points, "exponents": slopes}}
    (tmp_path / "cost_growth.json").write_text(json.dumps(growth))
    versions = {"no fusion": {"kernels": 9, "latency_ms": 2.5}, "all": {"kernels": 2}}
    (tmp_path / "ablation.json").write_text(json.dumps({"small": versions}))
    (tmp_path / "small.json").write_text(json.dumps(run.results[0]))
    text = page.markdown(runs.read_run(tmp_path))
    assert (
        "| depth | 2 to 4 | 10 to 20 | 0.20 to 0.40 | 2.00 to 4.00 | 4.00 to 8.00 | 1.00 | 1.00 "
        "| 1.25 |" in text
    )


def test_results_of_an_older_form_still_make_a_page(run: Any) -> None:
    old = a_result("old", fusionx=1.0)
    for key in (
        "prepare_s",
        "planned_bytes",
        "code_bytes",
        "memory_bytes",
        "blocks",
        "peer_kernels",
    ):
        del old[key]
    made = runs.MeasuredRun({}, (old,))
    assert "| old |" in page.markdown(made)
    assert "Size and memory" not in page.markdown(made)
    assert "Roofline" not in page.page(made)
    slower = a_result("old", fusionx=1.0, ort=0.5)
    del slower["blocks"]
    told = page.markdown(runs.MeasuredRun({}, (slower,)))
    assert "faster: ORT 0.50, 0.50 of ours. Our kernels were not profiled." in told


def test_the_plots_have_a_bar_a_side_and_a_point_a_block(run: Any) -> None:
    svg = "{http://www.w3.org/2000/svg}"
    bars = ElementTree.fromstring(plots.latency_bars(run))
    assert len([bar for bar in bars.iter(f"{svg}rect") if bar.find(f"{svg}title") is not None]) == 7
    roof = ElementTree.fromstring(plots.roofline(run))
    points = list(roof.iter(f"{svg}circle"))
    # A block without arithmetic has no place on it.
    assert len(points) == 2
    assert "dense_add (dense), 100 µs, 100.0 GFLOP/s" in ElementTree.tostring(
        points[0], encoding="unicode"
    )
    made = page.page(run)
    assert made.count("<svg") == 2
    assert "<b>1.00</b>" in made


def test_the_page_is_readable_in_the_dark_and_on_a_phone(run: Any) -> None:
    made = page.page(run)
    assert "prefers-color-scheme: dark" in made
    assert "width=device-width" in made
    # What is wide scrolls by itself.
    assert "<span class='range'>" in made
    assert made.count("<div class='wide'>") == made.count("<table>") + made.count("<svg")


def test_a_run_is_found_by_date_and_kept_by_device(tmp_path: Path, run: Any) -> None:
    assert runs.newest_run(tmp_path) is None
    for date in ("2026-02-01", "2026-01-31"):
        folder = runs.folder_of("AMD EPYC, 2 logical cores", date, tmp_path)
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({"date": date}))
    assert folder.name == "amd-epyc-2-logical-cores"
    newest = runs.newest_run(tmp_path)
    assert newest == tmp_path / "2026-02-01" / folder.name
    for result in reversed(run.results):
        (newest / f"{result['model']}.json").write_text(json.dumps(result))
    read = runs.read_run(newest)
    assert [each["model"] for each in read.results] == ["small", "large"]
    assert read.facts == {"date": "2026-02-01"}


def test_tuned_sides_are_those_of_the_newest_run_of_each_device(tmp_path: Path, run: Any) -> None:
    for date, device in (("2026-01-01", "a"), ("2026-01-02", "a"), ("2026-01-01", "b")):
        apart = runs.folder_of(device, date, tmp_path) / runs.EQUAL_BUDGET
        apart.mkdir(parents=True)
        (apart / "run.json").write_text(json.dumps({"date": date, "device": device}))
        (apart / "small.json").write_text(json.dumps(run.results[0]))
    found = runs.read_run(runs.folder_of("a", "2026-01-01", tmp_path))
    assert found.results == ()
    assert [each.facts for each in found.budgeted] == [
        {"date": "2026-01-02", "device": "a"},
        {"date": "2026-01-01", "device": "b"},
    ]
    assert [len(each.results) for each in found.budgeted] == [1, 1]


def test_a_run_of_some_models_does_not_take_the_place_of_a_full_one(tmp_path: Path) -> None:
    def begun(date: str, **facts: Any) -> Path:
        folder = runs.folder_of("a machine", date, tmp_path)
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps(facts))
        return folder

    part = begun("2026-03-03", full=False)
    assert runs.newest_run(tmp_path) == part
    older = begun("2026-01-01")
    assert runs.newest_run(tmp_path) == older
    newer = begun("2026-02-02", full=True)
    assert runs.newest_run(tmp_path) == newer


def test_of_two_machines_on_one_date_the_later_run_counts(tmp_path: Path) -> None:
    for device, hour in (("b", "10"), ("a", "12"), ("c", "11")):
        folder = runs.folder_of(device, "2026-01-01", tmp_path)
        folder.mkdir(parents=True)
        facts = {"began": f"2026-01-01T{hour}:00:00+00:00"}
        (folder / "run.json").write_text(json.dumps(facts))
    assert runs.newest_run(tmp_path) == runs.folder_of("a", "2026-01-01", tmp_path)


def test_a_model_that_failed_altogether_is_a_failure(run: Any) -> None:
    failed = {"huge": "stopped after 3600 s"}
    made = runs.MeasuredRun({**run.facts, "failed": failed}, run.results)
    assert "| huge | all | stopped after 3600 s |" in page.markdown(made)


def test_what_tuning_brought_is_shown_where_it_was_measured(run: Any, tmp_path: Path) -> None:
    assert "## Tuning" not in page.markdown(run)
    block = {"is_better": True}
    found = {
        "budget_s": 1200.0,
        "ratio": 1.25,
        "of_limit": [0.96, 0.5],
        "latency_ms": {"untuned": {"median": 5.0}, "tuned": {"median": 4.0}},
        "report": {
            "trials": 70,
            "seconds": 1100.4,
            "blocks": [block, {"is_better": False}],
        },
    }
    (tmp_path / "run.json").write_text(json.dumps(run.facts))
    (tmp_path / "tuning.json").write_text(json.dumps({"small": found}))
    read = runs.read_run(tmp_path)
    text = page.markdown(runs.MeasuredRun(read.facts, run.results, tuning=read.tuning))
    row = "| small | 5.00 | 4.00 | 1.250 | 70 in 1100 of 1200 s | 1 of 2 | 96%, 50% |"
    assert row in text.split("## Tuning")[1]


def test_lasting_speed_and_tuned_sides_are_shown_where_they_were_measured(run: Any) -> None:
    lasting = {"first": 1.0, "last": 1.5, "throttling": 1.5, "seconds": 30.2}
    lasting |= {"median": 1.2, "p10": 1.0, "p90": 1.6, "n": 9}
    facts = {"budget_s": 60.0, "spent_s": 61.7, "trials": 40, "failed": 1}
    facts |= {"reached": 3, "tasks": 8}
    result = a_result("net", **{"fusionx": 1.0, "tvm": 3.0, "tvm-metaschedule": 2.0})
    result |= {"sustained_ms": {"ort": lasting}, "tuning": {"tvm-metaschedule": facts}}
    told = {"command": "tuned zoo", "device": "board (old), 2 cores"}
    apart = runs.MeasuredRun(told, (result | {"commit": "abc"},))
    text = page.markdown(runs.MeasuredRun(run.facts, (*run.results, result), budgeted=(apart,)))
    assert "of 30 s in one go" in text
    assert "| net | 1.00 → 1.50, 1.50 (1.00-1.60) |" in text
    assert "Measured apart: on board (old), 2 cores, by `tuned zoo` on abc." in text
    spent = "40 trials, 62 s of 60 s, 3 of 8 kernels"
    assert f"| net | board (old) | 1.00 | - | 3.00 | 2.00 | - | - | - | {spent} |" in text
    # Tuning is nothing that we are behind; what is tuned has the one table alone.
    result["latency_ms"] |= {"fusionx-tuned": {"median": 0.5, "p10": 0.5, "p90": 0.5, "n": 50}}
    text = page.markdown(runs.MeasuredRun(run.facts, (result,)))
    assert "Not first" not in text
    assert "| model | ours | TVM | best other / ours |" in text.split("## Latency")[1]
    assert "| net | **1.00**" in text
    for title in ("## Sustained", "## Tuned at equal budget"):
        assert title not in page.markdown(run)


def test_how_far_the_others_are_is_shown_where_it_was_measured(run: Any) -> None:
    result = a_result("net", fusionx=1.0, ort=2.0) | {"rel_err": {"fusionx": 1e-6, "ort": 2e-7}}
    text = page.markdown(runs.MeasuredRun(run.facts, (*run.results, result)))
    accuracy = text.split("## Accuracy")[1].split("##")[0]
    assert "| model | ours | 1 - cosine | ORT |" in accuracy
    assert "| net | 1.0e-06 | 0.0e+00 | 2.0e-07 |" in accuracy
    assert "| small | 1.0e-06 | 0.0e+00 | - |" in accuracy


def test_a_side_without_a_word_is_missing(tmp_path: Path) -> None:
    assert runs.lacks(tmp_path, "net", ("ort",))
    (tmp_path / "net.json").write_text(json.dumps(a_result("net", fusionx=1.0, ort=2.0)))
    assert not runs.lacks(tmp_path, "net", ("ort", "ncnn"))
    assert runs.lacks(tmp_path, "net", ("ort", "mnn"))


def test_every_side_has_a_name_and_a_colour() -> None:
    from tvm_fusionx.report.bench.bench import OURS, SIDES
    from tvm_fusionx.tuning.sides import TUNED_SIDES

    assert {OURS, *SIDES, *TUNED_SIDES} == set(runs.SIDES) == set(plots.COLOURS)


def test_the_table_of_the_readme_is_of_the_newest_run() -> None:
    folder = runs.newest_run()
    assert folder is not None
    newest = runs.read_run(folder)
    text = (runs.ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.fill(text, readme.table(newest)) == text
