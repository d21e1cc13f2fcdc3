from __future__ import annotations

import shutil
from typing import Any

import jinja2
import pytest
import tvm
from tvm import te

from tvm_fusionx.bundle.objects import _code, filled
from tvm_fusionx.errors import TargetError


def test_a_template_without_a_field_is_an_error() -> None:
    fields: dict[str, Any] = {"symbol": "net_sources", "path": "a.cl", "alignment": 64}
    assert '.incbin "a.cl"' in filled("bytes.s", fields)
    with pytest.raises(jinja2.UndefinedError, match="path"):
        filled("bytes.s", {**fields, "path": jinja2.StrictUndefined(name="path")})


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_code_that_is_not_llvms_is_refused() -> None:
    x = te.placeholder((4,), "float32", "x")
    y = te.compute((4,), lambda i: x[i] + 1)
    module = tvm.build(te.create_prim_func([x, y]), target="c")
    with pytest.raises(TargetError, match="found a module of kind 'c'"):
        _code(module)
    assert [each.type_key for each in _code(tvm.build(te.create_prim_func([x, y]), "llvm"))] == [
        "llvm"
    ]
