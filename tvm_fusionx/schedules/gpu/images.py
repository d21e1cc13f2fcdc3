"""The images of one build: constants by what templates chose, other tensors by plan."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx._tvm.executors import watch_lowered_model
from tvm_fusionx.errors import TargetError
from tvm_fusionx.processors.gpu import Gpu, describe_gpu, is_gpu
from tvm_fusionx.schedules.gpu.image_plan import ImagePlan, plan_images, with_images
from tvm_fusionx.schedules.gpu.pixels import ACTIVATION_SCOPE
from tvm_fusionx.schedules.gpu.texture_graph import place_textures
from tvm_fusionx.schedules.gpu.textures import texture_parameters

logger = logging.getLogger(__name__)


class Images:
    """Collects what kernels take as images while a model is built, and tells the executor.

    Parameters
    ----------
    gpu
        What the device offers, where tensors between kernels are to be images; None for weights
        alone.
    """

    def __init__(self, gpu: Gpu | None = None) -> None:
        self.gpu = gpu
        self.plan = ImagePlan({}, {})
        self._main: Any = None
        self._weights: dict[str, dict[int, str]] = {}
        self._parameters: dict[str, tuple[str, ...]] = {}

    def add(self, symbol: str, func: Any) -> None:
        """Note what a scheduled kernel takes."""
        self._weights[symbol] = texture_parameters(func)
        if self.gpu is not None:
            self._parameters[symbol] = parameter_names(func)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Learn in this scope which kernel reads what another writes."""
        if self.gpu is None:
            yield
            return
        with watch_lowered_model(self._remember):
            yield

    def in_kernels(self, mod: Any) -> Any:
        """Return lowered device functions with images for the tensors between them."""
        if self.gpu is None or self._main is None:
            return mod
        self.plan = plan_images(self._main, mod.functions, self._parameters, self.gpu)
        reasons = Counter(self.plan.refusals.values())
        for reason, times in reasons.most_common():
            logger.info("%d tensors stay buffers: %s", times, reason)
        changed = with_images(mod.functions, self._parameters, self.plan.placed)
        return tvm.IRModule(changed, attrs=mod.attrs)

    def key(self, symbol: str) -> Hashable:
        """Return what kernels of equal blocks must have in common to be one kernel."""
        return tuple(sorted(self.plan.placed.get(symbol, {}).items()))

    def place(self, graph: str, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return an executor's graph and constants with images where kernels take them."""
        scopes = {symbol: dict(places) for symbol, places in self._weights.items()}
        for symbol, places in self.plan.placed.items():
            scopes.setdefault(symbol, {}).update(dict.fromkeys(places, ACTIVATION_SCOPE))
        return place_textures(graph, params, scopes)

    def _remember(self, main: Any) -> None:
        self._main = main


def images_for(target: tvm.target.Target, activation_images: bool) -> Images:
    """Return what a build for `target` collects.

    Raises
    ------
    TargetError
        Images are asked for, and the target has none.
    """
    if not activation_images:
        return Images()
    if not is_gpu(target):
        raise TargetError(
            "activation_images",
            expected="an OpenCL target",
            found=str(target),
            next_step="Leave activation_images out, or build for opencl.",
        )
    return Images(describe_gpu(target))


def parameter_names(func: Any) -> tuple[str, ...]:
    """Return the names by which the device functions of a scheduled kernel know its parameters.

    Empty for a parameter whose name something else in the kernel has too.
    """
    names = [str(func.buffer_map[param].data.name) for param in func.params]
    taken = Counter(names)

    def visit(node: Any) -> None:
        if isinstance(node, tir.Block):
            taken.update(str(buffer.data.name) for buffer in node.alloc_buffers)

    tir.stmt_functor.post_order_visit(func.body, visit)
    return tuple(name if taken[name] == 1 else "" for name in names)
