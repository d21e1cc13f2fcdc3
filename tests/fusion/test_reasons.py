"""A graph for every reason: one that no graph can give would be a lie in the report."""

from __future__ import annotations

import pytest

from tests.fusion.planned import decisions, planned
from tests.fusion.refused import REFUSED
from tvm_fusionx.fusion import Reason, Refusal


def test_every_reason_has_a_graph() -> None:
    assert {case.reason for case in REFUSED.values()} == set(Reason)


@pytest.mark.parametrize("kind", REFUSED)
def test_edge_is_refused_with_its_reason(kind: str) -> None:
    case = REFUSED[kind]
    plan = planned(case.make(), options=case.options)
    edge = decisions(plan)[case.producer, case.consumer]
    assert edge.reason is case.reason
    assert case.detail in edge.detail
    assert not edge.fused
    assert edge.producer_block != edge.consumer_block


def test_reasons_are_sentences_and_differ() -> None:
    texts = [reason.value for reason in Reason]
    assert len(set(texts)) == len(texts)
    assert all(len(text.split()) > 3 for text in texts)


def test_a_refusal_needs_no_detail() -> None:
    assert Refusal(Reason.NOT_CONVEX) == Refusal(Reason.NOT_CONVEX, "")
