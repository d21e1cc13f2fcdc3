"""What one benchmark found, as ``docs/bench_schema.md`` documents it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvm_fusionx.output_file import new_file
from tvm_fusionx.report.bench.loaded_runs import LoadedRuns
from tvm_fusionx.report.bench.sustained import Sustained
from tvm_fusionx.report.bench.timing import Latency

OURS = "fusionx"


@dataclass
class BenchResult:
    """One benchmark; :meth:`to_json` is documented in ``docs/bench_schema.md``."""

    model: str
    target: str
    threads: int
    device: str
    versions: dict[str, str]
    ops: int
    kernels: dict[str, int | None]
    intermediate_bytes: dict[str, int | None]
    weight_bytes: int
    max_rel_err: float
    cosine: float
    import_s: float
    build_s: float
    latency_ms: dict[str, Latency] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    prepare_s: dict[str, float] = field(default_factory=dict)
    planned_bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    code_bytes: dict[str, int] = field(default_factory=dict)
    memory_bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    blocks: list[dict[str, Any]] = field(default_factory=list)
    peer_kernels: dict[str, int] = field(default_factory=dict)
    rel_err: dict[str, float] = field(default_factory=dict)
    sustained_ms: dict[str, Sustained] = field(default_factory=dict)
    loaded_ms: dict[str, dict[str, LoadedRuns]] = field(default_factory=dict)
    tuning: dict[str, dict[str, Any]] = field(default_factory=dict)
    load_s: dict[str, float] = field(default_factory=dict)
    first_run_s: dict[str, float] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the result as a dictionary that ``json.dumps`` takes."""
        return {
            **self.__dict__,
            # JSON has no infinity.
            "max_rel_err": self.max_rel_err if math.isfinite(self.max_rel_err) else None,
            "latency_ms": {name: latency.to_json() for name, latency in self.latency_ms.items()},
            "loaded_ms": {
                load: {name: each.to_json() for name, each in row.items()}
                for load, row in self.loaded_ms.items()
            },
            "sustained_ms": {name: each.to_json() for name, each in self.sustained_ms.items()},
        }

    def save_json(self, path: str | Path) -> None:
        """Write :meth:`to_json` to `path`.

        Raises
        ------
        OutputFileError
            The path cannot be written.
        """
        with new_file(path) as scratch:
            scratch.write_text(json.dumps(self.to_json(), indent=2) + "\n", encoding="utf-8")

    def speedup_over(self, side: str) -> float | None:
        """Return the median latency of `side` over ours; None when it has none."""
        if side not in self.latency_ms or OURS not in self.latency_ms:
            return None
        return self.latency_ms[side].median / self.latency_ms[OURS].median
