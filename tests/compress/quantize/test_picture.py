from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from typing import Any

from tvm_fusionx.compress.quantize.picture import CHOSEN, LIMIT, trade_off_picture

SVG = "{http://www.w3.org/2000/svg}"
TRIALS = [(1, 0.002), (2, 0.02), (3, 0.5)]


def _drawn(*arguments: Any) -> ElementTree.Element:
    return ElementTree.fromstring(trade_off_picture(*arguments, "a <model>"))


def _dots(root: ElementTree.Element) -> list[dict[str, str]]:
    return [each.attrib for each in root.iter(f"{SVG}circle")]


def test_every_trial_is_a_dot_and_what_costs_too_much_lies_above_the_bound() -> None:
    root = _drawn(TRIALS, (1, 0.002), 3, 0.01)
    first, second, third, chosen = _dots(root)
    assert float(first["cx"]) < float(chosen["cx"]) < float(second["cx"]) < float(third["cx"])
    (limit,) = [each.attrib for each in root.iter(f"{SVG}line") if each.attrib["stroke"] == LIMIT]
    heights = [float(each) for each in (third["cy"], second["cy"], limit["y1"], chosen["cy"])]
    assert heights == sorted(set(heights))
    assert (chosen["fill"], third["fill"]) == (CHOSEN, "white")
    titles = [each.text for each in root.iter(f"{SVG}title")]
    assert "3 of 3 layers in integers: costs 0.5" in titles


def test_without_a_bound_all_is_drawn() -> None:
    root = _drawn(TRIALS, (3, 0.5), 3, math.inf)
    assert all(each["fill"] != "white" for each in _dots(root))
    assert all(each.attrib["stroke"] != LIMIT for each in root.iter(f"{SVG}line"))


def test_a_model_that_costs_nothing_can_be_drawn() -> None:
    assert len(_dots(_drawn([], (0, 0.0), 0, math.inf))) == 1
    # A metric may rise.
    assert len(_dots(_drawn([(1, -0.01)], (1, -0.01), 1, 0.0))) == 2
