from __future__ import annotations

from typing import Any

from tvm import tir
from tvm.script import tir as T  # noqa: N812

from tests.late_passes.packed import packed
from tvm_fusionx.late_passes.kernel_accesses import Accesses, Condition, Let, Loop, accesses_of


@T.prim_func
def mixed(
    a: T.Buffer((8,), "float32"),
    b: T.Buffer((8,), "float32"),
    c: T.Buffer((8,), "float32"),
    out: T.Buffer((8,), "float32"),
    other: T.Buffer((8,), "float32"),
) -> None:
    for i in range(8):
        if i < 6:
            out[i] = a[i] * T.exp(a[i]) + b[i]
        other[i] = b[7 - i] + c[T.Cast("int32", c[i])]


def _of(func: Any) -> Accesses:
    found = accesses_of(packed(func))
    assert found is not None
    return found


def test_stores_are_known_with_what_stands_around_them() -> None:
    found = _of(mixed)
    assert {number: len(stores) for number, stores in found.stores.items()} == {3: 1, 4: 1}
    assert dict(found.readers) == {0: {3}, 1: {3, 4}, 2: {4}}
    # An index that is read: no lane of the stored value is computed from it.
    assert found.read_elsewhere == {2}
    assert found.exposed == set()
    (store,) = found.stores[3]
    around = [step for step in store.around if not isinstance(step, Let)]
    assert isinstance(around[-2], Loop)
    assert isinstance(around[-1], Condition)
    assert around[-1].holds
    assert sorted(number for number, _ in store.loads) == [0, 0, 1]


def test_an_address_is_exposed() -> None:
    @T.prim_func
    def handed_out(a: T.Buffer((8,), "float32"), out: T.Buffer((8,), "float32")) -> None:
        T.evaluate(T.call_extern("int32", "touch", T.address_of(out[0])))
        for i in range(8):
            out[i] = a[i]

    assert _of(handed_out).exposed == {1}


def test_what_mixes_lanes_reads_elsewhere() -> None:
    load = tir.BufferLoad(tir.decl_buffer((8,), "float32", "a"), [tir.Ramp(0, 1, 4)])
    lane = tir.Var("lane", "float32x4")
    turned = tir.Shuffle([lane], [3, 2, 1, 0])
    for value in (tir.Shuffle([load], [3, 2, 1, 0]), tir.Let(lane, load, turned)):
        assert _of(_stored(load.buffer, value)).read_elsewhere == {0}, value
    assert _of(_stored(load.buffer, load + load)).read_elsewhere == set()
    by_lane = tir.Let(lane, load, lane * lane)
    assert _of(_stored(load.buffer, by_lane)).read_elsewhere == set()


def test_a_loop_without_end_is_not_looked_into() -> None:
    condition = tir.Var("goes_on", "bool")
    forever = tir.While(condition, tir.Evaluate(0))
    assert accesses_of(tir.PrimFunc([condition], forever)) is None


def _stored(source: Any, value: Any) -> Any:
    out = tir.decl_buffer((8,), "float32", "out")
    params = [tir.Var("p0", "handle"), tir.Var("p1", "handle")]
    store = tir.BufferStore(out, value, [tir.Ramp(0, 1, 4)])
    return tir.PrimFunc(params, store, buffer_map=dict(zip(params, (source, out), strict=True)))
