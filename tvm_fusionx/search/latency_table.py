"""A table of what the layers of a space take on a device: made once, exported, and read again."""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tvm_fusionx.errors import MALFORMED, RecordError
from tvm_fusionx.fusion.profile_database import Setting
from tvm_fusionx.output_file import new_file
from tvm_fusionx.search.latency import LatencyEstimator
from tvm_fusionx.search.networks import layers_of
from tvm_fusionx.search.planning import BlockUse, contexts_of
from tvm_fusionx.search.space import Candidate, Space

FORMAT_VERSION = 1
HEADER = "fusionx_latency_table"
COLUMNS = ("layer", "kernel", "signature", "microseconds")
# Samples in a row that bring no new layer beside new neighbours: what is left is rare.
PATIENCE = 64


def candidates_for_table(space: Space, most: int, seed: int = 0) -> Iterator[Candidate]:
    """Yield candidates that together have every layer of the space beside all its neighbours.

    Parameters
    ----------
    most
        How many at most; a space of no more is told whole.
    seed
        Of what is drawn where there are more.
    """
    generator = random.Random(seed)
    small = space.size() <= most
    source = space.every() if small else iter(lambda: space.sample(generator), None)
    seen: set[str] = set()
    taken = in_vain = 0
    for candidate in source:
        assert candidate is not None
        contexts = contexts_of(layers_of(candidate))
        if seen.issuperset(contexts):
            in_vain += 1
            if not small and in_vain >= PATIENCE:
                return
            continue
        in_vain = 0
        seen.update(contexts)
        yield candidate
        taken += 1
        if taken >= most:
            return


def fill_table(
    space: Space,
    estimator: LatencyEstimator,
    most: int,
    *,
    seed: int = 0,
    on_candidate: Callable[[int, Candidate], None] = lambda count, candidate: None,
) -> int:
    """Time the layers of a space, and return how many candidates that took.

    Parameters
    ----------
    most, seed
        As for :func:`candidates_for_table`.
    on_candidate
        Told how many are done, and the newest.
    """
    count = 0
    for count, candidate in enumerate(candidates_for_table(space, most, seed), start=1):
        estimator.latency_of(candidate)
        on_candidate(count, candidate)
    return count


def save_table(estimator: LatencyEstimator, space: Space, path: str | Path) -> None:
    """Write all that an estimator knows as JSON, or as CSV where the file's name ends so.

    A row of the CSV is a kernel of a layer between two neighbours: ``before | layer | after``.

    Raises
    ------
    OutputFileError
        The file cannot be written.
    """
    contexts = {name: uses for name, uses in estimator.planner.contexts.items() if uses is not None}
    times = estimator.times()
    with new_file(path) as scratch:
        if Path(path).suffix == ".csv":
            with scratch.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(COLUMNS)
                for name, uses in contexts.items():
                    for use in uses:
                        writer.writerow([name, use.key, use.signature, times[use.key]])
            return
        signatures = {use.key: use.signature for uses in contexts.values() for use in uses}
        content = {
            HEADER: FORMAT_VERSION,
            "setting": asdict(estimator.clock.setting),
            "space": space.digest(),
            "launch_us": estimator.launch_us,
            "kernels": {
                key: {"signature": text, "microseconds": _finite(times[key])}
                for key, text in signatures.items()
            },
            "layers": {name: [use.key for use in uses] for name, uses in contexts.items()},
        }
        text = json.dumps(content, indent=1, allow_nan=False)
        scratch.write_text(text + "\n", encoding="utf-8")


def load_table(estimator: LatencyEstimator, path: str | Path) -> int:
    """Teach an estimator what :func:`save_table` wrote as JSON of the same setting.

    Returns
    -------
    int
        How many layers between neighbours it knows more.

    Raises
    ------
    RecordError
        The file cannot be read, is no table, or is of another device, target or version.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content[HEADER] != FORMAT_VERSION:
            raise ValueError(f"format {content[HEADER]}")
        setting = Setting(**content["setting"])
        kernels = {
            str(key): (str(row["signature"]), _number(row["microseconds"]))
            for key, row in content["kernels"].items()
        }
        layers = {
            str(name): tuple(BlockUse(key, kernels[key][0]) for key in keys)
            for name, keys in content["layers"].items()
        }
        launch_us = float(content["launch_us"])
    except (OSError, *MALFORMED) as error:
        raise _refusal(path, "a table that `fusionx latency-table` wrote", repr(error)) from error
    if setting != estimator.clock.setting:
        raise _refusal(path, str(estimator.clock.setting), str(setting))
    before = len(estimator.planner.contexts)
    for name, uses in layers.items():
        estimator.planner.contexts.setdefault(name, uses)
    estimator.learn({key: time for key, (_, time) in kernels.items()})
    estimator.launch_us = launch_us
    return len(estimator.planner.contexts) - before


def _finite(microseconds: float) -> float | None:
    return microseconds if math.isfinite(microseconds) else None


def _number(value: Any) -> float:
    return math.inf if value is None else float(value)


def _refusal(path: str | Path, expected: str, found: str) -> RecordError:
    return RecordError(
        f"latency table {path}",
        expected=expected,
        found=found,
        next_step="Make it anew with `fusionx latency-table`, on the device that is meant.",
    )
