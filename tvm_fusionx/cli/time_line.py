"""The line of times that ``fusionx run --print-time`` prints."""

from __future__ import annotations

import time
from typing import Any


def time_line(
    executor: Any,
    context: Any,
    init: float,
    first: float,
    repeat: int,
    number: int,
    warmup: int,
) -> str:
    """Return the line that TensorFlow's benchmark_model prints, with percentiles."""
    import numpy as np

    from tvm_fusionx.report.bench.timing import HIGH_PERCENTILE, LOW_PERCENTILE
    from tvm_fusionx.report.profile.profile import format_seconds

    def timed(runs: int) -> float:
        started = time.perf_counter()
        for _ in range(runs):
            executor.run()
        return (time.perf_counter() - started) / runs

    if context is None:
        warm_up = timed(warmup) if warmup else None
        taken = [timed(number) for _ in range(repeat)]
    else:
        # Timed on the device itself: the way there and back is no part of a run.
        evaluate = executor.module.time_evaluator
        warm_up = evaluate("run", context, number=warmup)().mean if warmup else None
        taken = list(evaluate("run", context, number=number, repeat=repeat)().results)
    parts: dict[str, float | None] = {
        "Init": init,
        "First": first,
        "Warm-up": warm_up,
        "Avg": float(np.mean(taken)),
        "Median": float(np.median(taken)),
        f"p{LOW_PERCENTILE}": float(np.percentile(taken, LOW_PERCENTILE)),
        f"p{HIGH_PERCENTILE}": float(np.percentile(taken, HIGH_PERCENTILE)),
    }
    return ", ".join(
        f"{name}: {format_seconds(seconds)}"
        for name, seconds in parts.items()
        if seconds is not None
    )
