"""Convolutions along the rows of planes: the template serves them, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import REASSOCIATING, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    assert_scheduled,
    dense,
    describe,
    eight_lanes,
    unscheduled,
)
from tests.schedules.frame_blocks import along, frames, planes
from tests.schedules.matching import why_not
from tvm_fusionx.schedules import schedule
from tvm_fusionx.schedules.windows import along_frames
from tvm_fusionx.schedules.windows.along_frames import ALONG_FRAMES

ALONG = (3, 1)
PAD = (1, 0, 1, 0)


def frames_read(_: relay.Expr) -> relay.Expr:
    return relay.reshape(var("clip", 1, 5, 4, 6, 8), (1, 5, 4, 48, 1))


CASES = {
    "whole vectors": along(6, (4, 96), 16, post=lambda y: relay.nn.relu(planes(y))),
    "columns of no whole panel": along(5, (4, 77), 16),
    "a column more than four vectors": along(5, (3, 33), 8),
    "every second row": along(5, (9, 48), 24, kernel=5, strides=(2, 1)),
    "rows apart": along(5, (7, 33), 8, padding=(2, 0, 2, 0), dilation=(2, 1)),
    "no padding": along(5, (6, 32), 8, padding=(0, 0, 0, 0)),
    "more padding above": along(5, (5, 35), 8, padding=(2, 0, 0, 0)),
    "two images": along(5, (4, 50), 16, batch=2),
    "chunks of 16": along(
        5, (4, 50), 32, blocks=(1, 16), post=lambda y: relay.layout_transform(y, "NCHW16c", "NCHW")
    ),
    "chunks of 4": along(
        5, (4, 50), 12, blocks=(1, 4), post=lambda y: relay.layout_transform(y, "NCHW4c", "NCHW")
    ),
    "frames": along(5, (4, 48), 16, post=lambda y: relay.nn.relu(frames(y, 6))),
    "from frames": along(5, (4, 48), 16, pre=frames_read, post=lambda y: frames(y, 8)),
    "a residual": along(5, (4, 48), 8, post=lambda y: planes(y) + var("r", 1, 8, 4, 48)),
    "a gate": along(5, (4, 48), 8, post=lambda y: planes(y) * var("g", 1, 8, 1, 1)),
    "sigmoid": along(5, (4, 48), 8, post=lambda y: relay.sigmoid(planes(y))),
}


@pytest.mark.parametrize("case", few_fast(CASES, 1))
def test_it_is_the_convolution(case: str) -> None:
    assert_scheduled(CASES[case], "along_frames", REASSOCIATING, target=eight_lanes())


def _resized(y: relay.Expr) -> relay.Expr:
    """Return rows and columns picked by number, weighted: what a later stage reads in parts."""
    rows = relay.take(planes(y), relay.const(np.array([0, 0, 1, 3, 2])), axis=2, mode="clip")
    return rows + relay.take(planes(y), relay.const(np.array([1, 2, 3, 3, 0])), axis=2, mode="clip")


def test_what_a_later_stage_reads_in_parts_goes_to_another_template() -> None:
    target = eight_lanes()
    body = along(5, (4, 48), 8, post=_resized)
    assert schedule(unscheduled(body, target), target).template != "along_frames"
    assert_scheduled(body, "conv2d", REASSOCIATING, target=target)


REFUSED = {
    "its data is blocked, or its channels are in groups": (
        along(16, (4, 48), 16, blocks=(8, 8)),
        along(8, (4, 48), 16, groups=2),
    ),
    "its window is not one column of several rows": (
        dense(5, (4, 48), 8, (1, 1), blocks=(1, 8), post=planes),
        dense(5, (4, 48), 8, (3, 3), padding=(1,) * 4, blocks=(1, 8), post=planes),
        along(5, (4, 48), 8, strides=(1, 2)),
    ),
    "its 7 columns fill vectors badly": (along(5, (4, 7), 8),),
    "its 9 columns fill vectors badly": (along(5, (4, 9), 8),),
    "its result is not written along its columns": (
        along(5, (4, 48), 8, post=lambda y: y),
        along(5, (4, 48), 8, post=lambda y: relay.transpose(planes(y), (0, 1, 3, 2))),
    ),
    "its data is not read along its columns": (
        along(
            5,
            (4, 48),
            8,
            pre=lambda _: relay.reshape(
                relay.transpose(var("turned", 1, 5, 48, 4), (0, 1, 3, 2)), (1, 5, 4, 48, 1)
            ),
        ),
    ),
    "it sums no products of elements as they are": (
        relay.nn.max_pool2d(var("x", 1, 2, 6, 48, 1), ALONG, (1, 1), padding=PAD, layout="NCHW1c"),
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_it_does_not_serve_has_a_reason(reason: str) -> None:
    for body in REFUSED[reason]:
        assert why_not(ALONG_FRAMES, describe(body)) == reason


def test_what_cannot_be_inlined_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise tvm.TVMError("no")

    monkeypatch.setattr(along_frames, "isolate_window", refuse)
    reason = "what surrounds it cannot be inlined"
    assert why_not(ALONG_FRAMES, describe(CASES["whole vectors"])) == reason
