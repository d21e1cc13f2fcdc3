from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm

from tests.report.slow.blocks import plain
from tests.report.slow.reports import PEAK, tiny_build, tiny_profile
from tests.tiny_models import TARGET, perceptron
from tvm_fusionx.build.fused_build import FusedBuild
from tvm_fusionx.ecg.block_calls import is_block_call, post_order
from tvm_fusionx.errors import ReportFileError
from tvm_fusionx.report.slow import slow_report as module
from tvm_fusionx.report.slow.bounds import MOST_FILE_BYTES
from tvm_fusionx.report.slow.read_block import read_block
from tvm_fusionx.report.slow.slow_report import (
    SlowReport,
    read_slow_report,
    slow_report,
    write_slow_report,
)
from tvm_fusionx.schedules import resolve_target


@pytest.fixture(scope="module")
def build() -> FusedBuild:
    return tiny_build()


@pytest.fixture(scope="module")
def report(build: FusedBuild) -> SlowReport:
    return slow_report(build, tiny_profile(build), resolve_target(TARGET))


@pytest.fixture
def written(report: SlowReport, tmp_path: Path) -> Path:
    path = tmp_path / "slow.json"
    write_slow_report(report, path)
    return path


def test_a_report_comes_back_from_its_file(report: SlowReport, written: Path) -> None:
    back = read_slow_report(written)
    assert [block.block for block in back.blocks] == [block.block for block in report.blocks]
    for one, other in zip(report.blocks, back.blocks, strict=True):
        assert other.seconds == pytest.approx(one.seconds)
        assert other.limit_seconds == pytest.approx(one.limit_seconds)
        assert (other.template, other.count) == (one.template, one.count)
        assert dict(other.knobs) == dict(one.knobs)
        assert other.refusals == one.refusals
    assert back.peak == PEAK.to_json()
    assert replace(back, blocks=(), peak={}) == replace(report, blocks=(), peak={})


def test_the_block_that_loses_most_comes_first_with_all_that_explains_it(
    report: SlowReport, build: FusedBuild
) -> None:
    first, second = report.blocks
    assert first.operators == "nn.dense+add+nn.relu+nn.dense"
    assert second.operators == "nn.softmax"
    assert first.seconds == 2e-3
    assert 0 < first.part_of_limit < 0.3
    assert [first.refusals, second.refusals] == [each.refusals for each in build.log.entries]
    assert first.refusals
    assert report.target == str(resolve_target(TARGET))
    assert report.versions["tvm"] == tvm.__version__


def test_the_file_holds_equal_blocks_and_no_weight_and_no_name(
    build: FusedBuild, written: Path
) -> None:
    text = written.read_text()
    back = [read_block(block.block, "a block") for block in read_slow_report(written).blocks]
    calls = [expr for expr in post_order(build.module["main"].body) if is_block_call(expr)]
    for call, block in zip(calls, back, strict=True):
        assert tvm.ir.structural_equal(plain(call.op), plain(block.function))
    weights = [onnx.numpy_helper.to_array(each) for each in perceptron().graph.initializer]
    numbers = np.abs(np.concatenate([weight.reshape(-1) for weight in weights])).tolist()
    assert all(_digits(number) in json.dumps(numbers) for number in numbers)
    assert not any(_digits(number) in text for number in numbers)
    for name in ("fc1", "act", "prob", "perceptron"):
        assert name not in text


def _digits(number: float) -> str:
    return repr(number)[:8]


def test_names_are_kept_where_they_are_asked_for(build: FusedBuild, tmp_path: Path) -> None:
    named = slow_report(build, tiny_profile(build), resolve_target(TARGET), names=True)
    write_slow_report(named, tmp_path / "named.json")
    names = read_slow_report(tmp_path / "named.json").blocks[0].names
    assert any("fc1" in name for name in names)
    assert '"name": "act"' in (tmp_path / "named.json").read_text()


def test_equal_blocks_are_told_once(build: FusedBuild) -> None:
    profiled = tiny_profile(build)
    twice = replace(profiled, kernels=(*profiled.kernels, profiled.kernels[0]))
    found = slow_report(build, twice, resolve_target(TARGET))
    assert [block.count for block in found.blocks] == [2, 1]


def test_what_is_not_slow_is_not_told(build: FusedBuild) -> None:
    assert slow_report(build, tiny_profile(build), resolve_target(TARGET), below=1e-9).blocks == ()


def test_more_blocks_than_a_report_holds_and_unknown_ones_are_counted(
    build: FusedBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.bounds, "MOST_BLOCKS", 1)
    found = slow_report(build, tiny_profile(build), resolve_target(TARGET))
    assert len(found.blocks) == 1
    assert found.left_out == ((1e-3, "1 blocks lose more"),)
    monkeypatch.undo()
    profiled = tiny_profile(build)
    strange = replace(profiled, kernels=(replace(profiled.kernels[0], name="strange"),))
    left = slow_report(build, strange, resolve_target(TARGET)).left_out
    assert left == ((2e-3, "its kernel is no block of the plan"),)


def test_a_refusal_tells_no_folder_and_is_short() -> None:
    assert module._scrubbed('File "/opt/app/x.py", line 3: 4/5 of 2') == (
        'File "x.py", line 3: 4/5 of 2'
    )
    assert module._scrubbed(r"C:\Users\me\x.py failed") == "x.py failed"
    assert len(module._scrubbed("x" * 1000)) == module.MOST_REASON


Change = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("change", "about"),
    [
        (lambda t: t.update(format="other"), "expected 'tvm_fusionx slow blocks', version 1"),
        (lambda t: t.update(version=2), "version 2"),
        (lambda t: t.pop("versions"), "the field 'versions'"),
        (lambda t: t["versions"].update(tvm=19), "versions, tvm: expected a text"),
        (lambda t: t["peak"].update(threads="two"), "peak, threads: expected a number"),
        (lambda t: t.update(blocks=t["blocks"] * 40), "at most 32; found 80"),
        (lambda t: t.update(threads=0), "threads: expected a whole number from 1"),
        (lambda t: t["blocks"][1].update(us=-1), "block 1, us"),
        (lambda t: t["blocks"][1].update(knobs={"tile": 0.5}), "knobs, tile"),
        (lambda t: t["blocks"][0].update(refusals=[{}]), "the field 'template'"),
        (lambda t: t["blocks"][0].update(block=[]), "block 0, block: expected an object"),
        (lambda t: t["blocks"][0]["block"].update(calls=[{"op": 3}]), "op: expected a text"),
        (lambda t: t.update(left_out=[{"us": 1.0, "reason": None}]), "left_out 0, reason"),
    ],
)
def test_a_damaged_report_is_refused_with_its_place(
    change: Change, about: str, written: Path
) -> None:
    told = json.loads(written.read_text())
    change(told)
    written.write_text(json.dumps(told))
    with pytest.raises(ReportFileError, match=about):
        read_slow_report(written)


@pytest.mark.parametrize(
    ("content", "about"),
    [
        (b"", "expected JSON"),
        (b"\x80\x04\x95", "expected JSON"),
        (b"[" * 100_000, "expected JSON"),
        (b"[NaN]", "NaN is no number of JSON"),
        (b"[]", "expected an object; found a list of 0"),
        (b" " * (MOST_FILE_BYTES + 1), f"{MOST_FILE_BYTES} bytes at most"),
    ],
)
def test_what_is_no_report_is_refused(content: bytes, about: str, tmp_path: Path) -> None:
    (tmp_path / "slow.json").write_bytes(content)
    with pytest.raises(ReportFileError, match=about):
        read_slow_report(tmp_path / "slow.json")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ReportFileError, match="a file that can be read"):
        read_slow_report(tmp_path / "none.json")
