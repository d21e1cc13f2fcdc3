from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import module, var
from tvm_fusionx.errors import ShapeError
from tvm_fusionx.frontend.check_products import check_products
from tvm_fusionx.frontend.seal import seal

A, B = var("a", 2, 3), var("b", 4, 5)


def test_products_of_other_sizes_are_refused_by_name() -> None:
    mod = module(*seal([relay.nn.dense(A, B)], "node", {A: A, B: B}))
    with pytest.raises(ShapeError, match=r"node 'node'.*found 3 columns and 5 rows"):
        check_products(mod)


def test_products_that_fit_pass() -> None:
    check_products(module(relay.nn.dense(A, var("e", 7, 3))))
    check_products(module(A + A))
