from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_fusionx.report.explain.layered_drawing import folded, layered_positions


def test_a_chain_runs_straight_down() -> None:
    assert layered_positions(3, [(0, 1), (1, 2)]) == [(0, 0), (0, 1), (0, 2)]


def test_a_diamond_is_centred() -> None:
    places = layered_positions(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert places == [(0, 0), (-0.5, 1), (0.5, 1), (0, 2)]


def test_a_cycle_is_an_error() -> None:
    with pytest.raises(ValueError, match="a cycle through 2 of 3 nodes"):
        layered_positions(3, [(0, 1), (1, 2), (2, 1)])


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 29), st.integers(0, 29)).filter(lambda pair: pair[0] < pair[1]),
        max_size=60,
    )
)
def test_consumers_stand_below_producers_and_no_two_nodes_meet(
    links: list[tuple[int, int]],
) -> None:
    places = layered_positions(30, links)
    assert all(places[producer][1] < places[consumer][1] for producer, consumer in links)
    assert len(set(places)) == 30
    assert len(set(folded(places, rows_per_column=3.0))) == 30


def test_a_deep_drawing_is_folded_to_the_windows_proportions() -> None:
    chain = layered_positions(2600, [(node, node + 1) for node in range(2599)])
    places = folded(chain, rows_per_column=3.0)
    height = 1 + max(row for _, row in places)
    width = 1 + max(column for column, _ in places)
    assert height < 2 * width * 3.0
    assert width * 3.0 < 2 * height


def test_a_wide_drawing_stays_as_it_is() -> None:
    places = folded(layered_positions(3, [(0, 1), (0, 2)]), rows_per_column=3.0)
    assert [row for _, row in places] == [0, 1, 1]


def test_nothing_is_drawn_of_nothing() -> None:
    assert folded(layered_positions(0, []), rows_per_column=3.0) == []
