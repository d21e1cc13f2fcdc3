from __future__ import annotations

import itertools

import pytest

from tvm_fusionx.fusion.mapping import COMPLEXITY, TABLE, Verdict, combine, most_complex
from tvm_fusionx.operators import MappingType

PAPERS = [type_ for type_ in MappingType if type_ is not MappingType.OPAQUE]


def _cells(verdict: Verdict) -> set[tuple[MappingType, MappingType]]:
    return {pair for pair, (colour, _) in TABLE.items() if colour is verdict}


def test_every_pair_has_a_cell() -> None:
    assert TABLE.keys() == set(itertools.product(PAPERS, repeat=2))


def test_colours_are_as_many_as_in_the_paper() -> None:
    counts = {verdict: len(_cells(verdict)) for verdict in Verdict}
    assert counts == {Verdict.FUSE: 13, Verdict.DEPENDS: 10, Verdict.BREAK: 2}


def test_red_is_what_multiplies_work() -> None:
    many, all_ = MappingType.ONE_TO_MANY, MappingType.MANY_TO_MANY
    assert _cells(Verdict.BREAK) == {(many, all_), (all_, all_)}


def test_a_one_to_one_operator_fuses_with_everything_and_takes_its_type() -> None:
    one = MappingType.ONE_TO_ONE
    for type_ in PAPERS:
        assert combine(one, type_) == (Verdict.FUSE, type_)
        assert combine(type_, one) == (Verdict.FUSE, type_)


@pytest.mark.parametrize("pair", TABLE, ids=lambda pair: f"{pair[0].value} {pair[1].value}")
def test_two_together_are_no_simpler_than_either_but_for_moved_data(
    pair: tuple[MappingType, MappingType],
) -> None:
    _, result = TABLE[pair]
    # Reorganize and Shuffle together are Reorganize in the paper.
    if set(pair) != {MappingType.REORGANIZE, MappingType.SHUFFLE}:
        assert result is most_complex(*pair)
    else:
        assert result is MappingType.REORGANIZE


@pytest.mark.parametrize("type_", list(MappingType))
def test_what_is_opaque_stays_alone(type_: MappingType) -> None:
    expected = (Verdict.BREAK, MappingType.OPAQUE)
    assert combine(type_, MappingType.OPAQUE) == expected
    assert combine(MappingType.OPAQUE, type_) == expected


def test_complexity_orders_every_type_once() -> None:
    assert sorted(COMPLEXITY, key=str) == sorted(MappingType, key=str)
    assert most_complex(*MappingType) is MappingType.OPAQUE
