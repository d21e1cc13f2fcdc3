"""Results that are read in part only are computed whole all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relay, te

from tests.relay_modules import TARGET, module
from tests.relay_modules import var as variable
from tests.schedules.blocked_blocks import AVX2, assert_computes, dense, describe, unscheduled
from tests.schedules.matrix_blocks import layer_norm
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.tir.block import describe_block
from tvm_fusionx.tir.coverage import is_read_whole

ROWS, COLUMNS = 16, 32

Reader = Callable[[relay.Expr], relay.Expr]


def _relu() -> relay.Expr:
    return relay.nn.relu(variable("x", ROWS, COLUMNS))


def _product() -> relay.Expr:
    product = relay.nn.dense(variable("x", ROWS, 8), variable("w", COLUMNS, 8))
    return relay.nn.relu(product * relay.const(0.1))


def _image() -> relay.Expr:
    return relay.nn.relu(variable("x", 1, 2, 10, 11, 8))


def _convolved() -> relay.Expr:
    return dense(16, (9, 9), 16, (1, 1), post=relay.nn.relu)


def _part(axis: int, begin: int, end: int, stride: int) -> Reader:
    return lambda y: relay.strided_slice(y, [begin], [end], [stride], axes=[axis])


def _pool(kernel: tuple[int, int], strides: tuple[int, int]) -> Reader:
    return lambda y: relay.nn.max_pool2d(y, kernel, strides=strides, layout="NCHW8c")


ROWS_READ = {
    "every other row": _part(0, 0, ROWS, 2),
    "the first rows": _part(0, 0, 7, 1),
    "the last columns": _part(1, 9, COLUMNS, 1),
    "every third column": _part(1, 0, COLUMNS, 3),
}
THEN: dict[str, Reader] = {
    "softmax": relay.nn.softmax,
    "sum of rows": lambda y: relay.sum(y, 1),
    "sum of columns": lambda y: relay.sum(y, 0),
    "exp": relay.exp,
}
OF: dict[str, Reader] = {"itself": lambda y: y, "its softmax": relay.nn.softmax}
POOLS = [((1, 1), (2, 2)), ((2, 2), (3, 3)), ((3, 3), (2, 2)), ((3, 1), (2, 1)), ((1, 3), (1, 2))]


def _assert_written(results: relay.Tuple) -> None:
    func = unscheduled(results)
    target = resolve_target(TARGET)
    assert_computes(schedule(func, target).func, target, module(results))


@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("part", ROWS_READ)
@pytest.mark.parametrize("of", OF)
@pytest.mark.parametrize("kept", [_relu, _product])
def test_a_result_of_which_a_slice_is_read(
    kept: Callable[[], relay.Expr], of: str, part: str, then: str
) -> None:
    whole = OF[of](kept())
    _assert_written(relay.Tuple([THEN[then](ROWS_READ[part](whole)), whole]))


@pytest.mark.parametrize(("kernel", "strides"), POOLS)
@pytest.mark.parametrize("kept", [_image, _convolved])
def test_a_result_of_which_a_pool_skips_some(
    kept: Callable[[], relay.Expr], kernel: tuple[int, int], strides: tuple[int, int]
) -> None:
    whole = kept()
    _assert_written(relay.Tuple([_pool(kernel, strides)(whole), whole]))


def _is_first_read_whole(*results: relay.Expr) -> bool:
    info = describe(relay.Tuple(list(results)))
    return is_read_whole(info, next(iter(info.stages)))


def test_what_reads_all() -> None:
    kept = _relu()
    assert _is_first_read_whole(kept, relay.exp(kept))
    assert _is_first_read_whole(kept, layer_norm(kept, COLUMNS))
    assert _is_first_read_whole(kept, relay.transpose(kept))
    assert _is_first_read_whole(kept, relay.exp(relay.reshape(kept, (2, ROWS // 2, COLUMNS))))
    assert _is_first_read_whole(kept, _part(0, 0, 7, 1)(kept), relay.exp(kept))
    image = _image()
    assert _is_first_read_whole(image, _pool((2, 11), (2, 1))(image))


def test_what_reads_a_part() -> None:
    kept = _relu()
    assert not _is_first_read_whole(kept, _part(0, 0, 7, 1)(kept))
    # All of it is read for a sum, of which only a part is wanted.
    assert not _is_first_read_whole(kept, _part(0, 0, 7, 1)(relay.sum(kept, 1, keepdims=True)))


def test_a_diagonal_is_a_part() -> None:
    data = te.placeholder((ROWS, ROWS), name="x")
    kept = te.compute(data.shape, lambda i, j: te.max(data[i, j], 0.0), name="kept")
    diagonal = te.compute((ROWS,), lambda i: kept[i, i] * 2.0, name="diagonal")
    info = describe_block(te.create_prim_func([data, diagonal, kept]), AVX2)
    assert info.consumers["kept"] == ("diagonal",)
    assert not is_read_whole(info, "kept")
