from __future__ import annotations

from pathlib import Path

import pytest
from tvm import relay

from tests.relay_modules import var
from tests.report.slow.blocks import block_call
from tests.tiny_models import TARGET
from tvm_fusionx.errors import ReportFileError
from tvm_fusionx.report.slow.block_json import block_json
from tvm_fusionx.report.slow.slow_report import SlowBlock, SlowReport, write_slow_report
from tvm_fusionx.report.slow.tried_apart import build_all, try_apart


def _report(*blocks: SlowBlock) -> SlowReport:
    return SlowReport(TARGET, "a processor", 2, {}, {}, 0.3, blocks)


def _sliced() -> SlowBlock:
    body = relay.strided_slice(var("a", 4, 16), [0, 0], [4, 8], [1, 2])
    return SlowBlock(block_json(block_call(body, [var("x", 4, 16)])), 1, 1.0, 0.1, "rows")


def test_blocks_are_numbered_before_they_are_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_slow_report(_report(_sliced(), _sliced()), tmp_path / "slow.json")
    build_all(str(tmp_path / "slow.json"), TARGET)
    assert capsys.readouterr().out.split() == ["0", "1"]


@pytest.mark.slow
def test_what_ends_a_process_is_an_error_that_names_the_block(tmp_path: Path) -> None:
    damaged = _sliced()
    damaged.block["calls"][0]["attributes"]["strides"] = [0, 0]
    report = _report(_sliced(), damaged)
    write_slow_report(report, tmp_path / "slow.json")
    with pytest.raises(ReportFileError, match=r"slow.json, block 1: .* it ended with -"):
        try_apart(tmp_path / "slow.json", report, TARGET)


@pytest.mark.slow
def test_what_ends_no_process_passes(tmp_path: Path) -> None:
    report = _report(_sliced())
    write_slow_report(report, tmp_path / "slow.json")
    try_apart(tmp_path / "slow.json", report, TARGET)
