"""TVM's graph executors, changed on their way out of a build; as ``_tvm``, for TVM 0.19."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tvm
from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule


@contextlib.contextmanager
def changed_executors(change: Callable[[str, Any], tuple[str, Any]]) -> Iterator[None]:
    """Pass graph and constants of each graph executor that this scope builds through `change`.

    TVM plans images for its own Adreno operators only. Scopes nest, from one thread.
    """
    original = GraphExecutorFactoryModule.__init__

    def changed(
        self: Any, mod: Any, target: Any, executor: Any, graph: str, library: Any, *rest: Any
    ) -> None:
        name, params, metadata = rest
        graph, params = change(graph, params)
        original(self, mod, target, executor, graph, library, name, params, metadata)

    GraphExecutorFactoryModule.__init__ = changed
    try:
        yield
    finally:
        GraphExecutorFactoryModule.__init__ = original


# TVM's plan of images for the operators of an Adreno; by the names that it composes for a target.
STORAGE_PLANNER = "relay.backend.opencl.adreno._CollectStorageInfo"


@contextlib.contextmanager
def without_planned_images() -> Iterator[None]:
    """Let TVM plan no images in this scope: our kernels say themselves what they take.

    The plan renews expressions of the model one by one; in models where a block has several
    results, the executor's code generator then fails with "Expr is not existing in storage plan".
    """
    original = tvm.get_global_func(STORAGE_PLANNER, allow_missing=True)
    if original is None:
        yield
        return
    tvm.register_func(STORAGE_PLANNER, lambda _: {}, override=True)
    try:
        yield
    finally:
        tvm.register_func(STORAGE_PLANNER, original, override=True)
