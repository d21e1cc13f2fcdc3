"""What a model's OpenCL kernels do, counted, and the least time that a phone's GPU takes for it.

Nothing is run, and nothing of it was measured on such a GPU. The time is a roofline from published
figures: a kernel cannot be faster than its arithmetic on all units, nor than its buffers once
across the memory bus. What caches, registers and drivers cost comes on top, and is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.build.pipeline import check_static, pipeline
from tvm_fusionx.errors import TargetError
from tvm_fusionx.lowering import lowering
from tvm_fusionx.processors.gpu import is_gpu
from tvm_fusionx.processors.gpu_rates import GpuRates
from tvm_fusionx.processors.targets import TargetLike, resolve_target
from tvm_fusionx.schedules.gpu.work import GpuWork, gpu_work

COMPUTE = "compute"
MEMORY = "memory"

KILO = 1000

HOST = "llvm"


@dataclass(frozen=True)
class CountedKernel:
    """One device kernel of a model."""

    name: str
    """The symbol of the kernel."""

    template: str
    """Template that scheduled it."""

    launches: int
    """How often one inference launches it."""

    work: GpuWork
    """What one launch does."""

    def least_us(self, gpu: GpuRates) -> dict[str, float]:
        """Return the least time of one launch, microseconds, by what it is for."""
        work = self.work
        compute = gpu.compute_us(
            work.multiply_adds + work.operations,
            work.half_multiply_adds + work.half_operations,
            work.items,
        )
        return {COMPUTE: compute, MEMORY: gpu.memory_us(work.argument_bytes)}


@dataclass(frozen=True)
class GpuKernels:
    """The device kernels of a model, counted."""

    target: str
    kernels: tuple[CountedKernel, ...]
    """In the order of their first launch."""

    def on(self, gpu: GpuRates) -> GpuEstimate:
        """Return the least times on a GPU."""
        return GpuEstimate(gpu, self)


@dataclass(frozen=True)
class GpuEstimate:
    """A model's kernels on one GPU."""

    gpu: GpuRates
    counted: GpuKernels

    @property
    def least_ms(self) -> float:
        """Return the least time of an inference, milliseconds; launches cost nothing here."""
        times = ((each.launches, each.least_us(self.gpu)) for each in self.counted.kernels)
        return sum(launches * max(us.values()) for launches, us in times) / KILO

    @property
    def launches(self) -> int:
        """Return the launches of an inference."""
        return sum(each.launches for each in self.counted.kernels)

    @property
    def moved_bytes(self) -> int:
        """Return the bytes of all kernels' buffers: what crosses memory at the least."""
        return sum(each.launches * each.work.argument_bytes for each in self.counted.kernels)

    def to_json(self) -> dict[str, Any]:
        """Return everything as what ``json`` writes."""
        kernels = [
            {**asdict(each), "least_us": each.least_us(self.gpu)} for each in self.counted.kernels
        ]
        return {
            "gpu": asdict(self.gpu),
            "target": self.counted.target,
            "is_estimate": True,
            "least_ms": self.least_ms,
            "launches": self.launches,
            "moved_bytes": self.moved_bytes,
            "kernels": kernels,
        }


def variants() -> dict[str, dict[str, Any]]:
    """Return the ways to keep what passes between kernels, as options of a build."""
    return {
        "buffers": {},
        "images": {"activation_images": True},
        "buffers of halves": {"precision": "float16"},
        "images of halves": {"activation_images": True, "precision": "float16"},
    }


def count_on_gpu(
    mod: tvm.IRModule,
    target: TargetLike = "opencl -device=adreno",
    params: Mapping[str, Any] | None = None,
    activation_images: bool = False,
    precision: str | None = None,
) -> GpuKernels:
    """Count what the device kernels of a model do.

    Parameters
    ----------
    mod
        Relay module, as from :func:`tvm_fusionx.from_onnx`.
    target
        OpenCL target that the kernels are made for.
    params, activation_images, precision
        As for :func:`tvm_fusionx.build`.

    Raises
    ------
    TargetError
        The target is not OpenCL.
    ModelError, ShapeError
        As for :func:`tvm_fusionx.build`.
    """
    resolved = tvm.target.Target(resolve_target(target), host=HOST)
    if not is_gpu(resolved):
        raise TargetError(
            f"target {resolved}",
            expected="an OpenCL target",
            found=str(resolved.kind.name),
            next_step='Give "opencl -device=adreno", or measure on the processor itself.',
        )
    bound = bind_parameters(mod, params)
    check_static(bound)
    lowered: dict[str, Any] = {}
    blocks = pipeline(resolved, precision=precision)(bound)
    with lowering(resolved, activation_images=activation_images) as log:
        log.on_device_kernels = lambda made: lowered.update(
            (variable.name_hint, func) for variable, func in made.functions.items()
        )
        library = relay.build(blocks, resolved)
    templates = {entry.name: entry.template for entry in log.entries}
    launches = Counter(
        node.function for node in KernelGraph.from_json(library.get_graph_json()).kernels
    )
    kernels = [
        CountedKernel(name, templates.get(function, ""), count, gpu_work(lowered[name]))
        for function, count in launches.items()
        for name in _kernels_of(function, lowered)
    ]
    return GpuKernels(str(resolved), tuple(kernels))


def _kernels_of(function: str, lowered: Mapping[str, Any]) -> list[str]:
    """Return the kernels of a host function: TVM numbers those after the first."""
    first = f"{function}_kernel"
    rest = (f"{first}_{number}" for number in range(1, len(lowered)))
    return [name for name in (first, *rest) if name in lowered]
