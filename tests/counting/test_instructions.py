from __future__ import annotations

import pytest

from tvm_fusionx.counting.instructions import (
    BRANCH,
    LOAD,
    MOVE,
    MULTIPLY_ADD,
    OTHER,
    STORE,
    VECTOR,
    Instruction,
    classify,
)


@pytest.mark.parametrize(
    ("text", "products"),
    [
        ("fmla v0.4s, v1.4s, v2.s[1]", 4),
        ("fmls v0.2d, v1.2d, v2.2d", 2),
        ("fmla v0.8h, v1.8h, v2.h[7]", 8),
        ("fmlal v0.4s, v1.4h, v2.h[3]", 4),
        ("fmadd s0, s1, s2, s3", 1),
        ("sdot v0.4s, v1.16b, v2.4b[1]", 16),
        ("smmla v0.4s, v1.16b, v2.16b", 32),
        ("bfmmla v0.4s, v1.8h, v2.8h", 16),
        ("smlal2 v0.4s, v1.8h, v2.8h", 4),
        ("fmla z0.s, p0/m, z1.s, z2.s", 4),
    ],
)
def test_multiply_adds_and_their_products(text: str, products: int) -> None:
    assert classify(text) == Instruction(MULTIPLY_ADD, products=products)


def test_a_scalable_vector_is_as_wide_as_it_is_told() -> None:
    assert classify("fmla z0.s, p0/m, z1.s, z2.s", 32).products == 8
    assert classify("ld1w { z0.s }, p0/z, [x0]", 32).loaded == 32


@pytest.mark.parametrize(
    ("text", "loaded", "base"),
    [
        ("ldr q0, [x20, #1536]", 16, "x20"),
        ("ldp q0, q1, [sp, #-32]!", 32, "sp"),
        ("ldp x29, x30, [sp], #16", 16, "sp"),
        ("ldur s0, [x21, #-16]", 4, "x21"),
        ("ldrb w0, [x1]", 1, "x1"),
        ("ldursh x0, [x1, #2]", 2, "x1"),
        ("ldrsw x0, [x1, x2, lsl #2]", 4, "x1"),
        ("ldpsw x0, x1, [x2]", 8, "x2"),
        ("ldar w0, [x1]", 4, "x1"),
        ("ldaxrb w0, [x1]", 1, "x1"),
        ("ld1r { v1.4s }, [x23], #4", 4, "x23"),
        ("ld1 { v0.4s, v1.4s }, [x0], #32", 32, "x0"),
        ("ld1 { v0.16b - v3.16b }, [x0]", 64, "x0"),
        ("ld1 { v0.s }[2], [x0]", 4, "x0"),
        ("ld4 { v0.4h, v1.4h, v2.4h, v3.4h }, [x0]", 32, "x0"),
        ("ld2r { v0.2d, v1.2d }, [x0]", 16, "x0"),
        ("ldp w0, wzr, [x1]", 8, "x1"),
    ],
)
def test_loads_and_their_bytes(text: str, loaded: int, base: str) -> None:
    assert classify(text) == Instruction(LOAD, loaded=loaded, base=base)


@pytest.mark.parametrize(
    ("text", "stored", "base"),
    [
        ("str q3, [sp, #160]", 16, "sp"),
        ("stp q10, q2, [sp, #144]", 32, "sp"),
        ("strh w0, [x1], #2", 2, "x1"),
        ("stlr x0, [x1]", 8, "x1"),
        ("stxr w2, x0, [x1]", 8, "x1"),
        ("st1 { v0.4s, v1.4s, v2.4s }, [x0]", 48, "x0"),
        ("str wzr, [x8, #4]", 4, "x8"),
        ("stp xzr, x0, [x8]", 16, "x8"),
        ("strb wzr, [x8]", 1, "x8"),
    ],
)
def test_stores_and_their_bytes(text: str, stored: int, base: str) -> None:
    assert classify(text) == Instruction(STORE, stored=stored, base=base)


def test_an_atomic_loads_and_stores() -> None:
    expected = Instruction(LOAD, loaded=4, stored=4, base="x2")
    assert classify("ldaddal w0, w1, [x2]") == expected
    assert classify("swp w0, w1, [x2]") == expected
    assert classify("stadd w0, [x2]") == expected
    assert classify("casal w0, wzr, [x2]") == expected
    assert classify("ldaddalb w0, w1, [x2]").stored == 1
    assert classify("caspal x0, x1, x2, x3, [x4]").stored == 16


@pytest.mark.parametrize(
    ("text", "loaded", "stored"),
    [
        ("ld1b { z0.s }, p0/z, [x0]", 8, 0),
        ("ld1sh { z0.d }, p0/z, [x0]", 8, 0),
        ("ldff1w { z0.s }, p0/z, [x0]", 32, 0),
        ("ld2w { z0.s, z1.s }, p0/z, [x0]", 64, 0),
        ("ld1rw { z0.s }, p0/z, [x0]", 4, 0),
        ("ld1rb { z0.s }, p0/z, [x0]", 1, 0),
        ("ld1rqw { z0.s }, p0/z, [x0]", 16, 0),
        ("ldr z0, [x0]", 32, 0),
        ("st1h { z0.s }, p0, [x0]", 0, 16),
        ("stnt1b { z0.b }, p0, [x0]", 0, 32),
    ],
)
def test_scalable_vectors_move_as_many_bytes_as_their_name_says(
    text: str, loaded: int, stored: int
) -> None:
    found = classify(text, 32)
    assert (found.loaded, found.stored) == (loaded, stored)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("mov v12.16b, v9.16b", MOVE),
        ("movi v0.2d, #0", MOVE),
        ("dup v0.4s, w1", MOVE),
        ("zip1 v0.4s, v1.4s, v2.4s", MOVE),
        ("ext v0.16b, v1.16b, v2.16b, #4", MOVE),
        ("fmov s0, w1", MOVE),
        ("umov w0, v1.s[1]", MOVE),
        ("mov x23, x21", OTHER),
        ("madd x0, x1, x2, x3", OTHER),
        ("prfm pldl1keep, [x0]", OTHER),
        ("add x0, x1, #0x10", OTHER),
        ("fadd v0.4s, v1.4s, v2.4s", VECTOR),
        ("fmul v0.4s, v1.4s, v2.s[0]", VECTOR),
        ("scvtf s0, w1", VECTOR),
        ("b.ne 0x1234", BRANCH),
        ("cbnz x0, 0x1234", BRANCH),
        ("tbz w0, #3, 0x1234", BRANCH),
        ("blr x8", BRANCH),
        ("ret", BRANCH),
        ("udf", OTHER),
    ],
)
def test_the_other_kinds(text: str, kind: str) -> None:
    assert classify(text).kind == kind
