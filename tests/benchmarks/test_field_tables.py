"""What is told of busy processes, an Arm core and models of no list, from files of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.benchmarks.scripts import script

tables, readme = map(script, ("field_tables", "readme_table"))
ROOT = Path(__file__).resolve().parents[2]


def a_load(ours: float, other: float, pool: float) -> dict[str, Any]:
    times = {"fusionx": ours, "fusionx-tvm-pool": pool, "ort": other, "mnn": 2 * other}
    return {side: {"median": time, "p90": 3 / 2 * time} for side, time in times.items()}


def write(folder: Path, name: str, result: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result), encoding="utf-8")


def test_a_load_is_told_by_geometric_means_beside_the_best_other(tmp_path: Path) -> None:
    facts = {"device": "a processor", "threads": 2}
    loads = [{"0": a_load(1, 2, 1), "2": a_load(2, 1, 8)}, {"0": a_load(1, 8, 4)}]
    loads[1]["2"] = a_load(1, 2, 4)
    for name, each in zip("ab", loads, strict=True):
        write(tmp_path / "under_load", name, {**facts, "loaded_ms": each})
    told = tables.sections(tmp_path)
    assert told.startswith("## Beside busy processes\n\nGeometric means over 2 models on a proc")
    assert "| 0 | 2 | 2 | 4.00 | 2.00 | 2 | 4.00 | 2.00 |" in told
    assert "| 2 | 2 | 1 | 1.00 | 0.50 | 1 | 1.00 | 4.00 |" in told


def a_count(scale: int, error: float = 0.0) -> dict[str, Any]:
    cores = ("neoverse-n1", "neoverse-n2", "cortex-a55", "neoverse-v1")
    total = {"instructions": 2 * scale, "cycles": dict.fromkeys(cores, scale)}
    return {"error": error, "total": total}


def test_counts_are_told_over_the_best_that_computed_the_same(tmp_path: Path) -> None:
    sides = {"fusionx": a_count(3), "ort": a_count(4), "mnn": a_count(1, error=0.5)}
    write(tmp_path / "arm" / "cortex-a76", "net", {"model": "net", "sides": sides})
    alone = {"model": "alone", "sides": {"fusionx": a_count(3)}}
    write(tmp_path / "arm" / "cortex-a76", "alone", alone)
    told = tables.sections(tmp_path, heading="###", docs="docs/")
    assert told.startswith("### On an Arm core, counted")
    assert "| net | 0.75 | 0.75 | 0.75 | 0.75 | ort |" in told
    assert "| geometric mean | 0.75 |" in told
    assert "| alone |" not in told
    assert "(docs/arm.md)" in told


def test_models_of_no_list_are_told_with_the_worst_by_name(tmp_path: Path) -> None:
    for name, other in (("good", 2.0), ("bad", 0.5)):
        ms = {"ours": 1.0, "ort": other}
        found = {"name": name, "ms": ms, "device": "a processor", "commit": name}
        write(tmp_path / "wild", name, found)
    write(tmp_path / "wild", "failed", {"name": "failed", "error": "no"})
    told = tables.sections(tmp_path)
    assert "2 networks outside of the zoo on a processor (" in told
    assert "rows of 2 versions of this package" in told
    assert "first on 1; best other / ours 1.00 in the geometric mean, from 0.50 to 2.00" in told
    assert told.endswith("The least: bad 0.50, good 2.00.")
    row = {"name": "alone", "ms": {"ours": 1.0, "ort": 3.0}, "device": "d", "commit": "c"}
    (tmp_path / "wild.json").write_text(json.dumps({"rows": [row]}))
    assert "from 3.00 to 3.00" in tables.sections(tmp_path)
    (tmp_path / "wild-avx2.json").write_text(json.dumps({"rows": [row]}))
    assert "AVX2 alone is shown to every side" in tables.sections(tmp_path).partition("AVX2\n")[2]


def test_bundles_are_told_a_column_a_side(tmp_path: Path) -> None:
    found = {"start_ms": 1.25, "VmRSS": 2048.0, "RssAnon": 512.0, "code_bytes": 10240}
    row = {"model": "net", "sides": {"C": found, "ncnn": found}, "is_equal": True}
    row["steady_ms"] = {"bundle": 1.0, "executor": 2.0}
    fewer = {**row, "model": "b", "sides": {"C": found}}
    write(tmp_path, "bundles", {"device": "a processor", "rows": [row, fewer]})
    told = tables.sections(tmp_path, heading="###", docs="docs/")
    assert told.startswith("### From the start of a process\n\nA [bundle](docs/design/bundle.md)")
    assert "| net | 1.2 (2.0, 0.5) | 1.2 (2.0, 0.5) |\n| b | 1.2 (2.0, 0.5) | does not" in told
    assert "to the bit: all. Warm, ms, bundle and graph executor: net 1.00 and 2.00; b" in told
    assert "Code of the bundle, KiB: net 10; b 10." in told
    write(tmp_path, "bundles", {"device": "a processor", "rows": [{**row, "is_equal": False}]})
    assert "to the bit: all but net." in tables.sections(tmp_path)


def test_nothing_is_told_of_nothing(tmp_path: Path) -> None:
    assert tables.sections(tmp_path) == ""


def test_readme_tells_what_the_files_in_git_hold() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    told = tables.sections(heading="###", docs="docs/")
    assert text == readme.fill(text, told, readme.FIELD)


def test_quantized_models_are_told_beside_the_best_other(tmp_path: Path) -> None:
    times = {"ours int8": 1.0, "ours float32": 2.0, "ort int8": 4.0, "mnn int8": 1.5}
    result = {
        **{"model": "net", "threads": 2, "device": "a processor", "integers": "3/4"},
        "latencies": {side: {"median": time} for side, time in times.items()},
        "gains": {"float32 / int8": 2.0, "best other / ours": 1.5},
    }
    alone = {
        **result,
        "model": "alone",
        "gains": {"float32 / int8": 8.0, "best other / ours": None},
    }
    alone["latencies"] = {side: {"median": times[side]} for side in ("ours int8", "ours float32")}
    stored = [result, alone, {"model": "bad", "failed": "no"}]
    (tmp_path / "int8.json").write_text(json.dumps(stored), encoding="utf-8")
    told = tables.sections(tmp_path)
    assert told.startswith("## Quantized models\n\nMedian milliseconds on a processor, 2 threads")
    assert "| net | 1.00 | 2.00 | 2.00 | MNN 1.50 | 1.50 | 3/4 |" in told
    assert "| alone | 1.00 | 2.00 | 8.00 | - | - | 3/4 |" in told
    assert "| geometric mean |  |  | 4.00 |  | 1.50 |  |" in told
    assert "Not measured: bad." in told
    (tmp_path / "int8.json").write_text(json.dumps(stored[2:]), encoding="utf-8")
    assert "No model was measured." in tables.sections(tmp_path)
