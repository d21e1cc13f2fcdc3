"""Write docs/search_results.md: what the searches found, of the files in ``benchmarks/results/``.

    python benchmarks/search_tables.py

A part is missing where its file is: ``search_newsgroups.json`` (``search_shared.py``),
``search_images.json`` (``search_images.py``), ``search_latency.json`` (``search_latency.py``),
``search_composed.json`` (``search_composed.py``), each the ``results.json`` of a run.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tvm_fusionx.output_file import new_file

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "search_results.md"
INTRODUCTION = """# What searches found

Made by `python benchmarks/search_tables.py` of the files in `benchmarks/results/`; how it works
is in [its design](design/search.md).
"""
# Where the curves are told: networks judged so far.
TOLD_AT = (10, 20, 30, 40)

Report = dict[str, Any]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def device_of(report: Report) -> str:
    """Return what was timed: a word of the command line, or the device of a whole setting."""
    found = re.search(r"device='([^']*)'", report["device"])
    return found[1] if found else str(report["device"])


def of_newsgroups(report: Report) -> str:
    """Return curves, the proxy, and what was trained alone."""
    arms = dict.fromkeys(each["arm"] for each in report["searches"])
    curves = []
    for arm in arms:
        rows = [each["curve"] for each in report["searches"] if each["arm"] == arm]
        curves.append([arm, *(_best_of(rows, trials) for trials in TOLD_AT)])
    proxy = report["operations_as_proxy"]
    over = proxy["over_the_fastest"]
    baseline, *others = report["networks"].values()
    networks = [_network(each, baseline) for each in (baseline, *others)]
    return "\n\n".join(
        (
            "## A transformer for 20 Newsgroups (CANAO)",
            f"{report['space']} networks, {device_of(report)}. The fastest network that is on "
            "shared weights as accurate as the largest "
            f"({report['least_accuracy_on_shared_weights']:.2%}"
            f" of {report['judging']} documents). Microseconds of the best so far, one number a"
            " seed; a dash where nothing was accurate enough:",
            table(["arm", *(f"{trials} networks" for trials in TOLD_AT)], curves),
            f"Operations in the place of latency, over the {report['judged']} networks that were "
            f"judged: rank correlation {proxy['rank_correlation']:.3f}; at equal accuracy the "
            f"network of fewest operations takes "
            f"{statistics.median(each['mean'] for each in over) - 1:.1%} longer than the fastest in"
            f" the median, {max(each['slowest'] for each in over) - 1:.0%} at most.",
            f"Trained alone for {report['epochs']:g} epochs, accuracy on documents that decided "
            "nothing:",
            table(["network", "predicted, us", "whole, us", "faster", "accuracy"], networks),
        )
    )


def _best_of(curves: Sequence[Sequence[float | None]], trials: int) -> str:
    """Return the best of each seed after so many networks."""
    found = [curve[min(trials, len(curve)) - 1] for curve in curves]
    return ", ".join("-" if each is None else f"{each:.0f}" for each in found)


def _network(row: Report, baseline: Report) -> list[str]:
    choices = row["choices"]
    text = f"{choices['layers']} of {choices['hidden']}, heads {choices['layer0.heads']}, "
    text += f"feed-forward {choices['layer0.feed_forward']}"
    measured = f"{row['measured_us']:.1f}" if "measured_us" in row else "not measured"
    times = baseline["latency_us"] / row["latency_us"]
    accuracy = f"{row['test_accuracy']:.2%}"
    return [text, f"{row['latency_us']:.1f}", measured, f"{times:.1f} times", accuracy]


def of_images(report: Report) -> str:
    """Return the areas of the fronts of all arms."""
    others = list(next(iter(report["arms"].values()))["area_above"])
    rows = [
        [
            arm,
            f"{row['area']:.3f}",
            f"{row['test_area']:.3f}",
            ", ".join(f"{each['test_area']:.3f}" for each in row["seeds"]),
            *(f"{row['area_above'][floor]:.3f}" for floor in others),
            ", ".join(str(each["trainings"]) for each in row["seeds"]),
        ]
        for arm, row in report["arms"].items()
    ]
    header = ["arm", "area", "area, kept apart", "of each seed"]
    header += [*(f"above {float(floor):.0%}" for floor in others), "trainings"]
    return "\n\n".join(
        (
            "## CNNs for Fashion-MNIST (CAPS)",
            f"{report['candidates']} networks, {device_of(report)}, {report['trials']} trainings "
            f"an arm and seed of {report['steps']} steps on {report['images']} pictures. The area "
            f"under a front is accuracy above {report['floor']:.0%} over doublings of speed from "
            "the slowest network of any arm: more is better; medians over the seeds. *Kept apart*: "
            "by pictures that decided nothing; *above*: the area above other floors.",
            table(header, rows),
            *([report["note"]] if "note" in report else []),
        )
    )


def of_latency(report: Report) -> str:
    """Return how far predictions are off."""
    row = [
        f"{report['measured']} of {report['architectures']}",
        *(f"{report[name]:.2%}" for name in ("median_error", "error_of_90_percent")),
        f"{report['largest_error']:.2%}",
        f"{report['rank_correlation']:.4f}",
        f"{report['rank_correlation_of_operations']:.4f}",
    ]
    header = ["networks", "median error", "90 % within", "largest", "ranks", "ranks of operations"]
    return "\n\n".join(
        (
            "## Predicted latency against the whole network's",
            f"{device_of(report)}; 5 % in the median is asked for.",
            table(header, [row]),
        )
    )


def of_composed(report: Report) -> str:
    """Return what it takes to train networks anew and put together."""
    teacher = report["teacher"]
    names = {
        "anew": "trained anew",
        "inherited": "teacher's layers",
        "composed": "teacher's layers and blocks",
    }
    rows = []
    for side, name in names.items():
        before = 0 if side == "anew" else teacher["steps"]
        blocks = report["block_steps"] if side == "composed" else 0
        steps = report[f"steps_{side}"]
        seconds = report[f"cpu_seconds_{side}"] + (teacher["cpu_seconds"] if before else 0)
        row = [name, str(before), str(blocks), str(steps), str(before + blocks + steps)]
        rows.append([*row, f"{seconds:.1f}", f"{report[f'accuracy_{side}']:.2%}"])
    header = ["networks are", "teacher", "blocks", "networks", "all steps", "CPU s", "accuracy"]
    return "\n\n".join(
        (
            "## Networks put together (composability)",
            f"{report['networks']} networks for 20 Newsgroups, {report['steps']} steps each where "
            "trained anew; the others end at the first look, each 50 steps, at which they are as "
            f"accurate ({report['reached']} of {report['networks']} with blocks were). Steps of "
            f"the teacher ({teacher['accuracy']:.2%}), the {len(report['blocks'])} block(s) and "
            f"the networks; seed {report['seed']}, CPU seconds beside other work:",
            table(header, rows),
        )
    )


PARTS: tuple[tuple[str, Callable[[Report], str]], ...] = (
    ("search_newsgroups.json", of_newsgroups),
    ("search_images.json", of_images),
    ("search_latency.json", of_latency),
    ("search_composed.json", of_composed),
)


def page(folder: Path = RESULTS) -> str:
    """Return the page of the files in a folder."""
    parts = [INTRODUCTION.rstrip()]
    for name, part in PARTS:
        if (folder / name).is_file():
            parts.append(part(json.loads((folder / name).read_text(encoding="utf-8"))))
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Write the page."""
    with new_file(PAGE) as scratch:
        scratch.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
