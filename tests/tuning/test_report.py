from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuning.small_tasks import made_up_task
from tvm_fusionx.tuning.comparison import Comparison
from tvm_fusionx.tuning.peak import Peak
from tvm_fusionx.tuning.report import TaskResult, TuningReport, record_of

FASTER = Comparison((2e-3,) * 4, (1e-3,) * 4)
SAME = Comparison((2e-3,) * 4, (2e-3,) * 4)
WINNER = TaskResult(made_up_task("won", count=3), 2e-3, 40, {"knob_0": 5}, FASTER)
LOSER = TaskResult(made_up_task("lost"), 2e-3, 8, {"knob_0": 1}, SAME, "no significant difference")
BROKEN = TaskResult(made_up_task("broken"), math.inf, 0, {"knob_0": 1}, None, "cannot be measured")
REPORT = TuningReport(
    "llvm znver4",
    "cpu, 2 threads",
    (LOSER, WINNER, BROKEN),
    FASTER,
    True,
    failures={"wrong result": 2},
    trials=48,
    seconds=60.0,
    records=Path("records.jsonl"),
    peak=Peak(2e9, 1e10),
)


def test_shares_peaks_and_times() -> None:
    assert REPORT.share(WINNER) == pytest.approx(0.75)
    assert REPORT.share(BROKEN) == 0.0
    assert WINNER.seconds == pytest.approx(1e-3)
    assert LOSER.seconds == 2e-3
    assert REPORT.of_peak(WINNER) == pytest.approx(0.5)
    assert REPORT.of_limit(LOSER) == pytest.approx(0.25)
    assert REPORT.of_peak(BROKEN) is None


def test_all_blocks_together_reach_a_part_of_the_limit() -> None:
    # The winner takes 3 x 1 ms at half of the limit, the loser 2 ms at a quarter.
    assert REPORT.all_of_limit == pytest.approx((3 * 0.5 + 2 * 0.25) / 5)
    assert "all blocks together reach 40% of the limit" in REPORT.text()
    unknown = replace(REPORT, peak=None)
    assert unknown.all_of_limit is None
    assert "of the limit" not in unknown.text()


def test_a_block_beyond_the_limit_makes_up_for_no_other() -> None:
    fast = replace(REPORT, tasks=(LOSER,), peak=Peak(1e8, 1e10))
    assert fast.of_limit(LOSER) > 1
    assert fast.all_of_limit == 1.0


def test_the_text_names_the_heaviest_first_and_every_reason() -> None:
    text = REPORT.text()
    assert text.index("won_0 x3") < text.index("lost_0")
    for said in ("2.00x", "no significant difference", "cannot be measured", "2 wrong result"):
        assert said in text
    assert text.splitlines()[-1].startswith("48 trials, 60 s: 2.000x end to end")
    assert "records.jsonl" in text
    assert "and 2 more blocks" in REPORT.text(most=1)


def test_the_text_tells_what_an_earlier_session_found() -> None:
    again = replace(WINNER, reason="found by an earlier session")
    assert "2.00x (spread 0.00), found by an earlier" in replace(REPORT, tasks=(again,)).text()


def test_json_has_no_infinities() -> None:
    row = json.loads(json.dumps(REPORT.to_json(), allow_nan=False))
    assert [block["is_better"] for block in row["blocks"]] == [False, True, False]
    assert row["end_to_end"]["verdict"] == "faster"


def test_a_result_becomes_a_record() -> None:
    record = record_of(WINNER, target="t", device="d", tuner="grid", at=5.0, versions="v")
    assert record.gain == pytest.approx(2.0)
    assert record.is_tuned
    assert record.knobs == {"knob_0": 5}
    lost = record_of(BROKEN, target="t", device="d", tuner="grid", at=5.0, versions="v")
    assert math.isinf(lost.seconds)
