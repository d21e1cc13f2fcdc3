from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest
import tvm
from tvm.script import ir as I  # noqa: N812
from tvm.script import tir as T  # noqa: N812
from tvm.script.parser.tir import entry

from tvm_fusionx._tvm import script_parsing
from tvm_fusionx._tvm.script_parsing import (
    FRAME_READ,
    TENSOR_INTRINSICS,
    import_tensor_intrinsics,
    short_stacks,
)


def _frames() -> tuple[Any, Any]:
    """Return the frame that is read, by us and by Python."""
    return script_parsing._Inspect.stack()[FRAME_READ], inspect.stack()[FRAME_READ]


def _called() -> tuple[Any, Any]:
    return _frames()


def test_the_frame_is_what_python_says() -> None:
    ours, pythons = _called()
    assert (ours.lineno, ours.code_context) == (pythons.lineno, pythons.code_context)
    assert ours.code_context == ["    ours, pythons = _called()\n"]


def test_a_frame_without_a_source_has_no_line() -> None:
    scope: dict[str, Any] = {"_called": _called}
    exec("found = _called()", scope)
    ours, pythons = scope["found"]
    assert ours.code_context is None
    assert pythons.code_context is None


def test_the_scope_is_undone_by_whoever_leaves_it_last(monkeypatch: pytest.MonkeyPatch) -> None:
    # Apart from the scope that the tests themselves run in.
    monkeypatch.setattr(script_parsing, "_depth", 0)
    monkeypatch.setattr(entry, "inspect", inspect)
    with short_stacks():
        with short_stacks():
            pass
        assert entry.inspect is not inspect
    assert entry.inspect is inspect


def test_functions_and_modules_are_parsed_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def parsed() -> tuple[Any, Any]:
        @T.prim_func
        def alone(x: T.Buffer((4,), "float32")) -> None:
            for i in range(4):
                x[i] = 2.0

        @I.ir_module
        class Module:
            @T.prim_func
            def main(x: T.Buffer((4,), "float32")) -> None:  # noqa: N805
                for i in range(4):
                    x[i] = 3.0

        return alone, Module

    with short_stacks():
        short = parsed()
    monkeypatch.setattr(entry, "inspect", inspect)
    whole = parsed()
    assert isinstance(short[1], tvm.IRModule)
    assert [each.name_hint for each in short[1].get_global_vars()] == ["main"]
    for found, expected in zip(short, whole, strict=True):
        tvm.ir.assert_structural_equal(found, expected)


def test_intrinsics_are_imported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, bool]] = []

    def look(name: str) -> None:
        seen.append((name, entry.inspect is not inspect))
        sys.modules[name] = sys

    monkeypatch.setattr(script_parsing.importlib, "import_module", look)
    monkeypatch.delitem(sys.modules, TENSOR_INTRINSICS, raising=False)
    import_tensor_intrinsics()
    import_tensor_intrinsics()
    assert seen == [(TENSOR_INTRINSICS, True)]
    del sys.modules[TENSOR_INTRINSICS]
