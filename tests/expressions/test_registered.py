"""Relay knows the operators of the room once they are registered, however often that is."""

from __future__ import annotations

import re
from pathlib import Path

import tvm_fusionx.expressions.registered
from tvm_fusionx.expressions.registered import register_expressions

ROOM = Path(tvm_fusionx.expressions.registered.__file__).parent


def test_every_operator_of_the_room_is_registered() -> None:
    text = (ROOM / "registered.py").read_text(encoding="utf-8")
    called = set(re.findall(r"^    (register_\w+)\(\)$", text, flags=re.MULTILINE))
    defined = {
        name
        for path in ROOM.glob("*.py")
        for name in re.findall(r"^def (register_\w+)\(\)", path.read_text(encoding="utf-8"), re.M)
    }
    assert called == defined - {"register_expressions"}


def test_registering_twice_is_no_error() -> None:
    register_expressions()
    register_expressions()
