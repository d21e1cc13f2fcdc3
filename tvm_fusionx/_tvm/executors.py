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


# The pass after which a model is calls of kernels; TVM gives its module to nobody.
LOWERING_PASS = "LowerTE"


@contextlib.contextmanager
def watch_lowered_model(see: Callable[[Any], None]) -> Iterator[None]:
    """Show `see` the ``main`` of each model that is lowered in this scope, typed.

    Adds an instrument to the ``PassContext``; a scope inside of this one must keep it.
    """
    outer = tvm.transform.PassContext.current()

    @tvm.instrument.pass_instrument
    class Watch:
        def run_after_pass(self, mod: Any, info: Any) -> None:
            if info.name == LOWERING_PASS:
                see(mod["main"])

    with tvm.transform.PassContext(
        opt_level=outer.opt_level,
        required_pass=list(map(str, outer.required_pass)),
        disabled_pass=list(map(str, outer.disabled_pass)),
        instruments=[*outer.instruments, Watch()],
        config=dict(outer.config.items()),
    ):
        yield
