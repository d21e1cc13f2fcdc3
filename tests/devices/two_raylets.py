"""A Ray cluster of two raylets on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module", name="address")
def fixture_address() -> Iterator[str]:
    """Yield the address of two local raylets: one with devices and a trainer, one with local."""
    ray: Any = pytest.importorskip("ray", reason="ray is not installed")
    from ray.cluster_utils import Cluster

    local = {"device:local": 1}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "resources": local})
    cluster.add_node(num_cpus=1, resources={"trainer": 1, "device:phone": 1, **local})
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster.address
    ray.shutdown()
    cluster.shutdown()
