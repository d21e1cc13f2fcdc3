from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay, tir
from tvm._ffi._ctypes import packed_func
from tvm.ir.container import Array
from tvm.runtime import Object

from tvm_fusionx._tvm import quick_calls as module
from tvm_fusionx._tvm.quick_calls import quick_calls


@pytest.fixture
def outside() -> Iterator[None]:
    """TVM as it is outside of all scopes, one of which the whole test session is."""
    before, module._open_scopes = module._open_scopes, 0
    if before:
        module._swap()
    yield
    if before:
        module._swap()
    module._open_scopes = before


def _sum() -> Any:
    x = tir.Var("x", "int32")
    return (x + 3) * x


def _module() -> Any:
    x = relay.var("x", shape=(2, 3), dtype="float16")
    body = relay.nn.pad(relay.reshape(x, [3, 2]), ((0, 1), (2, 0)), pad_value=1.5)
    return tvm.IRModule.from_expr(relay.Function([x], body))


ANSWERS: dict[str, Callable[[], Any]] = {
    "object": lambda: str(_sum().a.b),
    "class of an object": lambda: type(_sum().a).__name__,
    "string": lambda: _sum().dtype,
    "string that is an object": lambda: (_sum().b.name, type(_sum().b.name).__name__),
    "integer": lambda: _sum().a.b.value,
    "number with a point": lambda: tir.FloatImm("float32", 0.25).value,
    "truth value": lambda: tir.Call("int32", "tir.likely", [True]).args[0].value,
    "nothing": lambda: _sum().a.span,
    "negative": lambda: tir.IntImm("int64", -(2**63)).value,
    "whole numbers of numpy": lambda: tir.IntImm("int32", np.int64(7)).value,
    "length": lambda: len(_module()["main"].body.attrs.pad_width),
    "elements": lambda: [list(map(int, row)) for row in _module()["main"].body.attrs.pad_width],
    "last element": lambda: int(tvm.runtime.convert([1, 2, 5])[-1]),
    "slice": lambda: [int(each) for each in tvm.runtime.convert([1, 2, 5, 7])[1:3]],
    "an array within": lambda: 5 in [int(each) for each in tvm.runtime.convert((1, 5))],
    "text beyond ASCII": lambda: tir.Var("größe", "int32").name,
    "many operands": lambda: tvm.get_global_func("testing.echo")(tuple(range(40)))[39],
    "a function": lambda: tvm.runtime.convert(lambda a, b: a + b)(2, 3),
    "a function given objects": lambda: str(tvm.runtime.convert(lambda a: a.a)(_sum())),
    "numbers of an array": lambda: tvm.nd.array(np.arange(4.0)).numpy().tolist(),
    "types": lambda: str(relay.transform.InferType()(_module())["main"].ret_type),
    "a pass in Python": lambda: str(tir.stmt_functor.substitute(_sum(), {})),
}


@pytest.mark.parametrize("asked", ANSWERS)
def test_answers_are_those_of_tvm(outside: None, asked: str) -> None:
    expected = ANSWERS[asked]()
    with quick_calls():
        assert packed_func.PackedFuncBase.__call__ is vars(module._Function)["__call__"]
        assert ANSWERS[asked]() == expected


FAULTS: dict[str, Callable[[], Any]] = {
    "no such attribute": lambda: _sum().nothing_of_the_kind,
    "no such element": lambda: tvm.runtime.convert([1, 2])[2],
    "no such element from the end": lambda: tvm.runtime.convert([1, 2])[-3],
    "refused operands": lambda: tir.Add(tir.Var("x", "int32"), tir.Var("y", "float32")),
    "an operand of no kind": lambda: tir.Var("x", object()),
    "an error in a callback": lambda: tvm.runtime.convert(lambda: {}["lost"])(),
    "an object without a place": lambda: Object.__new__(Object).handle,
}


@pytest.mark.parametrize("asked", FAULTS)
def test_errors_are_those_of_tvm(outside: None, asked: str) -> None:
    with pytest.raises((AttributeError, IndexError, KeyError, TypeError, tvm.TVMError)) as expected:
        FAULTS[asked]()
    with quick_calls(), pytest.raises(type(expected.value)) as found:
        FAULTS[asked]()
    assert type(found.value) is type(expected.value)
    last = str(expected.value).splitlines()[-1]
    assert str(found.value).splitlines()[-1] == last


def test_nothing_stays_when_the_last_scope_ends(outside: None) -> None:
    before = packed_func._make_tvm_args, Object.__getattr__, vars(Array).get("__iter__")
    with quick_calls():
        with quick_calls():
            pass
        assert Object.__getattr__ is not before[1]
    assert before == (packed_func._make_tvm_args, Object.__getattr__, vars(Array).get("__iter__"))
    assert "__iter__" not in vars(Array)


def test_scopes_of_threads_overlap(outside: None) -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with quick_calls():
            inside.set()
            leave.wait(30)

    original = Object.__getattr__
    thread = threading.Thread(target=work)
    with quick_calls():
        thread.start()
        assert inside.wait(30)
    assert Object.__getattr__ is not original
    leave.set()
    thread.join()
    assert Object.__getattr__ is original


def test_a_compiled_bridge_is_left_alone() -> None:
    assert module.exchanged(Object)
    assert module.exchanged(object) == []


def test_objects_are_let_go() -> None:
    freed: list[bool] = []
    with quick_calls():
        token = threading.Thread()
        weakref.finalize(token, freed.append, True)
        holder = tvm.runtime.convert({"kept": tvm.runtime.convert(lambda held=token: held)})
        del token
        gc.collect()
        assert freed == []
        del holder
        gc.collect()
    assert freed == [True]
