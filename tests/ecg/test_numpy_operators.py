from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import EXACT, assert_close, const, graph, inputs_of, module, run_plain, var
from tests.rewrite.rule_examples import evaluate as evaluate_graph
from tvm_fusionx.ecg.numpy_operators import NUMPY_OPERATORS, NotInNumpyError, evaluate, reduced_axes

x, y = var("x", 3, 4), var("y", 3, 4)
n, m = var("n", 3, 4, dtype="int32"), var("m", 3, 4, dtype="int32")
image = var("image", 2, 4, 6, 6)
rows = var("rows", 5, 4)
batch, other = var("batch", 2, 3, 4), var("other", 2, 5, 4)
above = relay.abs(x) + relay.const(0.5)
yes, no = relay.less(x, y), relay.less(x, relay.const(0.0))

CALLS: dict[str, Callable[[], relay.Expr]] = {
    **{
        name: lambda function=function: function(x)
        for name, function in {
            "abs": relay.abs,
            "atan": relay.atan,
            "ceil": relay.ceil,
            "cos": relay.cos,
            "cosh": relay.cosh,
            "erf": relay.erf,
            "exp": relay.exp,
            "floor": relay.floor,
            "negative": relay.negative,
            "nn.relu": relay.nn.relu,
            "nn.leaky_relu": lambda data: relay.nn.leaky_relu(data, 0.1),
            "sigmoid": relay.sigmoid,
            "sign": relay.sign,
            "sin": relay.sin,
            "sinh": relay.sinh,
            "tan": relay.tan,
            "tanh": relay.tanh,
            "trunc": relay.trunc,
            "clip": lambda data: relay.clip(data, -0.5, 0.25),
            "copy": relay.copy,
        }.items()
    },
    **{
        name: lambda function=function: function(x, y)
        for name, function in {
            "add": relay.add,
            "divide": relay.divide,
            "equal": relay.equal,
            "greater": relay.greater,
            "greater_equal": relay.greater_equal,
            "less": relay.less,
            "less_equal": relay.less_equal,
            "maximum": relay.maximum,
            "minimum": relay.minimum,
            "multiply": relay.multiply,
            "not_equal": relay.not_equal,
            "subtract": relay.subtract,
        }.items()
    },
    **{
        name: lambda function=function: function(n, m)
        for name, function in {
            "bitwise_and": relay.bitwise_and,
            "bitwise_or": relay.bitwise_or,
            "bitwise_xor": relay.bitwise_xor,
            "left_shift": relay.left_shift,
            "right_shift": relay.right_shift,
        }.items()
    },
    **{
        name: lambda function=function: function(x, axis=1)
        for name, function in {
            "argmax": relay.argmax,
            "argmin": relay.argmin,
            "max": relay.max,
            "mean": relay.mean,
            "min": relay.min,
            "prod": relay.prod,
            "sum": relay.sum,
            "variance": relay.variance,
        }.items()
    },
    "all": lambda: relay.all(yes, axis=1),
    "any": lambda: relay.any(yes, axis=0, keepdims=True),
    "bitwise_not": lambda: relay.bitwise_not(n),
    "broadcast_to": lambda: relay.broadcast_to(x, (2, 3, 4)),
    "cast": lambda: relay.cast(x * relay.const(5.0), "int32"),
    "concatenate": lambda: relay.concatenate([x, y, rows], axis=0),
    "expand_dims": lambda: relay.expand_dims(x, 1, 2),
    "log": lambda: relay.log(above),
    "logical_and": lambda: relay.logical_and(yes, no),
    "logical_not": lambda: relay.logical_not(yes),
    "logical_or": lambda: relay.logical_or(yes, no),
    "logical_xor": lambda: relay.logical_xor(yes, no),
    "nn.avg_pool2d": lambda: relay.nn.avg_pool2d(image, (3, 3), (2, 2), (1, 1), (1, 0, 1, 1)),
    "nn.batch_flatten": lambda: relay.nn.batch_flatten(batch),
    "nn.batch_matmul": lambda: relay.nn.batch_matmul(batch, other),
    "nn.conv1d": lambda: relay.nn.conv1d(
        *(var("steps", 2, 4, 9), const(6, 2, 3)),
        **{"channels": 6, "kernel_size": 3, "groups": 2},
        **{"strides": 2, "padding": (2, 1), "dilation": 2},
    ),
    "nn.conv2d": lambda: relay.nn.conv2d(
        image, const(6, 2, 3, 3), strides=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2
    ),
    "nn.conv2d_transpose": lambda: relay.nn.conv2d_transpose(
        image, const(4, 3, 3, 2), channels=3, kernel_size=(3, 2), strides=(2, 2), padding=(1, 0)
    ),
    "nn.conv3d_transpose": lambda: relay.nn.conv3d_transpose(
        *(var("volume", 2, 4, 3, 2, 4), const(4, 3, 2, 3, 3)),
        channels=3,
        kernel_size=(2, 3, 3),
        strides=(2, 1, 3),
        padding=(1, 0, 1),
    ),
    "nn.dense": lambda: relay.nn.dense(x, rows),
    "nn.global_avg_pool2d": lambda: relay.nn.global_avg_pool2d(image),
    "nn.global_max_pool2d": lambda: relay.nn.global_max_pool2d(image),
    "nn.log_softmax": lambda: relay.nn.log_softmax(x, axis=-1),
    "nn.matmul": lambda: relay.nn.matmul(x, rows, transpose_b=True),
    "nn.max_pool2d": lambda: relay.nn.max_pool2d(image, (3, 2), (2, 2), (1, 1), (1, 1)),
    "nn.pad": lambda: relay.nn.pad(x, ((1, 0), (2, 3)), pad_value=1.5),
    "nn.softmax": lambda: relay.nn.softmax(x, axis=0),
    "nn.upsampling": lambda: relay.nn.upsampling(image, 2, 3),
    "power": lambda: relay.power(above, y),
    "repeat": lambda: relay.repeat(x, 2, 1),
    "reshape": lambda: relay.reshape(x, (-1, 6)),
    "rsqrt": lambda: relay.rsqrt(above),
    "split": lambda: relay.split(x, (1, 3), axis=1)[1],
    "sqrt": lambda: relay.sqrt(above),
    "squeeze": lambda: relay.squeeze(relay.expand_dims(x, 0)),
    "strided_slice": lambda: relay.strided_slice(x, [2, 0], [0, 4], [-1, 2]),
    "take": lambda: relay.take(x, relay.const([2, 0, 2]), axis=0),
    "tile": lambda: relay.tile(x, (2, 3)),
    "transpose": lambda: relay.transpose(batch, [2, 0, 1]),
    "where": lambda: relay.where(yes, x, y),
}


def test_every_operator_is_tested() -> None:
    assert CALLS.keys() == NUMPY_OPERATORS.keys()


@pytest.mark.slow
def test_numpy_agrees_with_tvm() -> None:
    mod = module(*(build() for build in CALLS.values()))
    inputs = inputs_of(mod)
    found = evaluate_graph(graph(*(build() for build in CALLS.values())), inputs)
    for name, ours, expected in zip(CALLS, found, run_plain(mod, inputs), strict=True):
        try:
            assert_close([ours], [expected], EXACT)
        except AssertionError as error:
            raise AssertionError(name) from error


@pytest.mark.parametrize(
    "expr",
    [
        relay.cumsum(x),
        relay.nn.avg_pool2d(image, (3, 3), (2, 2), ceil_mode=True),
        relay.nn.conv2d(
            var("pixels", 1, 6, 6, 4), const(3, 3, 4, 2), data_layout="NHWC", kernel_layout="HWIO"
        ),
        relay.divide(n, relay.const(0)),
        relay.nn.pad(x, ((1, 1), (0, 0)), pad_mode="edge"),
        relay.nn.upsampling(image, 2, 2, method="bilinear"),
    ],
    ids=["unknown", "rounded up", "layout", "zero", "edge", "bilinear"],
)
def test_what_numpy_is_not_trusted_with(expr: relay.Expr) -> None:
    (*_, node) = graph(expr).calls()
    arrays = [
        value.array if value.is_constant else np.ones(value.shape, value.dtype)
        for value in node.operands
    ]
    with pytest.raises(NotInNumpyError):
        evaluate(node, arrays)


def test_reduced_axes_are_spelled_out() -> None:
    def axes(expr: relay.Expr) -> tuple[int, ...]:
        return reduced_axes(graph(expr).outputs[0].node)

    assert axes(relay.sum(batch)) == (0, 1, 2)
    assert axes(relay.sum(batch, axis=-1)) == (2,)
    assert axes(relay.sum(batch, axis=[2, 0])) == (0, 2)
    assert axes(relay.sum(batch, axis=1, exclude=True)) == (0, 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_and_products_of_16_bits_are_of_float32(dtype: str) -> None:
    x, w = var("x", 2, 4096, dtype=dtype), var("w", 3, 4096, dtype=dtype)
    ones = [np.ones(shape, dtype) for shape in ((2, 4096), (3, 4096))]
    for expr, given in ((relay.sum(x, 1), ones[:1]), (relay.nn.dense(x, w), ones)):
        (node,) = graph(expr).calls()
        (found,) = evaluate(node, given)
        # 256 + 1 is 256 in bfloat16, and 2048 + 1 is 2048 in float16.
        assert found.dtype == dtype
        assert (found.astype("float32") == 4096).all()


def test_what_moves_keeps_its_bits() -> None:
    x = var("x", 2, 3, dtype="bfloat16")
    (node,) = graph(relay.transpose(x)).calls()
    given = np.array([[1, np.nan, 2], [3, -0.0, 4]], "bfloat16")
    (found,) = evaluate(node, [given])
    np.testing.assert_array_equal(found.view("uint16"), given.T.copy().view("uint16"))
