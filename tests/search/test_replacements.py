"""Operations that the device dislikes: what is asked, what is replaced, and what is kept of it."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.search.small_spaces import CNNS, cnns, transformers
from tvm_fusionx.errors import RecordError, SpaceError
from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.search.clocks import HostClock
from tvm_fusionx.search.latency import LatencyEstimator
from tvm_fusionx.search.networks import layers_of
from tvm_fusionx.search.replacements import (
    FILE,
    SUBSTITUTES,
    replace_disliked,
    settle_operations,
    space_with,
    with_activation,
)
from tvm_fusionx.search.space_file import ACTIVATION, ACTIVATIONS, parse_space


class _Device:
    """Takes for a network what its activation is given here."""

    def __init__(self, times: Mapping[str, float]) -> None:
        self.times, self.asked = dict(times), 0
        self.clock = type("Clock", (), {"setting": type("Setting", (), {"device": "a phone"})})

    def latency_of(self, candidate: Mapping[str, Any]) -> Any:
        self.asked += 1
        return type("Latency", (), {"microseconds": self.times[candidate["fixed"][ACTIVATION]]})


def _ask(times: Mapping[str, float]) -> tuple[Any, Any, Any]:
    device: Any = _Device(times)
    drawn = [transformers().sample(random.Random(seed)) for seed in range(2)]
    return (*replace_disliked(transformers(), device, drawn), device)


@pytest.mark.parametrize(
    ("times", "chosen"),
    [
        ((10.0, 9.0, 8.0), "hard_swish"),
        # What is further away must be faster than what is closer, beyond chance.
        ((10.0, 8.0, 7.95), "gelu_tanh"),
        ((10.0, 9.95, 9.93), "gelu"),
        ((10.0, float("inf"), 11.0), "gelu"),
        ((float("inf"), 9.0, 9.0), "gelu_tanh"),
    ],
)
def test_the_closest_that_pays_is_taken(times: tuple[float, ...], chosen: str) -> None:
    space, found, _ = _ask(dict(zip(("gelu", "gelu_tanh", "hard_swish"), times, strict=True)))
    assert found.chosen == chosen
    assert space.fixed.get(ACTIVATION, "gelu") == chosen
    assert (space.digest() == transformers().digest()) == (chosen == "gelu")
    assert "2 networks take" in found.reason
    assert "a phone" in found.reason
    assert ("stays" in found.reason) == (chosen == "gelu")


def test_what_has_no_substitute_is_not_asked_about() -> None:
    device: Any = _Device({})
    space, found = replace_disliked(cnns(), device, [cnns().sample(random.Random(0))])
    assert space is not None
    assert space.digest() == cnns().digest()
    assert device.asked == 0
    assert found.reason == "relu stays: nothing else has nearly its curve."


def test_a_search_that_goes_on_keeps_what_it_began_with(tmp_path: Path) -> None:
    times = {"gelu": 10.0, "gelu_tanh": 9.0, "hard_swish": 8.0}
    device: Any = _Device(times)
    drawn = [transformers().sample(random.Random(0))]
    first = settle_operations(transformers(), device, drawn, tmp_path)
    device.times = dict.fromkeys(times, 1.0)
    again = settle_operations(transformers(), device, drawn, tmp_path)
    assert again[0].digest() == first[0].digest()
    assert again[1] == first[1]
    assert "gelu gives way to hard_swish" in first[1][0]
    with pytest.raises(RecordError, match="those of a space with relu"):
        settle_operations(cnns(), device, [], tmp_path)
    content = json.loads((tmp_path / FILE).read_text())
    for damage in ("{", "[]", "[" * 100_000, json.dumps({**content, "chosen": "sine"})):
        (tmp_path / FILE).write_text(damage)
        with pytest.raises(RecordError, match="replaced operations"):
            settle_operations(transformers(), device, drawn, tmp_path)


def test_substitutes_are_activations() -> None:
    assert set(SUBSTITUTES) <= set(ACTIVATIONS)
    assert {name for others in SUBSTITUTES.values() for name in others} <= set(ACTIVATIONS)


def test_the_usual_activation_has_the_symbols_of_old() -> None:
    candidate = transformers().sample(random.Random(0))
    usual, other = (layers_of(with_activation(candidate, name)) for name in ("gelu", "hard_swish"))
    assert usual == layers_of(candidate)
    assert other[1].symbol == f"{usual[1].symbol} activation=hard_swish"
    assert other[1].outside == usual[1].outside


def test_a_space_names_its_activation() -> None:
    space = parse_space({**CNNS, ACTIVATION: "swish"})
    assert space.digest() != cnns().digest()
    assert space_with(space, "swish") is space
    assert layers_of(space.sample(random.Random(0)))[0].symbol.endswith("activation=swish")
    with pytest.raises(SpaceError, match=r"activation: expected one of relu.*'sine'"):
        parse_space({**CNNS, ACTIVATION: "sine"})


@pytest.mark.slow
def test_this_machine_is_asked(tmp_path: Path) -> None:
    stage = {"stride": 2, "depth": [1], "width": [8], "kernel": [1], "kind": ["dense"]}
    content = {**CNNS, "stages": [{**stage, "expansion": [1]}], ACTIVATION: "swish"}
    space = parse_space(content)
    estimator = LatencyEstimator(HostClock(), ProfileDatabase(tmp_path / "p.sqlite"))
    _, found = replace_disliked(space, estimator, space.every())
    assert set(found.microseconds) == {"swish", "hard_swish"}
    assert all(taken > 0 for taken in found.microseconds.values())
    assert estimator.timed >= 2
