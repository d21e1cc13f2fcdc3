"""The first step of CAPS: operations that the device dislikes give way to others, measured.

What may stand for an operation is data, the closest first. What is gained is asked of the device,
by networks of the space with one and with the other, so no table of slow operations is believed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tvm_fusionx.errors import MALFORMED, RecordError
from tvm_fusionx.output_file import new_file
from tvm_fusionx.search.latency import LatencyEstimator
from tvm_fusionx.search.space import Space
from tvm_fusionx.search.space_file import ACTIVATION, ACTIVATIONS, USUAL_ACTIVATION

SUBSTITUTES: Mapping[str, tuple[str, ...]] = {
    "gelu": ("gelu_tanh", "hard_swish"),
    "gelu_tanh": ("hard_swish",),
    "swish": ("hard_swish",),
}
"""Activations of nearly the same curve, the closest first. Howard et al., 2019 (MobileNetV3), and
Li et al., 2021 (NPAS) take the hard swish for the swish without a loss that they could measure."""

# As of a tuned kernel: less is no difference between two builds.
LEAST_GAIN = 1.01
# Written beside the journal: a search that goes on searches the same networks.
FILE = "operations.json"


@dataclass(frozen=True)
class Replacement:
    """What was asked about one operation, and what came of it.

    Attributes
    ----------
    operation, chosen
        What the space had, and what it has now; equal where nothing pays.
    microseconds
        What the asked networks take together, by operation, in the order of asking.
    networks
        How many they are.
    device
        Where.
    """

    operation: str
    chosen: str
    microseconds: Mapping[str, float]
    networks: int
    device: str

    @property
    def reason(self) -> str:
        """Return in words why the operation was replaced, or was not."""
        had = self.microseconds[self.operation]
        other = ", ".join(
            f"{had / taken:.3f} times as fast with {name} ({taken:.1f} us)"
            for name, taken in self.microseconds.items()
            if name != self.operation
        )
        asked = f"{self.networks} networks take {had:.1f} us with it"
        if not other:
            return f"{self.operation} stays: nothing else has nearly its curve."
        word = "stays" if self.chosen == self.operation else f"gives way to {self.chosen}"
        return f"{self.operation} {word}: {asked} on {self.device}, and are {other}."


def replace_disliked(
    space: Space, estimator: LatencyEstimator, candidates: Iterable[Mapping[str, Any]]
) -> tuple[Space, Replacement]:
    """Return the space with the activation that the device likes, and what was measured.

    A substitute that is further away must be faster by :data:`LEAST_GAIN` than all closer ones.

    Parameters
    ----------
    estimator
        Tells latencies; infinite ones, of what cannot be built, replace nothing.
    candidates
        Networks of the space to ask about.
    """
    asked = list(candidates)
    operation = str(space.fixed.get(ACTIVATION, USUAL_ACTIVATION[space.family]))
    names = (operation, *SUBSTITUTES.get(operation, ()))
    times = {}
    for name in names if len(names) > 1 else ():
        times[name] = sum(
            estimator.latency_of(with_activation(each, name)).microseconds for each in asked
        )
    chosen = operation
    for name in names[1:]:
        if math.isfinite(times[name]) and times[name] * LEAST_GAIN <= times[chosen]:
            chosen = name
    found = Replacement(
        operation, chosen, times or {operation: 0.0}, len(asked), estimator.clock.setting.device
    )
    return space_with(space, chosen), found


def with_activation(candidate: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a candidate with another activation."""
    return {**candidate, "fixed": {**candidate["fixed"], ACTIVATION: name}}


def space_with(space: Space, name: str) -> Space:
    """Return a space with another activation; the same one where it is so already."""
    if space.fixed.get(ACTIVATION, USUAL_ACTIVATION[space.family]) == name:
        return space
    return replace(space, fixed={**space.fixed, ACTIVATION: name})


def settle_operations(
    space: Space,
    estimator: LatencyEstimator,
    candidates: Iterable[Mapping[str, Any]],
    folder: Path,
) -> tuple[Space, tuple[str, ...]]:
    """Return the space that is searched, and the reason; what a search began with stays.

    Raises
    ------
    RecordError, OutputFileError
        The file in the search's folder is damaged, of another space, or cannot be written.
    """
    known = load_replacement(folder)
    if known is None:
        chosen, known = replace_disliked(space, estimator, candidates)
        save_replacement(known, folder)
        return chosen, (known.reason,)
    had = space.fixed.get(ACTIVATION, USUAL_ACTIVATION[space.family])
    if known.operation != had:
        raise RecordError(
            f"replaced operations {folder / FILE}",
            expected=f"those of a space with {had}",
            found=known.operation,
            next_step="Give the space that the search began with, or another folder.",
        )
    return space_with(space, known.chosen), (known.reason,)


def save_replacement(found: Replacement, folder: Path) -> None:
    """Write what was measured beside the journal; raises OutputFileError where it cannot."""
    with new_file(folder / FILE) as scratch:
        scratch.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")


def load_replacement(folder: Path) -> Replacement | None:
    """Return what an earlier part of a search has measured; None where there is nothing.

    Raises
    ------
    RecordError
        The file is damaged.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        times = {str(name): float(taken) for name, taken in content["microseconds"].items()}
        found = Replacement(
            str(content["operation"]),
            str(content["chosen"]),
            times,
            int(content["networks"]),
            str(content["device"]),
        )
        if found.chosen not in ACTIVATIONS or found.operation not in times:
            raise ValueError(f"operations {found.operation}, {found.chosen}")
    except (OSError, *MALFORMED) as error:
        raise RecordError(
            f"replaced operations {path}",
            expected="what `fusionx search --replace` wrote",
            found=repr(error),
            next_step="Begin the search anew in another folder.",
        ) from error
    return found
