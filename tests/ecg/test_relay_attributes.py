from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm
from tvm import relay

from tests.relay_modules import const, module, var
from tvm_fusionx.ecg import Attributes
from tvm_fusionx.ecg.relay_attributes import default_attributes, from_attrs, plain, to_attrs

x, image = var("x", 4, 8), var("image", 1, 4, 8, 8)

CALLS: dict[str, Callable[[], relay.Expr]] = {
    "conv2d": lambda: relay.nn.conv2d(image, const(6, 4, 3, 3), padding=(1, 0), groups=1),
    "clip": lambda: relay.clip(x, -0.5, 2.5),
    "cast": lambda: relay.cast(x, "int8"),
    "dense without units": lambda: relay.nn.dense(x, const(3, 8)),
    "pad": lambda: relay.nn.pad(x, ((1, 2), (0, 3)), pad_mode="edge"),
    "split by number": lambda: relay.split(x, 4, axis=1).astuple(),
    "split by places": lambda: relay.split(x, [2, 5], axis=1).astuple(),
    "slice": lambda: relay.strided_slice(x, [0, 6], [4, 1], [1, -2]),
    "slice of axes": lambda: relay.strided_slice(x, [1], [3], axes=[1], slice_mode="size"),
    "squeeze all": lambda: relay.squeeze(var("thin", 1, 4, 1)),
    "sum of axes": lambda: relay.sum(x, axis=[-1], keepdims=True),
    "sum of all": lambda: relay.sum(x),
    "softmax": lambda: relay.nn.softmax(x, axis=-1),
    "resize": lambda: relay.image.resize2d(image, (12, 5), roi=[0.0, 0.0, 1.0, 1.0]),
    "pool": lambda: relay.nn.avg_pool2d(image, pool_size=(3, 2), count_include_pad=True),
    "take": lambda: relay.take(x, relay.const([1, 0], "int64"), axis=1, mode="clip"),
    "layer norm": lambda: relay.nn.layer_norm(x, const(8), const(8), epsilon=1e-6),
    "one_hot": lambda: relay.one_hot(
        relay.const([1, 2]), relay.const(1.0), relay.const(0.0), 5, -1, "float32"
    ),
    "topk": lambda: relay.topk(x, k=3, axis=1).astuple(),
    "full": lambda: relay.full(relay.const(0.5), (3, 2), "float32"),
    "reshape": lambda: relay.reshape(x, (0, -1, 2)),
    "transpose": lambda: relay.transpose(x, [1, 0]),
    "layout": lambda: relay.layout_transform(image, "NCHW", "NCHW4c"),
    "einsum": lambda: relay.einsum([x, x], "ij,kj->ik"),
    "no attributes": lambda: relay.exp(x),
}


@pytest.mark.parametrize("kind", CALLS)
def test_plain_values_make_the_same_attributes_again(kind: str) -> None:
    call = module(CALLS[kind]())["main"].body
    there = from_attrs(call.attrs)
    back = to_attrs(call.op.name, Attributes(dict(there)))
    if call.attrs is None:
        assert back is None
    else:
        tvm.ir.assert_structural_equal(back, call.attrs)


@pytest.mark.parametrize("kind", CALLS)
def test_plain_values_are_hashable_python(kind: str) -> None:
    def check(value: object) -> None:
        assert value is None or isinstance(value, (int, float, str, tuple)), value
        for item in value if isinstance(value, tuple) else ():
            check(item)

    for value in from_attrs(module(CALLS[kind]())["main"].body.attrs).values():
        check(value)
        hash(value)


def test_an_untouched_call_keeps_its_own_object() -> None:
    call = module(relay.clip(x, 0.0, 1.0))["main"].body
    assert to_attrs("clip", from_attrs(call.attrs)).same_as(call.attrs)


def test_a_changed_attribute_reaches_relay() -> None:
    call = module(relay.clip(x, 0.0, 1.0))["main"].body
    assert to_attrs("clip", from_attrs(call.attrs).replace(a_max=6.0)).a_max == 6.0


def test_a_dictionary_of_attributes_is_read() -> None:
    attrs = tvm.ir.make_node("DictAttrs", Compiler="dnnl", width=3)
    assert dict(from_attrs(attrs)) == {"Compiler": "dnnl", "width": 3}


def test_maps_and_nested_arrays_become_tuples() -> None:
    value = tvm.runtime.convert({"b": [1, 2], "a": "text"})
    assert plain(value) == (("a", "text"), ("b", (1, 2)))


def test_defaults_are_tvms_own() -> None:
    attrs = default_attributes("nn.softmax")
    assert dict(attrs) == {"axis": -1}
    assert attrs.origin is None
    assert default_attributes("nn.softmax", axis=2)["axis"] == 2


def test_the_attributes_of_packed_dense_are_those_that_its_computation_reads() -> None:
    attrs = default_attributes("nn.contrib_dense_pack", units=None, weight_layout="NK8n")
    assert to_attrs("nn.contrib_dense_pack", attrs).weight_layout == "NK8n"
