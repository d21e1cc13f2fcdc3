from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.scripts import script

wild = script("wild")


def test_networks_are_many_and_of_many_sizes() -> None:
    rows = wild.networks()
    assert len(rows) == len(json.loads(wild.LIST.read_text(encoding="utf-8")))
    assert len(rows) >= 80
    assert {row["source"] for row in rows.values()} == {"transformers", "torch", "package"}
    first = {row["given"][0][1] for row in rows.values()}
    assert {1, 8} <= first
    lengths = {row["given"][0][2] for row in rows.values() if row["given"][0][0] == "ids"}
    assert {1, 7, 77, 197, 384, 1000} <= lengths


def test_an_input_is_the_same_every_time() -> None:
    given = ["ids", 2, 7]
    assert wild.drawn(given).shape == (2, 7)
    assert (wild.drawn(given) == wild.drawn(given)).all()
    assert wild.drawn(["pixels", 1, 3, 4, 4]).dtype == "float32"


def _result(name: str, ours: float, others: dict[str, float], lost: float) -> dict[str, object]:
    block = {"kernel": "dense_add_12", "template": "dot", "us": 100.0, "limit_us": 100.0 - lost}
    return {
        "name": name,
        "build_s": 1.0,
        "ms": {"ours": ours, **others},
        "difference": 1e-6,
        "sum_us": 200.0,
        "slow": [{**block, "lost_us": lost}],
    }


def test_the_best_other_counts_and_kinds_add_up() -> None:
    results = [
        _result("first", 1.0, {"ort": 4.0, "openvino": 2.0}, 80.0),
        _result("second", 2.0, {"ort": 1.0}, 90.0),
        {"name": "third", "error": "not exported: so it was"},
    ]
    assert [wild.ratio_of(each) for each in results] == [2.0, 0.5, None]
    assert wild.lost_by_kind(results) == [
        ("dot: dense_add", pytest.approx(170.0 / 200.0), 2, pytest.approx(0.1))
    ]
    text = wild.table(results)
    assert "2 compared, first on 1, geometric mean 1.00" in text
    assert "not exported: so it was" in text


def test_a_result_in_the_cache_is_not_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = _result("rnn-384", 1.0, {"ort": 3.0}, 90.0)
    (tmp_path / "rnn-384.json").write_text(json.dumps(row))
    assert wild.main(["rnn-384", "--cache", str(tmp_path), "--table"]) == 0
    assert "first on 1, geometric mean 3.00" in capsys.readouterr().out


def test_time_is_up_before_a_network_and_the_rest_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rnn-384.json").write_text(json.dumps(_result("rnn-384", 1.0, {"ort": 3.0}, 90.0)))
    together = tmp_path / "all" / "wild.json"
    together.parent.mkdir()
    words = ["rnn-384", "bert-mini-77", "--cache", str(tmp_path), "--minutes", "0"]
    assert wild.main([*words, "--json", str(together)]) == 0
    assert "1 networks are left" in capsys.readouterr().out
    kept = json.loads(together.read_text())
    assert [row["name"] for row in kept["rows"]] == ["rnn-384"]
    assert kept["target"] == wild.TARGET
    # What is not asked for stays in the file.
    (tmp_path / "lstm-384.json").write_text(json.dumps(_result("lstm-384", 1.0, {}, 90.0)))
    assert wild.main(["rnn-384", "--cache", str(tmp_path), "--json", str(together)]) == 0
    kept = json.loads(together.read_text())
    assert {row["name"] for row in kept["rows"]} == {"rnn-384", "lstm-384"}


def test_a_failure_is_a_row_that_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def failing(words: list[str], log: Path) -> str:
        asked.append(words[0])
        return "MemoryError"

    monkeypatch.setattr(wild, "in_process", failing)
    words = ["rnn-384", "--cache", str(tmp_path), "--json", str(tmp_path / "wild.json")]
    for _ in range(2):
        assert wild.main(words) == 0
        (row,) = json.loads((tmp_path / "wild.json").read_text())["rows"]
        assert row == {"name": "rnn-384", "error": "not exported: MemoryError"}
    assert asked == ["--export"]


def test_an_unknown_network_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        wild.main(["brt"])
    assert "brt: expected some of bert-mini-77" in capsys.readouterr().err
