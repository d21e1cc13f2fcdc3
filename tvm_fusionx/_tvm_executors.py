"""TVM's graph executors, changed on their way out of a build; as ``_tvm``, for TVM 0.19."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

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
