"""MobileNets: the counts of their papers."""

from __future__ import annotations

import pytest

from tests.zoo.networks.published import count, printed

pytest.importorskip("torch")
mobile = pytest.importorskip("tvm_fusionx.zoo.networks.mobile")


@pytest.mark.parametrize(
    ("make", "parameters", "multiply_adds"),
    [
        # Howard et al. 2017, table 8.
        (mobile.mobilenet_v1, "4.2M", "569M"),
        # Sandler et al. 2018, table 4; 3.47M in the list published beside its weights.
        (mobile.mobilenet_v2, "3.47M", "300M"),
        # Howard et al. 2019, table 3.
        (mobile.mobilenet_v3_large, "5.4M", "219M"),
    ],
)
def test_counts_are_the_published_ones(make, parameters, multiply_adds):
    counted = count(make, (1, 3, 224, 224))
    assert counted.parameters == printed(parameters)
    assert counted.multiply_adds == printed(multiply_adds)
    assert counted.outputs == [(1, 1000)]
