"""The sides of a benchmark that TVM compiles: ours, our unfused control, and TVM's default."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.build.fused_build import FusedBuild, build_fused, kernel_notes
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.build.library import describe_library
from tvm_fusionx.code_cache.setting import kernel_cache
from tvm_fusionx.ecg.block_calls import post_order
from tvm_fusionx.inputs import InputSpec
from tvm_fusionx.records import Record
from tvm_fusionx.report.bench.bench_result import OURS
from tvm_fusionx.report.bench.footprint import planned_bytes
from tvm_fusionx.report.bench.kept_build import kept_plain
from tvm_fusionx.report.bench.timing import describe_failure
from tvm_fusionx.report.peers.conversions import Conversions
from tvm_fusionx.report.profile.profile import profile

TVM = "tvm"
UNFUSED = "unfused"

TunedBuild = Callable[
    [tvm.IRModule, tvm.target.Target, Mapping[str, Any], Mapping[str, np.ndarray], Conversions],
    tuple[Any, dict[str, Any]],
]
"""Of module, target, parameters, inputs and what is kept makes a library and facts about it."""


@dataclass
class BuiltSides:
    """What was built of one model.

    Attributes
    ----------
    ours
        Our build.
    libraries
        Graph-executor factory modules by side.
    prepare_s
        Seconds that each took to build.
    errors
        Message of each side that could not be built.
    tuning
        What there is to say of those that were tuned.
    """

    ours: FusedBuild
    libraries: dict[str, Any]
    prepare_s: dict[str, float]
    errors: dict[str, str] = field(default_factory=dict)
    tuning: dict[str, dict[str, Any]] = field(default_factory=dict)

    def block_times(
        self, model: str, specs: tuple[InputSpec, ...], arrays: Mapping[str, np.ndarray]
    ) -> list[dict[str, Any]]:
        """Return a row for each kernel of ours: template, time, operations, bytes and work."""
        library = describe_library(
            self.ours.library, model=model, target="", inputs=specs, kernels=kernel_notes(self.ours)
        )
        return profile(library, arrays, peak=None).to_blocks()

    def description(self) -> dict[str, Any]:
        """Return the fields of a result that the libraries alone tell."""
        graphs = {
            side: KernelGraph.from_json(library.get_graph_json())
            for side, library in self.libraries.items()
        }
        return {
            "kernels": {
                side: len(graphs[side].kernels) if side in graphs else None
                for side in (OURS, TVM, UNFUSED)
            },
            "intermediate_bytes": {
                side: graphs[side].intermediate_bytes if side in graphs else None
                for side in (OURS, TVM, UNFUSED)
            },
            "weight_bytes": _weight_bytes(self.libraries[OURS]),
            "build_s": self.prepare_s[OURS],
            "tuning": self.tuning,
            "planned_bytes": {
                side: planned_bytes(library).to_json() for side, library in self.libraries.items()
            },
        }


def build_sides(
    mod: tvm.IRModule,
    target: tvm.target.Target,
    params: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    vs: Collection[str],
    records: str | Path | Mapping[str, Record] | None = None,
    *,
    tuned: Mapping[str, TunedBuild] | None = None,
    own_definitions: bool = False,
    conversions: Conversions | None = None,
    alone: Callable[[], AbstractContextManager[None]] = nullcontext,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> BuiltSides:
    """Build ours, and what `vs` names of TVM's default and our unfused control.

    Parameters
    ----------
    arrays
        The model's inputs.
    tuned
        Further sides: builds that tune first.
    own_definitions
        Whether TVM's default defines operators as TVM does for the target.
    conversions
        Where what is not ours is kept, and whose clock tells the seconds.
    alone
        Entered while a build tunes, for it measures.
    on_stage
        Told what is being done, in words; what is counted as ``N of M``.
    """

    def telling(side: str) -> Callable[[str], None]:
        return lambda stage: on_stage(f"building {side}: {stage}")

    kept = conversions or Conversions()
    on_stage(f"building {OURS}")
    started = kept.clock()
    ours = _compiled(mod, target, params, records, on_stage=telling(OURS))
    sides = BuiltSides(ours, {OURS: ours.library}, {OURS: kept.clock() - started})
    builds: dict[str, TunedBuild] = {
        TVM: lambda *_: (
            kept_plain(kept, mod, target, params, own_definitions=own_definitions),
            {},
        ),
        UNFUSED: lambda *_: (
            _compiled(mod, target, params, records, on_stage=telling(UNFUSED), fuse=False).library,
            {},
        ),
    }
    asked = {side: build for side, build in builds.items() if side in vs}
    for side, build in {**asked, **(tuned or {})}.items():
        on_stage(f"building {side}")
        started, spared = kept.clock(), kept.spared_s
        try:
            with nullcontext() if side in asked else alone():
                sides.libraries[side], facts = build(mod, target, params, arrays, kept)
            sides.prepare_s[side] = kept.clock() - started + kept.spared_s - spared
        except Exception as error:  # TVM's default does fail on valid models
            sides.errors[side] = describe_failure(error)
            continue
        if facts:
            sides.tuning[side] = facts
    return sides


def _compiled(*given: Any, **named: Any) -> FusedBuild:
    """Build with every kernel compiled: how long that takes is reported."""
    with kernel_cache(use=False):
        return build_fused(*given, **named)


def count_operators(mod: tvm.IRModule) -> int:
    """Return the number of operator calls in ``main`` of an unfused module."""
    return sum(
        isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op)
        for expr in post_order(mod["main"].body)
    )


@contextmanager
def model_file(model: Any) -> Iterator[Path]:
    """Yield the model as a file, which is what the other runtimes take."""
    if isinstance(model, (str, Path)):
        yield Path(model)
        return
    with tempfile.TemporaryDirectory(prefix="fusionx-bench-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        yield path


def name_of(model: Any) -> str:
    """Return the name of an ONNX file or ``ModelProto``."""
    return Path(model).stem if isinstance(model, (str, Path)) else str(model.graph.name)


def _weight_bytes(library: Any) -> int:
    return sum(
        int(np.prod(value.shape, dtype=np.int64)) * np.dtype(value.dtype).itemsize
        for value in library.get_params().values()
    )
