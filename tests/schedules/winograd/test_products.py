"""Every product has a place of its own."""

from __future__ import annotations

import itertools

import pytest

from tvm_fusionx.schedules.winograd.products import Products


@pytest.mark.parametrize("are_summed_in_parts", [True, False])
def test_places_do_not_overlap(are_summed_in_parts: bool) -> None:
    made = Products(16, 5, 2, 8, 3, are_summed_in_parts)
    panels = range(made.panels) if are_summed_in_parts else range(1)
    axes = (panels, range(made.chunks), range(made.tiles), range(made.points))
    places = [made.at(*place) for place in itertools.product(*axes)]
    assert len(set(places)) == len(places)
    assert all(place % made.lanes == 0 for place in places)
    assert max(places) + made.lanes <= made.size


def test_a_register_tile_is_written_in_order_where_it_is_read_again() -> None:
    made = Products(16, 5, 2, 8, 3, True)
    tiles = [made.at(1, chunk, tile, 4) for tile in (2, 3) for chunk in (0, 1)]
    assert [place - tiles[0] for place in tiles] == [0, 8, 16, 24]
