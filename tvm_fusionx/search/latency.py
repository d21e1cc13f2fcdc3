"""The latency of a candidate: its kernels' times, each measured once, and what launches cost.

A kernel's time is kept in the profile database under its structural hash, target and threads, so
equal kernels of all candidates share one compile, and a candidate costs only what is new in it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_fusionx.build.build import build
from tvm_fusionx.errors import TuningError
from tvm_fusionx.frontend.from_onnx import from_onnx
from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.measuring import BlockTimer, database_path
from tvm_fusionx.search.clocks import Clock, clock_of
from tvm_fusionx.search.networks import layers_of
from tvm_fusionx.search.planning import BlockUse, CandidatePlan, CandidatePlanner, Prune
from tvm_fusionx.search.pruned_layers import prune_model


@dataclass(frozen=True)
class KernelTime:
    """One kernel of a candidate.

    Attributes
    ----------
    layer
        Symbol of the layer that it is of.
    key, signature
        The block: its structural hash, and what it is for people.
    microseconds
        Time of its block alone; infinite where it could not be built or run.
    """

    layer: str
    key: str
    signature: str
    microseconds: float


@dataclass(frozen=True)
class Latency:
    """What a candidate takes.

    Attributes
    ----------
    microseconds
        All of it.
    kernels
        What it is made of, in order.
    launch_us
        What each launch adds to the kernel's own time.
    is_composed
        Whether no plan had to be made for it.
    """

    microseconds: float
    kernels: tuple[KernelTime, ...]
    launch_us: float
    is_composed: bool

    def by_layer(self) -> list[tuple[str, float]]:
        """Return symbol and microseconds of the layers' kernels, those of equal layers added."""
        sums: dict[str, float] = {}
        for kernel in self.kernels:
            sums[kernel.layer] = sums.get(kernel.layer, 0.0) + kernel.microseconds + self.launch_us
        return list(sums.items())


@dataclass(frozen=True)
class Check:
    """A candidate predicted and measured as a whole.

    Attributes
    ----------
    predicted_us, measured_us
        Microseconds.
    launches
        How many kernels it has.
    """

    predicted_us: float
    measured_us: float
    launches: int

    @property
    def error(self) -> float:
        """Return how far the prediction is off, as a share of what was measured."""
        return abs(self.predicted_us / self.measured_us - 1.0)


class LatencyEstimator:
    """Tells what candidates take on one clock.

    Parameters
    ----------
    clock
        Times blocks and whole candidates.
    database
        Keeps the answers, or the file of it; the user's own by default.
    prune
        Makes the models of pruned candidates.

    Attributes
    ----------
    launch_us
        What a launch adds; 0 until :meth:`calibrate` measured it.
    timed
        How many kernels this estimator compiled and timed.
    """

    def __init__(
        self,
        clock: Clock,
        database: ProfileDatabase | str | Path | None = None,
        prune: Prune | None = None,
    ) -> None:
        self.clock = clock
        if not isinstance(database, ProfileDatabase):
            database = ProfileDatabase(Path(database or database_path()))
        self.database = database
        self.planner = CandidatePlanner(clock.target, prune or prune_model)
        self.launch_us = 0.0
        self.timed = 0
        self._known: dict[str, float] = {}

    def latency_of(self, candidate: Mapping[str, Any]) -> Latency:
        """Return the latency of a candidate; only kernels that no candidate had are timed."""
        plan = self.planner.plan(candidate)
        if plan.is_composed and not all(map(self._recall, plan.uses)):
            # A context that another process planned: to time its blocks takes the blocks.
            plan = self.planner.plan(candidate, whole=True)
        self._time(plan)
        symbols = [layer.symbol for layer in layers_of(candidate)]
        kernels = tuple(
            KernelTime(symbol, use.key, use.signature, self._known[use.key])
            for symbol, uses in zip(symbols, plan.layers, strict=True)
            for use in uses
        )
        total = sum(kernel.microseconds + self.launch_us for kernel in kernels)
        return Latency(total, kernels, self.launch_us, plan.is_composed)

    def times(self) -> dict[str, float]:
        """Return the microseconds of every kernel met so far, by its key."""
        return dict(self._known)

    def learn(self, times: Mapping[str, float]) -> None:
        """Take the microseconds of kernels from elsewhere; what is known here stays."""
        self._known = {**times, **self._known}

    def measure(self, candidate: Mapping[str, Any]) -> float:
        """Build a candidate as a whole, run it on the clock, and return its microseconds."""
        mod, params = from_onnx(self.planner.model(candidate))
        return self.clock(build(mod, self.clock.target, params=params), mod)

    def check(self, candidate: Mapping[str, Any]) -> Check:
        """Return a candidate's prediction beside what was measured of it as a whole."""
        found = self.latency_of(candidate)
        return Check(found.microseconds, self.measure(candidate), len(found.kernels))

    def calibrate(self, candidates: Iterable[Mapping[str, Any]]) -> float:
        """Measure what a launch adds to a kernel's own time: the median over whole candidates.

        It may be less than zero: a block alone is timed with all that TVM's executor does for a
        run, which a whole candidate pays once.

        Returns
        -------
        float
            Microseconds, which every latency from now on has for each of its kernels.

        Raises
        ------
        TuningError
            None of the candidates runs.
        """
        self.launch_us = 0.0
        checks = [self.check(candidate) for candidate in candidates]
        gaps = [
            (check.measured_us - check.predicted_us) / check.launches
            for check in checks
            if math.isfinite(check.predicted_us) and math.isfinite(check.measured_us)
        ]
        if not gaps:
            raise TuningError(
                "calibration of launches",
                expected="candidates that can be built and run",
                found=f"none of {len(checks)}",
                next_step="`fusionx profile-db show` says why their blocks cannot.",
            )
        self.launch_us = statistics.median(gaps)
        return self.launch_us

    def _recall(self, use: BlockUse) -> bool:
        """Tell whether a block's time is known, from the database where not in this process."""
        if use.key not in self._known:
            found = self.database.find(use.key, self.clock.setting)
            if found is None:
                return False
            self._known[use.key] = found.microseconds
        return True

    def _time(self, plan: CandidatePlan) -> None:
        timer = BlockTimer(self.clock.target, self.database, self._run, self.clock.setting)
        for use in plan.uses:
            if not self._recall(use):
                block = plan.blocks[use.key]
                self._known[use.key] = timer(block.graph, block.nodes)

    def _run(self, library: Any, mod: Any) -> float:
        self.timed += 1
        return self.clock(library, mod)


def median_error(checks: Sequence[Check]) -> float:
    """Return the median of the errors of predictions."""
    return statistics.median(check.error for check in checks)


def latency_of(
    candidate: Mapping[str, Any], device: str = "local", database: ProfileDatabase | None = None
) -> Latency:
    """Return what a candidate takes on a device, measured now where it is not known yet.

    Parameters
    ----------
    device
        ``"local"``, ``"count:CORE"`` for an Arm core counted under emulation, or a device's name or
        file as of ``fusionx devices list``.

    Raises
    ------
    DeviceError, TargetError
        There is no such device or core, or it cannot be reached.
    """
    with clock_of(device) as clock:
        return LatencyEstimator(clock, database).latency_of(candidate)


def why_slow(latency: Latency, rows: int = 3) -> str:
    """Return the layers that take most, for people."""
    slowest = sorted(latency.by_layer(), key=lambda row: -row[1])[:rows]
    return "; ".join(
        f"{symbol}: {microseconds:.1f} us ({microseconds / latency.microseconds:.0%})"
        for symbol, microseconds in slowest
    )
