from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.passes.assert_pass import block
from tests.relay_modules import const, module, var
from tvm_fusionx.layout.textures import FEWEST_ELEMENTS, prepare_textures
from tvm_fusionx.processors.gpu import Gpu


def _prepared(weight: relay.Expr, gpu: Gpu | None = None) -> tuple[str, list[int], np.ndarray]:
    """Return name and shape of a product's second parameter, and its constant."""
    rows, columns = weight.data.shape
    p, q = var("p0", 8, rows), var("p1", rows, columns)
    call = block("b", [p, q], relay.nn.matmul(p, q))(var("x", 8, rows), weight)
    found = module(prepare_textures(module(call)["main"], gpu or Gpu()).body)["main"].body
    param = found.op.params[1]
    shape = [int(extent) for extent in param.checked_type.shape]
    assert [int(extent) for extent in found.checked_type.shape] == [8, columns]
    return str(param.name_hint), shape, found.args[1].data.numpy()


def test_a_matrix_of_weights_becomes_rows_of_pixels() -> None:
    weight = const(32, 64)
    name, shape, value = _prepared(weight)
    assert (name, shape) == ("constant1", [32, 16, 4])
    np.testing.assert_array_equal(value.reshape(32, 64), weight.data.numpy())


@pytest.mark.parametrize(
    ("weight", "gpu"),
    [
        (const(FEWEST_ELEMENTS // 64, 60), Gpu()),
        (const(32, 62), Gpu()),
        (const(32, 64), Gpu(texture_extent=16)),
    ],
)
def test_small_weights_parts_of_pixels_and_those_beyond_the_device_keep_their_shape(
    weight: relay.Expr, gpu: Gpu
) -> None:
    name, shape, _ = _prepared(weight, gpu)
    assert (name, shape) == ("constant1", list(weight.data.shape))


def test_what_is_no_constant_keeps_its_name() -> None:
    p, q = var("p0", 32, 32), var("p1", 32, 32)
    x = var("x", 32, 32)
    call = block("b", [p, q], relay.nn.matmul(p, q))(x, relay.nn.relu(x))
    found = prepare_textures(module(call)["main"], Gpu()).body
    assert [str(param.name_hint) for param in found.op.params] == ["p0", "p1"]


def test_other_constants_are_only_named() -> None:
    p, q = var("p0", 32, 32), var("p1", 32, 32)
    two = block("b", [p, q], relay.Tuple([p + q, q]))(var("x", 32, 32), const(32, 32))
    main = module(relay.TupleGetItem(two, 0))["main"]
    found = prepare_textures(main, Gpu()).body.tuple_value
    assert [str(param.name_hint) for param in found.op.params] == ["p0", "constant1"]
    assert list(found.args[1].data.shape) == [32, 32]
