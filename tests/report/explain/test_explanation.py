from __future__ import annotations

import json
from pathlib import Path

import pytest

from tvm_fusionx.errors import OutputFileError
from tvm_fusionx.report.explain.entries import BlockEntry, EdgeEntry, Finding, Summary
from tvm_fusionx.report.explain.explanation import Report, readable_bytes


def a_report() -> Report:
    """Two blocks with one refused edge between them, and one fused edge."""
    first = BlockEntry(
        "dense_add", ("nn.dense", "add"), ("/fc", "/bias"), "Many-to-Many", 96, 16, 16, 300
    )
    second = BlockEntry("softmax", ("nn.softmax",), ("/soft",), "Many-to-Many", 16, 16, 0, 60)
    edges = (
        EdgeEntry("/fc", "/bias", "dense_add", "dense_add", True, "", "", 16),
        EdgeEntry("/bias", "/soft", "dense_add", "softmax", False, "rows-differ", "4 and 1", 16),
    )
    return Report(
        target="llvm",
        summary=Summary(3, 3, 2, 32, 16, 360),
        blocks=(first, second),
        edges=edges,
        rewrites=(("factor_common_multiplier", 2),),
        findings=(Finding("default-schedule", "softmax has no template", ("softmax",)),),
        title="toy",
    )


def test_the_json_schema_is_stable() -> None:
    data = a_report().to_json()
    assert json.loads(json.dumps(data)) == data
    assert list(data) == [
        "schema", "title", "target", "versions", "summary", "plan", "blocks", "edges", "reasons",
        "rewrites", "findings", "tir",
    ]  # fmt: skip
    assert list(data["summary"]) == [
        "operators", "kernels_unfused", "kernels", "intermediate_bytes_unfused",
        "intermediate_bytes", "flops",
    ]  # fmt: skip
    assert list(data["blocks"][0]) == [
        "name", "operators", "nodes", "mapping_type", "bytes_in", "bytes_out", "bytes_saved",
        "flops", "is_reshape_only", "template", "fallback_reason", "labels",
        "tir",
    ]  # fmt: skip
    assert list(data["edges"][0]) == [
        "producer", "consumer", "producer_block", "consumer_block", "fused", "reason", "detail",
        "bytes",
    ]  # fmt: skip


def test_reasons_count_refused_edges_only() -> None:
    assert a_report().reasons() == [
        {"reason": "rows-differ", "edges": 1, "bytes": 16, "example": "/bias -> /soft: 4 and 1"}
    ]


def test_the_text_tells_numbers_reasons_rules_and_findings() -> None:
    text = a_report().text()
    for part in ("toy for llvm", "2 (unfused 3)", "rows-differ", "factor_common", "no template"):
        assert part in text


def test_json_and_html_are_written(tmp_path: Path) -> None:
    report = a_report()
    report.save_json(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text()) == report.to_json()
    report.save_html(tmp_path / "report.html")
    assert "dense_add" in (tmp_path / "report.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputFileError, match=r"missing/report\.html"):
        a_report().save_html(tmp_path / "missing" / "report.html")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (3 << 20, "3.0 MiB"),
        (5 << 40, "5120.0 GiB"),
    ],
)
def test_sizes_are_readable(size: int, text: str) -> None:
    assert readable_bytes(size) == text
