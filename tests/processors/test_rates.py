"""One row a core, every number with its source; what a row does not tell it inherits."""

from __future__ import annotations

from dataclasses import fields

import pytest
import tvm
from tvm.target import codegen

from tvm_fusionx.fusion.device_costs import DEFAULT_COSTS
from tvm_fusionx.processors import rates
from tvm_fusionx.processors.rates import (
    DEFAULT,
    LIKE,
    Rates,
    calibrated,
    core_names,
    facts_of,
    meanings,
    rates_of,
    read_file,
    vector_sets,
)

NUMBERS = {each.name for each in fields(Rates)}


def test_every_number_has_a_meaning() -> None:
    assert meanings().keys() == NUMBERS


def test_the_default_tells_every_number() -> None:
    assert read_file()[DEFAULT].keys() == NUMBERS
    assert facts_of("no-such-core") == facts_of(DEFAULT)


@pytest.mark.parametrize("core", core_names())
def test_a_row_tells_known_numbers_with_sources(core: str) -> None:
    row = read_file()["cores"][core]
    assert row.keys() <= NUMBERS | {LIKE}
    assert row.get(LIKE, DEFAULT) in {*core_names(), DEFAULT}
    for name, fact in facts_of(core).items():
        assert isinstance(fact.value, bool) == (name == "exchanges_slowly")
        assert isinstance(fact.value, (int, float))
        assert fact.source
        assert fact.row in {*core_names(), DEFAULT}
    positive = NUMBERS - {"exchanges_slowly", "scalable_bits"}
    assert all(getattr(rates_of(core), name) > 0 for name in positive)


def test_no_source_is_without_a_number() -> None:
    rows = [read_file()[DEFAULT], *read_file()["cores"].values()]
    used = {told[1] for row in rows for name, told in row.items() if name != LIKE}
    assert used == read_file()["sources"].keys()


def test_what_a_row_does_not_tell_comes_from_the_row_it_is_like(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = {
        **read_file(),
        "cores": {
            "new": {"like": "old", "l1_kib": [48, "a"]},
            "old": {"l1_kib": [64, "a"], "l2_kib": [512, "b"]},
        },
        "sources": {**read_file()["sources"], "a": "a guide", "b": "a manual"},
    }
    monkeypatch.setattr(rates, "read_file", lambda: told)
    facts_of.cache_clear()
    try:
        facts = facts_of("new")
    finally:
        facts_of.cache_clear()
    assert (facts["l1_kib"].value, facts["l1_kib"].row) == (48, "new")
    assert (facts["l2_kib"].value, facts["l2_kib"].row) == (512, "old")
    assert facts["l2_kib"].source == "a manual"
    assert facts["loads_a_cycle"].row == DEFAULT


def test_llvm_knows_every_core_and_feature() -> None:
    known: set[str] = set()
    features: set[str] = {""}
    for triple in ("x86_64-linux-gnu", "aarch64-linux-gnu"):
        target = tvm.target.Target(f"llvm -mtriple={triple}")
        known.update(map(str, codegen.llvm_get_cpu_archlist(target)))
        everything = ",".join(f"+{each.feature}" for each in vector_sets() if each.feature)
        target = tvm.target.Target(f"llvm -mtriple={triple} -mattr={everything}")
        features.update(map(str, codegen.llvm_get_cpu_features(target)))
    assert set(core_names()) <= known
    assert {each.feature for each in vector_sets()} <= features


def test_the_widest_vectors_come_first() -> None:
    x86 = [each.bits for each in vector_sets() if each.feature != "neon"]
    assert x86 == sorted(x86, reverse=True)
    assert vector_sets()[-1].feature == ""


def test_plans_are_made_with_what_was_calibrated() -> None:
    assert DEFAULT_COSTS.products_per_us == calibrated()["products_per_us"]
    assert DEFAULT_COSTS.launch_us == rates_of(DEFAULT).wake_up_us


def test_rows_of_arm_cores_tell_their_units() -> None:
    little, server = rates_of("cortex-a55"), rates_of("neoverse-v1")
    # One multiply-add of 128 bits a cycle, and half a load.
    assert little.multiply_add_units * little.multiply_add_bits == 128
    assert little.loads_a_cycle == 0.5
    assert server.multiply_add_units * server.multiply_add_bits == 512
    assert server.scalable_bits == 256
    assert facts_of("cortex-x1")["l2_bytes_a_cycle"].row == "cortex-a76"
