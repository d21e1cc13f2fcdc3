"""Tables of what a model meets in the field: busy processes, an Arm core, no list, text.

The zoo is measured on an idle server, and its models were looked at one by one. These tables say
what a reader may expect of a model of their own elsewhere. Each is made of the files that its
benchmark wrote to ``benchmarks/results/``, and is missing where there are none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import arm
import wild
from generation_table import of_text
from measured_runs import RESULTS, SIDES
from sparse_table import pruned_page
from standing import geometric_mean
from under_load import OURS, OURS_ON_TVMS_POOL

Results = Sequence[dict[str, Any]]

BUNDLES = "bundles.json"
OURS_IN_C = "C"
BUSY_HEADER = (
    *("busy processes", "models", "first by median", "best other / ours", "least"),
    *("first by p90", "best other / ours", "TVM's pool / ours"),
)
ARM_HEADER = ("model", "instructions", "Neoverse N1", "Cortex-A55", "Neoverse N2", "best other")
# Of a machine that has more: `hidden_features.py`.
SHOWN_AVX2 = "AVX2 alone is shown to every side, ours built for Haswell, "
KIBI = 1024
ARM_MEASURES = ("instructions", "neoverse-n1", "cortex-a55", "neoverse-n2")
INT8_HEADER = (
    *("model", "ours int8", "ours float32", "float32 / int8", "best other int8"),
    *("best other / ours", "on integers"),
)
OUR_TYPES = ("ours int8", "ours float32")
INT8_PEERS = tuple(f"{name} int8" for name in ("ort", "openvino", "mnn", "ncnn", "litert"))


def sections(folder: Path = RESULTS, heading: str = "##", docs: str = "") -> str:
    """Return all tables for which there are files, in Markdown, or nothing.

    Parameters
    ----------
    folder
        Has folders ``under_load``, ``arm/cortex-a76``, ``wild``, ``int8``, ``sparse``, ``text`` of
        JSON files, one a model.
    heading
        Stands before each title.
    docs
        Where the pages of the documentation lie, seen from the page that is written.
    """
    parts: list[tuple[str, str, Callable[[Results], str]]] = [
        ("under_load", "Beside busy processes", beside_busy),
        ("arm/cortex-a76", "On an Arm core, counted", partial(on_arm, docs=docs)),
        ("wild", "Models of no list", of_no_list),
        ("wild-avx2", "Models of no list, with AVX2", partial(of_no_list, shown=SHOWN_AVX2)),
        ("int8", "Quantized models", quantized),
        ("sparse", "Pruned layers and models", pruned_page),
        ("text", "Text of a language model", of_text),
    ]
    told = [(title, read(folder / name), section) for name, title, section in parts]
    found = [
        f"{heading} {title}\n\n{section(results)}" for title, results, section in told if results
    ]
    if (folder / BUNDLES).is_file():
        results = json.loads((folder / BUNDLES).read_text(encoding="utf-8"))
        found.append(f"{heading} From the start of a process\n\n{in_bundles(results, docs)}")
    return "\n\n".join(found)


def read(folder: Path) -> Results:
    """Return what the files of a folder hold, by name, or the one of its name with all its rows.

    Nothing where there is neither.
    """
    whole = folder.with_name(f"{folder.name}.json")
    if whole.exists():
        found = json.loads(whole.read_text(encoding="utf-8"))
        return list(found["rows"] if isinstance(found, dict) else found)
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def beside_busy(results: Results) -> str:
    """Return how we stand beside busy processes, a row for each number of them."""
    loads = list(dict.fromkeys(load for each in results for load in each["loaded_ms"]))
    rows = [_busy_row(load, [each["loaded_ms"][load] for each in results]) for load in loads]
    devices = "; ".join(sorted({each["device"] for each in results}))
    threads = ", ".join(sorted({str(each["threads"]) for each in results}))
    return "\n\n".join(
        (
            f"Geometric means over {len(results)} models on {devices}, {threads} threads; all "
            "sides take turns beside the same load (`python benchmarks/under_load.py`). *TVM's "
            "pool* is our kernels on it, by median.",
            _table(BUSY_HEADER, rows),
        )
    )


def _busy_row(load: str, models: Sequence[dict[str, Any]]) -> list[str]:
    medians, tails = ([_best_other(sides, key) for sides in models] for key in ("median", "p90"))
    pools = [sides[OURS_ON_TVMS_POOL]["median"] / sides[OURS]["median"] for sides in models]
    return [
        load,
        str(len(models)),
        str(sum(ratio >= 1 for ratio in medians)),
        f"{geometric_mean(medians):.2f}",
        f"{min(medians):.2f}",
        str(sum(ratio >= 1 for ratio in tails)),
        f"{geometric_mean(tails):.2f}",
        f"{geometric_mean(pools):.2f}",
    ]


def _best_other(sides: dict[str, Any], key: str) -> float:
    others = [row[key] for side, row in sides.items() if side not in (OURS, OURS_ON_TVMS_POOL)]
    return float(min(others) / sides[OURS][key])


def on_arm(results: Results, docs: str = "") -> str:
    """Return our counts over those of the best other runtime, a row a model."""
    rows, found = [], {name: [] for name in ARM_MEASURES}
    for result in results:
        ratios = {name: arm.ratio_of(result, name) for name in ARM_MEASURES}
        if any(each is None for each in ratios.values()):
            continue
        for name, (ratio, _) in ratios.items():
            found[name].append(ratio)
        cells = [f"{ratio:.2f}" for ratio, _ in ratios.values()]
        rows.append([result["model"], *cells, ratios["instructions"][1]])
    rows.append(["geometric mean", *(f"{geometric_mean(each):.2f}" for each in found.values()), ""])
    return "\n\n".join(
        (
            "Ours over the best other runtime (ONNX Runtime, MNN, ncnn, LiteRT, where they compute "
            "the same to 1e-3): instructions, and estimated cycles of three cores; below 1 is "
            "better. Code for a Cortex-A76, float32, one thread, counted under emulation; cache "
            f"misses are not in it ([how]({docs}arm.md); `python benchmarks/arm.py`).",
            _table(ARM_HEADER, rows),
        )
    )


def in_bundles(results: dict[str, Any], docs: str = "") -> str:
    """Return what each side takes to its first answer, a row a model and a column a side."""
    rows = results["rows"]
    sides = list(dict.fromkeys(side for row in rows for side in row["sides"]))
    cells = [
        [row["model"], *(_first_answer(row["sides"].get(side)) for side in sides)] for row in rows
    ]
    code = "; ".join(
        f"{row['model']} {row['sides'][OURS_IN_C]['code_bytes'] / KIBI:.0f}" for row in rows
    )
    warm = "; ".join(
        f"{row['model']} {row['steady_ms']['bundle']:.2f} and {row['steady_ms']['executor']:.2f}"
        for row in rows
    )
    unequal = [row["model"] for row in rows if not row["is_equal"]]
    equal = f"all but {', '.join(unequal)}" if unequal else "all"
    return "\n\n".join(
        (
            f"A [bundle]({docs}design/bundle.md) and other runtimes on {results['device']}, one "
            "thread, each run a process of its own: ms until its first answer, and MiB of resident "
            "memory then, of it what no other process shares (`python benchmarks/bundles.py`). "
            "*bare* is Python that imports numpy and runs nothing; all but C run in Python. "
            f"Outputs are the graph executor's to the bit: {equal}. Warm, ms, bundle and graph "
            f"executor: {warm}. Code of the bundle, KiB: {code}.",
            _table(("model", *sides), cells),
        )
    )


def _first_answer(found: dict[str, Any] | None) -> str:
    if found is None:
        return "does not run"
    shared, own = (found[field] / KIBI for field in ("VmRSS", "RssAnon"))
    return f"{found['start_ms']:.1f} ({shared:.1f}, {own:.1f})"


def of_no_list(results: Results, shown: str = "") -> str:
    """Return how we stand on models that no one here tuned for; `shown` is what sides see."""
    ratios = {each["name"]: wild.ratio_of(each) for each in results}
    known = sorted(((ratio, name) for name, ratio in ratios.items() if ratio is not None))
    if not known:
        return "No network was compared."
    values = [ratio for ratio, _ in known]
    worst = ", ".join(f"{name} {ratio:.2f}" for ratio, name in known[:5])
    compared = [each for each in results if ratios[each["name"]] is not None]
    devices = "; ".join(sorted({each["device"] for each in compared}))
    versions = len({each["commit"] for each in compared})
    return (
        f"{len(known)} networks outside of the zoo on {devices} (`python benchmarks/wild.py`; rows "
        f"of {versions} version{'s' * (versions > 1)} of this package), float32, {shown}beside "
        "ONNX Runtime and OpenVINO: "
        f"first on {sum(value >= 1 for value in values)}; best other / ours "
        f"{geometric_mean(values):.2f} in the geometric mean, from {values[0]:.2f} to "
        f"{values[-1]:.2f}. The least: {worst}."
    )


def quantized(results: Results) -> str:
    """Return our times on integers and floats beside the quickest other on integers."""
    rows, own, others = [], [], []
    for result in results:
        if "failed" in result:
            continue
        gains, times = result["gains"], result["latencies"]
        peers = {side: each["median"] for side, each in times.items() if side in INT8_PEERS}
        best = min(peers, key=peers.__getitem__) if peers else None
        own.append(gains["float32 / int8"])
        others += [gains["best other / ours"]] if best else []
        rows.append(
            [
                result["model"],
                *(f"{times[side]['median']:.2f}" for side in OUR_TYPES),
                f"{gains['float32 / int8']:.2f}",
                "-" if best is None else f"{SIDES[best.removesuffix(' int8')]} {peers[best]:.2f}",
                "-" if best is None else f"{gains['best other / ours']:.2f}",
                result["integers"],
            ]
        )
    if not rows:
        return "No model was measured."
    means = [f"{geometric_mean(each):.2f}" if each else "-" for each in (own, others)]
    rows.append(["geometric mean", "", "", means[0], "", means[1], ""])
    failed = ", ".join(each["model"] for each in results if "failed" in each)
    devices = "; ".join(sorted({each["device"] for each in results if "device" in each}))
    threads = ", ".join(sorted({str(each["threads"]) for each in results if "threads" in each}))
    return "\n\n".join(
        (
            f"Median milliseconds on {devices}, {threads} threads (`make bench-int8`): files that "
            "ONNX Runtime's tool quantized, in ONNX Runtime and OpenVINO, too; MNN and LiteRT take "
            "no such file: the float model as their own tools quantize it. How many products "
            "multiply integers: floats were estimated to be faster for the others."
            + (f" Not measured: {failed}." if failed else ""),
            _table(INT8_HEADER, rows),
        )
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    lines = [f"| {' | '.join(header)} |", "|---" * texts + "|---:" * (len(header) - texts) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
