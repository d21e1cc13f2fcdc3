"""Layouts of whole regions: exact counts of what moves data, and the same numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import tvm
from tvm import relay

from tests.relay_modules import (
    REASSOCIATING,
    const,
    module,
    var,
)
from tests.verified_kernels import assert_same_numbers
from tvm_fusionx.ecg import from_relay, to_relay
from tvm_fusionx.layout import pack_convolutions

MOVES = ("layout_transform", "reshape", "transpose")
BLOCKED = ("nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc")


@dataclass(frozen=True)
class Avx:
    """What the pass asks of a CPU."""

    lanes: int = 8
    dot: None = None

    def dot_for(self, data: str) -> None:
        """Return what multiplies integers: nothing."""


pytestmark = pytest.mark.slow


def conv(data: relay.Expr, outputs: int, kernel: int, seed: int = 1, **attrs: object) -> relay.Expr:
    """Return a convolution with constant weights and bias; `groups` as in Relay."""
    inputs = int(relay.transform.InferTypeLocal(data).shape[1])
    groups = int(attrs.get("groups", 1))  # type: ignore[call-overload]
    weights = const(outputs, inputs // groups, kernel, kernel, seed=seed)
    padding = (kernel // 2,) * 4
    out = relay.nn.conv2d(
        data, weights, channels=outputs, kernel_size=(kernel, kernel), padding=padding, **attrs
    )
    return relay.nn.bias_add(out, const(outputs, seed=seed + 1))


def packed(*results: relay.Expr) -> tuple[tvm.IRModule, Counter[str], int]:
    """Return the module after packing, the operators in it, and the convolutions packed."""
    graph = from_relay(module(*results)["main"])
    count = pack_convolutions(graph, Avx())
    counts = Counter(node.op for node in graph.calls())
    return module_of(graph), counts, count


def module_of(graph: object) -> tvm.IRModule:
    """Return a graph as a type-inferred module."""
    return relay.transform.InferType()(tvm.IRModule.from_expr(to_relay(graph)))


def assert_packed(results: Sequence[relay.Expr], convolutions: int, **moves: int) -> Counter[str]:
    """Pack: check counts, that nothing is left to pack, and the numbers; return the operators."""
    before = module(*results)
    after, counts, count = packed(*results)
    assert count == convolutions
    assert counts["nn.conv2d"] == 0
    assert sum(counts[name] for name in BLOCKED) == convolutions
    assert {name: counts[name] for name in MOVES if counts[name]} == moves
    assert pack_convolutions(from_relay(after["main"]), Avx()) == 0
    assert_same_numbers(after, before, REASSOCIATING)
    return counts


IMAGE = (1, 3, 9, 8)


def test_one_region_has_one_way_in_and_one_way_out() -> None:
    x = relay.nn.relu(conv(var("x", *IMAGE), 16, 3))
    y = relay.nn.relu(conv(x, 16, 3) + x)
    y = conv(relay.nn.max_pool2d(y, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)), 24, 1)
    # An image is a tensor of one-channel chunks as it is: the way in moves nothing.
    assert_packed([y], 3, reshape=1, layout_transform=1)


def test_depthwise_convolutions_stay_in_the_layout() -> None:
    x = relay.nn.relu(conv(var("x", *IMAGE), 16, 3, strides=(2, 2)))
    y = conv(relay.nn.relu(conv(x, 16, 3, groups=16)), 32, 1)
    counts = assert_packed([relay.nn.global_avg_pool2d(y)], 3, reshape=2)
    assert counts["nn.contrib_depthwise_conv2d_NCHWc"] == 1


def test_a_gate_of_one_number_a_channel_stays_in_the_layout() -> None:
    x = conv(var("x", *IMAGE), 16, 3)
    gate = relay.sigmoid(conv(relay.nn.relu(conv(relay.nn.global_avg_pool2d(x), 4, 1)), 16, 1))
    assert_packed([conv(x * gate, 8, 1)], 4, reshape=1, layout_transform=1)


def test_tensors_of_one_channel_count_share_their_chunks() -> None:
    x = conv(var("x", *IMAGE), 12, 1)
    y = conv(conv(x, 18, 1), 12, 3) + x
    assert_packed([conv(y, 8, 1)], 4, reshape=1, layout_transform=1)


def test_resizing_padding_repeating_and_joining_stay_in_the_layout() -> None:
    x = conv(var("x", *IMAGE), 8, 3)
    large = relay.image.resize2d(x, (18, 16), method="linear")
    twice = relay.repeat(relay.repeat(x, 2, 2), 2, 3)
    joined = relay.concatenate([large, twice], axis=1)
    y = conv(relay.nn.pad(joined, ((0, 0), (0, 0), (1, 0), (0, 2))), 8, 3)
    assert_packed([y], 2, reshape=1, layout_transform=1)


def test_what_cannot_follow_gets_the_image_back_once() -> None:
    x = conv(var("x", *IMAGE), 8, 3)
    rows = relay.nn.softmax(x, axis=3)
    columns = relay.nn.softmax(x, axis=2)
    # One way out serves both readers; the sum of what they make is an image from then on.
    assert_packed([rows + columns], 1, reshape=1, layout_transform=1)


def test_an_image_that_joins_enters_the_layout() -> None:
    x = conv(var("x", *IMAGE), 8, 3) + var("r", 1, 8, 9, 8)
    assert_packed([conv(x, 8, 3)], 2, reshape=1, layout_transform=2)


@pytest.mark.parametrize("image", [IMAGE, (2, 3, 5, 7)])
def test_the_last_convolution_fills_its_vectors_with_channels_of_zeros(
    image: tuple[int, ...],
) -> None:
    x = relay.nn.relu(conv(var("x", *image), 8, 3))
    heads = [relay.sigmoid(conv(x, 67, 1)), relay.transpose(conv(x, 67, 1, 3), (0, 2, 3, 1))]
    counts = assert_packed(heads, 3, reshape=1, layout_transform=2, transpose=1)
    assert counts["strided_slice"] == len(heads)


def test_channels_of_zeros_are_not_added_where_blocks_are_read() -> None:
    x = relay.nn.relu(conv(var("x", *IMAGE), 67, 1))
    assert not assert_packed([conv(x, 8, 1)], 2, reshape=1, layout_transform=1)["strided_slice"]
    # Of 67 channels each is a chunk: an image as it is.
    assert not assert_packed([relay.nn.max_pool2d(x, (2, 2))], 1, reshape=2)["strided_slice"]
    # A reduction of other axes than rows and columns has no blocked form.
    assert packed(relay.max(x, axis=[1]))[1]["strided_slice"]
    assert not packed(relay.max(x, axis=[2, 3]))[1]["strided_slice"]
    graph = from_relay(module(x)["main"])
    pack_convolutions(graph, Avx(), fill=False)
    assert "strided_slice" not in {node.op for node in graph.calls()}


def test_constants_are_packed_not_transformed() -> None:
    x = conv(var("x", *IMAGE), 16, 3)
    y = x * const(16, 1, 1) + const(1, 16, 9, 8, seed=5) - const(8, seed=6)
    assert_packed([relay.nn.prelu(y, const(16, seed=8))], 1, reshape=1, layout_transform=1)


def test_reductions_over_rows_and_columns_leave_by_a_reshape() -> None:
    x = conv(var("x", *IMAGE), 16, 3)
    assert_packed([relay.mean(x, axis=[2, 3])], 1, reshape=2)


@pytest.mark.parametrize("outputs", [1, 3, 16])
def test_transposed_convolutions_without_overlap_are_pointwise(outputs: int) -> None:
    x = conv(var("x", *IMAGE), 16, 3)
    y = relay.nn.conv2d_transpose(
        x, const(16, outputs, 2, 2, seed=3), strides=(2, 2), channels=outputs, kernel_size=(2, 2)
    )
    _, counts, count = packed(y)
    assert count == 2
    assert counts["nn.conv2d_transpose"] == 0
    after, _, _ = packed(y)
    assert_same_numbers(after, module(y), REASSOCIATING)


def test_groups_keep_chunks_within_a_group() -> None:
    x = conv(var("x", *IMAGE), 16, 1)
    assert_packed([conv(x, 16, 3, groups=4)], 2, reshape=2, layout_transform=2)


@pytest.mark.parametrize(
    "left",
    [
        relay.nn.conv2d(var("x", 1, 8, 6, 6), var("w", 8, 8, 1, 1)),
        relay.nn.conv2d(
            var("x", 1, 6, 6, 8), const(1, 1, 8, 8), data_layout="NHWC", kernel_layout="HWIO"
        ),
        relay.nn.conv2d(
            var("x", 1, 4, 6, 6), const(8, 1, 3, 3), groups=4, channels=8, kernel_size=(3, 3)
        ),
    ],
    ids=["weights computed", "another layout", "several channels of each"],
)
def test_convolutions_that_cannot_be_blocked_stay(left: relay.Expr) -> None:
    after, counts, count = packed(left)
    assert count == 0
    assert counts["nn.conv2d"] == 1
    tvm.ir.assert_structural_equal(after, module_of(from_relay(module(left)["main"])))


def test_a_graph_without_convolutions_is_left_alone() -> None:
    _, counts, count = packed(relay.nn.relu(var("x", 1, 8, 6, 6)))
    assert (count, counts) == (0, Counter({"nn.relu": 1}))


@pytest.mark.parametrize(
    ("attributes", "kernel", "block"),
    [({}, 3, 8), ({"strides": (2, 2)}, 3, 1), ({"dilation": (2, 2)}, 3, 1), ({}, 1, 1)],
    ids=["filterable", "strided", "dilated", "pointwise"],
)
def test_an_image_enters_in_chunks_where_minimal_filtering_may_serve(
    attributes: dict[str, tuple[int, int]], kernel: int, block: int
) -> None:
    graph = from_relay(module(conv(var("x", 1, 16, 9, 8), 8, kernel, **attributes))["main"])
    pack_convolutions(graph, Avx())
    (node,) = (node for node in graph.calls() if node.op == BLOCKED[0])
    assert node.operands[0].shape[-1] == block


def sequence_conv(
    data: relay.Expr, outputs: int, kernel: int, seed: int = 1, **attrs: int
) -> relay.Expr:
    """Return a convolution of a sequence, as the front end writes it: of an image of one row."""
    batch, inputs, length = map(int, relay.transform.InferTypeLocal(data).shape)
    groups, dilation = attrs.get("groups", 1), attrs.get("dilation", 1)
    out = relay.nn.conv2d(
        relay.reshape(data, (batch, inputs, 1, length)),
        const(outputs, inputs // groups, 1, kernel, seed=seed),
        channels=outputs,
        kernel_size=(1, kernel),
        strides=(1, attrs.get("stride", 1)),
        padding=(0, attrs.get("before", 0), 0, attrs.get("after", 0)),
        dilation=(1, dilation),
        groups=groups,
    )
    columns = int(relay.transform.InferTypeLocal(out).shape[3])
    biased = relay.nn.bias_add(out, const(outputs, seed=seed + 1))
    return relay.reshape(biased, (batch, outputs, columns))


SEQUENCES = {
    "padded": {"kernel": 3, "before": 1, "after": 1},
    "strided": {"kernel": 3, "stride": 2, "before": 1, "after": 1},
    "dilated, padded on one side": {"kernel": 3, "dilation": 2, "before": 4},
    "in groups": {"kernel": 5, "groups": 2, "before": 2, "after": 2},
    "depthwise": {"kernel": 5, "groups": 16, "stride": 2, "before": 1, "after": 3},
    "as strided as wide": {"kernel": 4, "stride": 4},
    "pointwise": {"kernel": 1},
    "all at once": {"kernel": 3, "stride": 2, "dilation": 3, "groups": 2, "before": 5, "after": 2},
}


@pytest.mark.parametrize("attributes", SEQUENCES.values(), ids=[*SEQUENCES])
def test_sequences_stay_in_the_layout_between_convolutions(attributes: dict[str, int]) -> None:
    x = sequence_conv(var("x", 2, 6, 29), 16, 3, before=1, after=1)
    x = x * relay.sigmoid(x + const(16, 1)) + const(29)
    y = relay.nn.relu(sequence_conv(x, 16, seed=3, **attributes))
    # The ways in and out: two reshapes of the image in, a transform and a reshape out.
    assert_packed([y], 2, reshape=3, layout_transform=1)


def test_a_sequence_that_joins_enters_the_layout() -> None:
    x = sequence_conv(var("x", 2, 6, 9), 16, 1) + var("r", 2, 16, 9) + var("s", 9)
    assert_packed([sequence_conv(x, 8, 1)], 2, reshape=5, layout_transform=2)


@pytest.mark.parametrize("outputs", [67, 64])
def test_the_last_convolution_of_a_sequence_is_known_as_such(outputs: int) -> None:
    x = relay.nn.relu(sequence_conv(var("x", 1, 6, 29), 8, 3))
    counts = packed(relay.transpose(relay.nn.relu(sequence_conv(x, outputs, 1)), (0, 2, 1)))[1]
    assert counts["strided_slice"] == (outputs == 67)
    counts = packed(relay.max(relay.nn.relu(sequence_conv(x, outputs, 1)), axis=[2]))[1]
    assert counts["strided_slice"] == (outputs == 67)
    counts = packed(sequence_conv(relay.nn.relu(sequence_conv(x, outputs, 1)), 8, 1))[1]
    assert counts["strided_slice"] == 0


_ROW = sequence_conv(var("x", 2, 6, 16), 16, 3, before=1, after=1)
AXES_OF_SEQUENCES = {
    "slice": relay.strided_slice(_ROW, [1, 0, 2], [2, 16, 9]),
    "slice of places": relay.strided_slice(_ROW, [1], [9], [2], axes=[2]),
    "concatenation": relay.concatenate([_ROW, relay.nn.relu(_ROW)], axis=2),
    "pad": relay.nn.pad(_ROW, ((0, 0), (0, 0), (1, 2))),
    "repeat": relay.repeat(_ROW, 2, 2),
    "mean of places": relay.mean(_ROW, axis=[2]),
    "mean of channels and places": relay.mean(_ROW, axis=[1, 2]),
    "bias of places": relay.nn.bias_add(_ROW, const(16), axis=2),
    "bias of channels": relay.nn.bias_add(_ROW, const(16)),
    "another image": relay.nn.relu(relay.reshape(_ROW, (2, 16, 4, 4))),
    "an image it becomes a part of": _ROW + var("r", 16, 2, 16, 16),
    "a softmax": relay.nn.softmax(_ROW, axis=-1),
}


@pytest.mark.parametrize("body", AXES_OF_SEQUENCES.values(), ids=[*AXES_OF_SEQUENCES])
def test_axes_of_sequences_are_not_taken_for_those_of_images(body: relay.Expr) -> None:
    after, _, count = packed(relay.nn.relu(body))
    assert count == 1
    assert_same_numbers(after, module(relay.nn.relu(body)), REASSOCIATING)


def test_means_without_extents_of_one_meet_what_is_no_image() -> None:
    x = conv(var("x", 16, 3, 9, 8), 16, 3)
    body = relay.add(relay.mean(x, axis=[2, 3]), var("r", 1, 16, 16))
    after, _, _ = packed(body)
    assert_same_numbers(after, module(body), REASSOCIATING)
