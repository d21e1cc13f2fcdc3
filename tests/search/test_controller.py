from __future__ import annotations

from pathlib import Path

import pytest

from tests.search.small_spaces import TRANSFORMERS, cnns, transformers
from tvm_fusionx.errors import RecordError
from tvm_fusionx.search.space_file import parse_space

torch = pytest.importorskip("torch", reason="torch is not installed")

from tvm_fusionx.search.controller import ControllerSettings, ControllerStrategy  # noqa: E402

SMALL = {**TRANSFORMERS, "layers": [1, 2], "hidden": [16, 20], "heads": [2, 4, 8]}


def test_probabilities_of_all_candidates_add_up_to_one() -> None:
    # Heads of 8 do not divide 20: what is not valid has no probability.
    space = parse_space(SMALL)
    strategy = ControllerStrategy(space, 0)
    total = sum(strategy.probability(each) for each in space.every())
    assert total == pytest.approx(1.0, abs=1e-5)


def test_the_likelier_follow_the_reward() -> None:
    space = parse_space(SMALL)
    strategy = ControllerStrategy(space, 0, ControllerSettings(entropy=0.0))
    liked = strategy.ask(1)[0]
    before = strategy.probability(liked)
    strategy.baseline = 0.0
    strategy.tell([1.0])
    assert strategy.probability(liked) > before


def test_entropy_keeps_it_open() -> None:
    space = parse_space(SMALL)

    def certainty(entropy: float) -> float:
        strategy = ControllerStrategy(space, 0, ControllerSettings(entropy=entropy))
        for _ in range(20):
            strategy.tell([float(e["choices"]["layers"] == 1) for e in strategy.ask(4)])
        return max(map(strategy.probability, space.every()))

    assert certainty(0.0) > certainty(1.0)


def test_it_goes_on_from_what_it_saved(tmp_path: Path) -> None:
    first = ControllerStrategy(transformers(), 0)
    for _ in range(3):
        first.tell([float(each["choices"]["layers"]) for each in first.ask(4)])
    first.save(tmp_path / "state.pt")
    second = ControllerStrategy(transformers(), 9)
    second.load(tmp_path / "state.pt")
    for _ in range(3):
        asked = first.ask(4)
        assert second.ask(4) == asked
        for each in (first, second):
            each.tell([float(candidate["choices"]["layers"]) for candidate in asked])
    assert first.baseline == second.baseline


def test_another_state_is_refused(tmp_path: Path) -> None:
    ControllerStrategy(transformers(), 0).save(tmp_path / "state.pt")
    with pytest.raises(RecordError, match="controller"):
        ControllerStrategy(cnns(), 0).load(tmp_path / "state.pt")
    wider = ControllerStrategy(transformers(), 0, ControllerSettings(hidden=32))
    with pytest.raises(RecordError, match="controller"):
        wider.load(tmp_path / "state.pt")
    (tmp_path / "state.pt").write_bytes(b"nothing")
    with pytest.raises(RecordError, match="Begin anew"):
        wider.load(tmp_path / "state.pt")


def test_its_seed_leaves_the_callers_chance_alone() -> None:
    torch.manual_seed(4)
    expected = torch.rand(1)
    torch.manual_seed(4)
    ControllerStrategy(transformers(), 0)
    assert torch.equal(torch.rand(1), expected)
