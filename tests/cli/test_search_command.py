from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run_cli import runner
from tests.search.small_spaces import TRANSFORMERS
from tests.search.test_executor import TRAIN
from tvm_fusionx.cli.search_command import STRATEGY_NAMES
from tvm_fusionx.devices import cluster
from tvm_fusionx.errors import DeviceError
from tvm_fusionx.search.session import STRATEGIES

SPACE = {**TRANSFORMERS, "layers": [1], "hidden": [16], "heads": [2]}


@pytest.fixture(name="words")
def fixture_words(tmp_path: Path) -> list[Any]:
    space = tmp_path / "space.json"
    space.write_text(json.dumps(SPACE))
    paths = ["--profile-db", tmp_path / "p.sqlite", "-o", tmp_path / "out"]
    return ["search", "--space", space, "--train", TRAIN, *paths, "--strategy", "random"]


@pytest.mark.slow
def test_a_search_ends_with_files_and_is_not_begun_twice(
    words: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runner(capsys)
    ran = run(*words, "--trials", 2, "--max-latency", "10s")
    assert ran.code == 0, ran.err
    assert "Measured again as a whole" in ran.out
    # No terminal: a line for each network, so that a log of hours says how far it is.
    assert "network 2 of 2" in ran.err
    assert "left, best" in ran.err
    assert "The limit is 10000000.0 us." in ran.out
    recipe = json.loads((tmp_path / "out" / "recipe.json").read_text())
    assert recipe["accuracy"] > 0
    assert "<svg" in (tmp_path / "out" / "front.html").read_text()
    assert "a folder without one" in run(*words, "--max-latency", "10s").problem


def test_a_training_that_is_no_python_is_told_before_anything_is_made(
    words: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def train(candidate, trial:\n")
    ran = runner(capsys)(*[broken if word is TRAIN else word for word in words])
    assert ran.code == 2
    assert f"training {broken}" in ran.problem
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("further", "about"),
    [
        (["--max-latency", "5"], "no time such as 5ms"),
        (["--max-latency", "0ms"], "no time such as 5ms"),
        (["--soft"], "--soft needs --max-latency"),
        (["--strategy", "grid"], "grid"),
        (["--front", "--min-accuracy", "0.9"], "--min-accuracy and --front"),
        (["--min-accuracy", "0"], "min-accuracy"),
        (["--halving", "--median"], "--halving and --median"),
    ],
)
def test_wrong_words_are_told(
    words: list[Any], further: list[str], about: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = runner(capsys)(*words, *further)
    assert ran.code == 2
    assert about in ran.err


def test_every_strategy_has_a_word() -> None:
    assert set(STRATEGY_NAMES) == set(STRATEGIES)


def test_a_cluster_that_is_not_there_is_told_before_anything_is_measured(
    words: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(address: str) -> None:
        raise DeviceError("Ray cluster", expected="one", found=address, next_step="Start it.")

    monkeypatch.setattr(cluster, "connect", refuse)
    assert "host:1" in runner(capsys)(*words, "--ray", "host:1").problem
