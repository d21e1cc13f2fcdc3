"""Relay attribute objects to plain Python values and back."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.ecg.graph import NO_ATTRIBUTES, Attributes

# Function-valued calls keep their Relay operator as the node's payload; the name says so.
FUNCTION = "function"


def plain(value: Any) -> Any:
    """Return the plain, hashable form of one Relay attribute value."""
    if isinstance(value, (tvm.tir.IntImm, tvm.tir.FloatImm)):
        return value.value
    if isinstance(value, (tvm.ir.Array, list, tuple)):
        return tuple(plain(item) for item in value)
    if isinstance(value, tvm.ir.Map):
        return tuple(sorted((str(key), plain(item)) for key, item in value.items()))
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tvm.tir.StringImm):
        return value.value
    return value


def from_attrs(attrs: Any) -> Attributes:
    """Return a call's attributes as a frozen mapping that remembers where it came from."""
    if attrs is None:
        return NO_ATTRIBUTES
    if isinstance(attrs, tvm.ir.DictAttrs):
        return Attributes({str(key): plain(attrs[key]) for key in attrs.keys()}, origin=attrs)  # noqa: SIM118
    return Attributes({str(key): plain(attrs[key]) for key in attrs.keys()}, origin=attrs)  # noqa: SIM118


# TVM registers this operator with the attributes of another, which lack one field.
_CORRECTED_TYPE_KEYS = {"nn.contrib_dense_pack": "relay.attrs.DensePackAttrs"}


def _type_key(op: str) -> str:
    return _CORRECTED_TYPE_KEYS.get(op) or str(relay.op.get(op).attrs_type_key)


def to_attrs(op: str, attrs: Attributes) -> Any:
    """Return the Relay attribute object of a call to `op`."""
    if attrs.origin is not None:
        return attrs.origin
    type_key = _type_key(op)
    if not type_key:
        return None
    return tvm.ir.make_node(type_key, **{name: _tvm_value(value) for name, value in attrs.items()})


def _tvm_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_tvm_value(item) for item in value]
    return value


# Rules write the same few attributes again and again; Relay takes a millisecond for each.
_REMEMBERED_ATTRIBUTES = 4096


def default_attributes(op: str, **changes: Any) -> Attributes:
    """Return the attributes of `op` with TVM's defaults, and `changes` made to them."""
    return _default_attributes(op, tuple((name, plain(value)) for name, value in changes.items()))


@functools.lru_cache(maxsize=_REMEMBERED_ATTRIBUTES)
def _default_attributes(op: str, changes: tuple[tuple[str, Any], ...]) -> Attributes:
    made: Mapping[str, Any] = from_attrs(tvm.ir.make_node(_type_key(op), **dict(changes)))
    return Attributes(made)
