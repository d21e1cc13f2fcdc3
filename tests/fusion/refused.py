"""For each reason, a graph on which the planner must give it, and where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import relay

from tests.depthwise_pairs import blocked_image, depthwise, pointwise
from tests.relay_modules import const, var
from tvm_fusionx.fusion import Limits, PlannerOptions, Reason
from tvm_fusionx.fusion.pairs import PairLimits

# Large enough that no chain is small.
x, y = var("x", 64, 512), var("y", 64, 512)
image, kernel = var("image", 1, 16, 32, 32), const(16, 16, 3, 3)
weights = const(512, 512)


@dataclass(frozen=True)
class Refused:
    """One edge that must not be fused."""

    make: Callable[[], relay.Expr]
    producer: str
    consumer: str
    reason: Reason
    detail: str
    options: PlannerOptions | None = None


def _rest_that_returns() -> relay.Expr:
    first = relay.exp(x)
    return first + relay.argsort(first, dtype="float32")


# As many rows as there are, but not each of them.
rows = relay.var("rows", shape=(int(x.type_annotation.shape[0]),), dtype="int64")


def _doubled() -> relay.Expr:
    return x * relay.const(2.0)


def _relu_of_convolution() -> relay.Expr:
    return relay.nn.relu(relay.nn.conv2d(image, kernel))


def _attention() -> relay.Expr:
    q, k, v = (var(name, 4, 64, 64) for name in "qkv")
    scores = relay.nn.softmax(relay.nn.batch_matmul(q, k))
    return relay.nn.batch_matmul(scores, v, transpose_b=False)


REFUSED: dict[str, Refused] = {
    "opaque producer": Refused(
        lambda: relay.exp(relay.argsort(x, dtype="float32")),
        "argsort",
        "exp",
        Reason.OPAQUE_OPERATOR,
        "argsort",
    ),
    "opaque consumer": Refused(
        lambda: relay.cumsum(relay.exp(x), axis=1),
        "exp",
        "cumsum",
        Reason.OPAQUE_OPERATOR,
        "cumsum",
    ),
    "red cell": Refused(
        lambda: relay.nn.max_pool2d(
            relay.image.resize2d(image, (64, 64), roi=None), pool_size=(3, 3)
        ),
        "image.resize2d",
        "nn.max_pool2d",
        Reason.MAPPING_TYPES,
        "One-to-Many then Many-to-Many",
    ),
    "two products": Refused(
        lambda: relay.nn.dense(relay.nn.relu(relay.nn.dense(x, weights)), weights),
        "nn.relu",
        "nn.dense",
        Reason.SECOND_CONTRACTION,
        "nn.dense, nn.dense",
    ),
    "two convolutions": Refused(
        lambda: relay.nn.conv2d(relay.nn.conv2d(image, kernel), kernel),
        "nn.conv2d",
        "nn.conv2d",
        Reason.SECOND_CONTRACTION,
        "nn.conv2d, nn.conv2d",
    ),
    "attention": Refused(
        _attention,
        "nn.softmax",
        "nn.batch_matmul",
        Reason.SECOND_CONTRACTION,
        "nn.batch_matmul, nn.batch_matmul",
    ),
    "rows of a pair that no cores share evenly": Refused(
        lambda: pointwise(depthwise(blocked_image(512, 7, 7), 512), 512, 64),
        "nn.contrib_depthwise_conv2d_NCHWc",
        "nn.contrib_conv2d_NCHWc",
        Reason.PAIR_DOES_NOT_PAY,
        "7 rows on 2 cores",
        PlannerOptions(Limits(pairs=PairLimits(cores=2, buffer_bytes=1 << 18))),
    ),
    "product of a softmax": Refused(
        lambda: relay.nn.dense(relay.nn.softmax(x), weights),
        "nn.softmax",
        "nn.dense",
        Reason.SECOND_CONTRACTION,
        "nn.dense reads a reduction",
    ),
    "rows and columns": Refused(
        lambda: relay.nn.softmax(relay.nn.softmax(x, axis=1), axis=0),
        "nn.softmax",
        "nn.softmax",
        Reason.ROWS_DIFFER,
        "Rows(count=64, length=512) and None",
    ),
    "two windows": Refused(
        lambda: relay.nn.max_pool2d(relay.nn.max_pool2d(image, pool_size=(3, 3)), pool_size=(3, 3)),
        "nn.max_pool2d",
        "nn.max_pool2d",
        Reason.ROWS_DIFFER,
        "nn.max_pool2d, nn.max_pool2d",
    ),
    "rows of a convolution": Refused(
        lambda: relay.nn.softmax(relay.nn.conv2d(image, kernel), axis=3),
        "nn.conv2d",
        "nn.softmax",
        Reason.ROWS_DIFFER,
        "and the rows of nn.conv2d",
    ),
    "torn row": Refused(
        lambda: relay.transpose(relay.nn.softmax(x)),
        "nn.softmax",
        "transpose",
        Reason.ROW_IS_TORN,
        "transpose to float32[512, 64]",
    ),
    "part of a product": Refused(
        lambda: relay.strided_slice(relay.nn.dense(x, weights), [0, 100], [64, 200]),
        "nn.dense",
        "strided_slice",
        Reason.DOMAIN_CHANGES,
        "nn.dense has 32768 elements, strided_slice 6400",
    ),
    "before a window": Refused(
        lambda: relay.nn.conv2d(relay.nn.relu(image), kernel),
        "nn.relu",
        "nn.conv2d",
        Reason.RECOMPUTED,
        "nn.relu before nn.conv2d",
    ),
    "before a product": Refused(
        lambda: relay.nn.dense(relay.exp(x), weights),
        "exp",
        "nn.dense",
        Reason.RECOMPUTED,
        "exp before nn.dense",
    ),
    "dear and broadcast": Refused(
        lambda: relay.exp(var("row", 1, 512)) + x,
        "exp",
        "add",
        Reason.RECOMPUTED,
        "exp is read 64 times an element",
    ),
    "long and broadcast": Refused(
        lambda: x + _long_chain(var("row", 1, 512)),
        "abs",
        "add",
        Reason.RECOMPUTED,
        "abs is read 64 times an element",
    ),
    "slower as one": Refused(
        lambda: relay.transpose(var("plane", 128, 64)) + var("stack", 100, 64, 128),
        "transpose",
        "add",
        Reason.SLOWER,
        "us as one kernel",
    ),
    "result read elsewhere": Refused(
        lambda: relay.Tuple([relay.tanh(relay.exp(x)), relay.exp(x)]),
        "exp",
        "tanh",
        Reason.TOO_MANY_OUTPUTS,
        "2 outputs",
        PlannerOptions(Limits(outputs=1)),
    ),
    "results of different extents": Refused(
        lambda: relay.Tuple([relay.sum(relay.abs(x), axis=1), relay.abs(x)]),
        "abs",
        "sum",
        Reason.TOO_MANY_OUTPUTS,
        "2 outputs (abs, sum) of different extents",
    ),
    "result of a convolution read elsewhere": Refused(
        lambda: relay.Tuple([relay.nn.conv2d(image, kernel), _relu_of_convolution()]),
        "nn.conv2d",
        "nn.relu",
        Reason.TOO_MANY_OUTPUTS,
        "2 outputs (nn.conv2d, nn.relu) of nn.conv2d",
    ),
    "block without a template": Refused(
        lambda: relay.transpose(
            relay.reshape(relay.nn.softmax(relay.nn.dense(x, weights)), (8, 8, 512)), [1, 0, 2]
        ),
        "reshape",
        "transpose",
        Reason.NO_TEMPLATE,
        "it ends in transpose",
        PlannerOptions(
            why_unserved=lambda graph, nodes: (
                "it ends in transpose" if nodes[-1].op == "transpose" and len(nodes) > 1 else None
            )
        ),
    ),
    "two results of one": Refused(
        lambda: relay.Tuple([relay.exp(relay.abs(x)), relay.tanh(relay.abs(x))]),
        "abs",
        "tanh",
        Reason.TOO_MANY_OUTPUTS,
        "2 outputs (exp, tanh), none on the way to the last",
    ),
    "result of which the next reads a part": Refused(
        lambda: relay.Tuple([_doubled(), relay.take(_doubled(), rows, axis=0)]),
        "multiply",
        "take",
        Reason.TOO_MANY_OUTPUTS,
        "2 outputs (multiply, take), of which take reads a part",
    ),
    "path that comes back": Refused(
        _rest_that_returns,
        "exp",
        "add",
        Reason.NOT_CONVEX,
        "",
        PlannerOptions(Limits(outputs=2)),
    ),
    "operators": Refused(
        lambda: relay.exp(relay.tanh(relay.sin(x))),
        "tanh",
        "exp",
        Reason.TOO_MANY_OPERATORS,
        "3 operators, at most 2",
        PlannerOptions(Limits(operators=2)),
    ),
    "squares of squares": Refused(
        lambda: relay.abs(_squared(_squared(relay.exp(x)))),
        "multiply",
        "abs",
        Reason.BODY_TOO_LARGE,
        "8 operators, at most 7",
        PlannerOptions(Limits(body=7)),
    ),
    "arguments": Refused(
        lambda: x + y + var("z", 64, 512),
        "add",
        "add",
        Reason.TOO_MANY_ARGUMENTS,
        "4 arguments, at most 3",
        PlannerOptions(Limits(arguments=3)),
    ),
    "reshape after": Refused(
        lambda: relay.reshape(relay.exp(x), (64 * 512,)),
        "exp",
        "reshape",
        Reason.RESHAPE_IS_FREE,
        "",
    ),
    "reshape before": Refused(
        lambda: relay.exp(relay.reshape(x, (64 * 512,))),
        "reshape",
        "exp",
        Reason.RESHAPE_IS_FREE,
        "",
    ),
    "switched off": Refused(
        lambda: relay.exp(relay.tanh(x)),
        "tanh",
        "exp",
        Reason.DENIED,
        "fusion is switched off",
        PlannerOptions(fuse=False),
    ),
}


def _squared(value: relay.Expr) -> relay.Expr:
    return value * value


def _long_chain(expr: relay.Expr) -> relay.Expr:
    """Return five cheap operators on `expr`, one more than are worth computing again."""
    return relay.abs(relay.negative(relay.abs(relay.negative(relay.nn.relu(expr)))))
