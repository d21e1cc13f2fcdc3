from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.scripts import script

zoo = script("zoo")


def test_a_quick_run_is_small_models_and_runtimes_without_conversion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tvm_fusionx.report.bench.bench import SIDES
    from tvm_fusionx.zoo import names

    monkeypatch.setattr(sys, "argv", ["zoo.py", "--quick"])
    quick = zoo._options()
    assert set(quick.models) < set(names())
    assert set(quick.sides) < set(SIDES)
    monkeypatch.setattr(sys, "argv", ["zoo.py"])
    full = zoo._options()
    assert full.models == names()
    assert full.sides == SIDES


def test_a_wrong_name_is_told_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["zoo.py", "minilm", "yolov8n"])
    with pytest.raises(SystemExit):
        zoo._options()
    told = capsys.readouterr().err
    assert "no model yolov8n" in told
    assert "yolo-v8n" in told


PAGES = ["readme_table.py", "results_page.py"]
FACTS = {"device": "a machine", "sides": ["ort"], "repeat": 20, "command": "measure"}


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Keep the commands of a run in place of starting them, on a machine of no name."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    def run_groups(named: Mapping[str, list[str]], *_: Any) -> Iterator[tuple[str, int]]:
        for name, command in named.items():
            commands.append(command)
            yield name, 0

    monkeypatch.setattr(zoo, "RESULTS", tmp_path)
    monkeypatch.setattr(zoo, "run_groups", run_groups)
    monkeypatch.setattr(zoo, "facts_of_run", lambda *_: dict(FACTS))
    monkeypatch.setattr(zoo.subprocess, "run", run)
    monkeypatch.setattr("tvm_fusionx.zoo.names", lambda: ("minilm", "gpt2"))
    monkeypatch.setattr("tvm_fusionx.report.bench.bench.SIDES", ("ort",))
    return commands


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made: Path = zoo.folder_of("a machine", "2026-01-31", tmp_path)
    made.mkdir(parents=True)
    done = {"latency_ms": {"fusionx": {"n": 20}}, "errors": {"ort": "a message is an answer too"}}
    (made / "minilm.json").write_text(json.dumps(done))
    return made


def test_a_run_goes_on_where_a_side_is_missing(
    started: list[list[str]],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["zoo.py", "--missing", "--vs", "ort", "--date", "2026-01-31"]
    monkeypatch.setattr(sys, "argv", words)
    assert zoo.main() == 0
    (command,) = started
    assert command[2] == "gpt2"
    assert command[command.index("--vs") + 1] == "ort"
    # The process that stands for gpt2 wrote nothing.
    assert (
        "1 models are not measured on all sides 20 times, such as gpt2" in capsys.readouterr().out
    )
    facts = json.loads((folder / "run.json").read_text())
    assert facts == {**FACTS, "failed": {}, "full": False}


def test_the_pages_are_written_when_there_is_a_word_on_every_model(
    started: list[list[str]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"failed": {"gpt2": "stopped after 7 s"}}
    (folder / "run.json").write_text(json.dumps(facts))
    words = ["zoo.py", "--missing", "--vs", "ort", "--date", "2026-01-31", "minilm"]
    monkeypatch.setattr(sys, "argv", words)
    assert zoo.main() == 0
    assert [Path(command[-1]).name for command in started] == PAGES
    facts = json.loads((folder / "run.json").read_text())
    assert facts["failed"] == {"gpt2": "stopped after 7 s"}
    assert facts["full"]


def test_a_failure_is_told_beside_older_numbers_until_the_model_is_measured_again(
    started: list[list[str]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "run.json").write_text(json.dumps({"failed": {"minilm": "it died", "gpt2": "died"}}))
    words = ["zoo.py", "--missing", "--vs", "ort", "--date", "2026-01-31", "minilm"]
    monkeypatch.setattr(sys, "argv", words)
    zoo.main()
    assert started[0][2] == "minilm"
    assert json.loads((folder / "run.json").read_text())["failed"] == {"gpt2": "died"}
    monkeypatch.setattr(zoo, "run_groups", lambda named, *_: ((name, 1) for name in named))
    monkeypatch.setattr(sys, "argv", ["zoo.py", "minilm", "--vs", "ort", "--date", "2026-01-31"])
    zoo.main()
    facts = json.loads((folder / "run.json").read_text())
    assert facts["failed"] == {"gpt2": "died", "minilm": "its process ended with 1"}


def test_a_run_that_goes_on_keeps_what_it_was_begun_with(
    started: list[list[str]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = {**FACTS, "command": "begin", "commit": "old"}
    (folder / "run.json").write_text(json.dumps(begun))
    words = ["zoo.py", "--missing", "--vs", "ort", "--date", "2026-01-31"]
    monkeypatch.setattr(sys, "argv", words)
    told = {"facts": {**FACTS, "commit": "new"}}
    monkeypatch.setattr(zoo, "facts_of_run", lambda *_: dict(told["facts"]))
    zoo.main()
    facts = json.loads((folder / "run.json").read_text())
    assert (facts["commit"], facts["command"], facts["then"]) == ("old", "begin", ["measure"])
    # More sides or runs for some models are a part of the same run, fewer would be another.
    told["facts"] |= {"sides": ["ort", "tvm-metaschedule"], "repeat": 100, "command": "widen"}
    zoo.main()
    facts = json.loads((folder / "run.json").read_text())
    assert (facts["sides"], facts["then"]) == (["ort"], ["measure", "widen"])
    assert facts["repeat"] == 20
    for other in ({"sides": []}, {"repeat": 1}):
        (folder / "run.json").write_text(json.dumps(begun))
        told["facts"] = {**FACTS, **other, "commit": "new"}
        zoo.main()
        facts = json.loads((folder / "run.json").read_text())
        assert (facts["commit"], "then" in facts) == ("new", False)


def test_a_run_of_all_models_begins_anew(
    started: list[list[str]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = {**FACTS, "command": "begin", "commit": "old", "failed": {"gpt2": "died"}}
    (folder / "run.json").write_text(json.dumps(begun))
    monkeypatch.setattr(sys, "argv", ["zoo.py", "--vs", "ort", "--date", "2026-01-31"])
    zoo.main()
    facts = json.loads((folder / "run.json").read_text())
    assert facts == {**FACTS, "failed": {}, "full": False}
    (folder / "run.json").write_text(json.dumps(begun))
    monkeypatch.setattr(sys, "argv", [*sys.argv, "minilm"])
    zoo.main()
    assert json.loads((folder / "run.json").read_text())["commit"] == "old"


def test_a_run_of_few_sides_or_times_is_not_full(
    started: list[list[str]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tvm_fusionx.zoo.names", lambda: ("minilm",))
    words = ["zoo.py", "--missing", "--vs", "ort", "--date", "2026-01-31"]
    monkeypatch.setattr(sys, "argv", words)
    zoo.main()
    assert json.loads((folder / "run.json").read_text())["full"]
    monkeypatch.setattr("tvm_fusionx.report.bench.bench.SIDES", ("ort", "mnn"))
    zoo.main()
    assert not json.loads((folder / "run.json").read_text())["full"]
    monkeypatch.setattr("tvm_fusionx.report.bench.bench.SIDES", ("ort",))
    few = {"latency_ms": {"fusionx": {"n": 3}}, "errors": {"ort": "none"}}
    (folder / "minilm.json").write_text(json.dumps(few))
    zoo.main()
    assert not json.loads((folder / "run.json").read_text())["full"]


def test_tuned_sides_have_a_folder_of_their_own_beside_the_whole_run(
    started: list[list[str]],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = (folder / "minilm.json").read_text()
    words = ["minilm", "--vs", "ort", "--tuning-budget", "3m", "--date", "2026-01-31"]
    monkeypatch.setattr(sys, "argv", ["zoo.py", *words])
    assert zoo.main() == 0
    apart = folder / "equal-budget"
    assert started[0][started[0].index("--here") + 1] == str(apart)
    assert "once" in capsys.readouterr().out
    assert len(started) == 1
    (folder / "run.json").write_text(json.dumps({**FACTS, "full": True}))
    zoo.main()
    assert [Path(command[-1]).name for command in started[2:]] == PAGES
    assert (folder / "minilm.json").read_text() == before
    assert json.loads((folder / "run.json").read_text())["full"]
    assert json.loads((apart / "run.json").read_text())["command"] == "measure"


def test_the_limit_of_a_model_leaves_time_to_tune(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["zoo.py", "minilm", "--vs", "tvm", "--tuning-budget", "30m", "--jobs", "2"]
    monkeypatch.setattr(sys, "argv", words)
    # Two models at once, each with two tuned sides.
    assert zoo._options().limit == 2 * (zoo.LIMIT_SECONDS + 2 * 1800)
    monkeypatch.setattr(sys, "argv", ["zoo.py", "minilm", "--vs", "tvm", "--jobs", "1"])
    assert zoo._options().limit == zoo.LIMIT_SECONDS


def test_a_model_apart_is_measured_as_the_run_was_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def run_groups(named: Mapping[str, list[str]], *_: Any) -> Iterator[tuple[str, int]]:
        started.extend(named.values())
        return ((name, 0) for name in named)

    monkeypatch.setattr(zoo, "run_groups", run_groups)
    words = ["minilm", "--vs", "tvm,ort", "--sustained", "--tuning-budget", "3m", "--repeat", "7"]
    words += ["--least-gflops", "150"]
    monkeypatch.setattr(sys, "argv", ["zoo.py", *words])
    options = zoo._options()
    assert options.sides == ("tvm", "ort", "tvm-metaschedule", "fusionx-tuned")
    assert options.sustained == zoo.SUSTAINED_SECONDS
    assert zoo._measured_apart(["minilm"], tmp_path, options) == {}
    monkeypatch.setattr(sys, "argv", started[0][1:])
    apart = zoo._options()
    for name in ("models", "sides", "sustained", "budget", "repeat", "quick", "least"):
        assert getattr(apart, name) == getattr(options, name), name
    assert apart.here == tmp_path


def test_models_that_end_badly_count_as_failed_and_killed_ones_are_tried_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[list[str], int]] = []
    first = {"gpt2": None, "vgg16": -9, "unet": -9, "c3d": 1, "minilm": 0}

    def run_groups(
        named: Mapping[str, list[str]], jobs: int, *_: Any
    ) -> Iterator[tuple[str, int | None]]:
        asked.append((list(named), jobs))
        again = {"vgg16": 0, "unet": -9}
        return ((name, first[name] if jobs > 1 else again[name]) for name in named)

    monkeypatch.setattr(zoo, "run_groups", run_groups)
    monkeypatch.setattr(sys, "argv", ["zoo.py", "--limit", "7", "--jobs", "2"])
    messages = zoo._measured_apart(list(first), tmp_path, zoo._options())
    assert asked == [(list(first), 2), (["vgg16", "unet"], 1)]
    assert messages == {
        "gpt2": "stopped after 7 s",
        "unet": "its process ended with -9",
        "c3d": "its process ended with 1",
    }
    assert "gpt2: stopped after 7 s" in capsys.readouterr().out


def test_others_stand_still_only_while_a_fast_machine_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []

    @contextlib.contextmanager
    def alone() -> Iterator[None]:
        told.append("stop")
        yield
        told.append("go on")

    speeds = iter([90.0, 100.0, 160.0])
    machine = zoo.FastEnough(lambda: next(speeds), 150.0, lambda _: told.append("pause"))
    monkeypatch.setattr(zoo, "timed_alone", alone)
    with zoo._alone_and_fast(machine):
        told.append("time")
    assert told == ["stop", "go on", "pause"] * 2 + ["stop", "time", "go on"]
