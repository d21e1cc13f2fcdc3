from __future__ import annotations

import json
from pathlib import Path

import pytest

from tvm_fusionx.errors import InputError, OutputFileError
from tvm_fusionx.report.explain.entries import BlockEntry, EdgeEntry, Finding, Summary
from tvm_fusionx.report.explain.explanation import Report, readable_bytes
from tvm_fusionx.report.profile.profile import KernelTime, ProfileReport


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
        "rewrites", "findings", "tir", "run_seconds", "products",
    ]  # fmt: skip
    assert list(data["summary"]) == [
        "operators", "kernels_unfused", "kernels", "intermediate_bytes_unfused",
        "intermediate_bytes", "flops",
    ]  # fmt: skip
    assert list(data["blocks"][0]) == [
        "name", "operators", "nodes", "mapping_type", "bytes_in", "bytes_out", "bytes_saved",
        "flops", "is_reshape_only", "template", "fallback_reason", "labels",
        "tir", "structure", "seconds", "share", "refusals",
    ]  # fmt: skip
    assert list(data["edges"][0]) == [
        "producer", "consumer", "producer_block", "consumer_block", "fused", "reason", "detail",
        "bytes",
    ]  # fmt: skip


def test_reasons_count_refused_edges_only() -> None:
    assert a_report().reasons() == [
        {"reason": "rows-differ", "edges": 1, "bytes": 16, "example": "/bias -> /soft: 4 and 1"}
    ]


def with_a_reshape() -> Report:
    """A product before a free reshape, and two equal products behind it."""
    products = [
        BlockEntry(f"dense{end}", ("nn.dense",), (), "Many-to-Many", 96, 16, 0, 9, structure="d")
        for end in ("", "_1", "_2")
    ]
    reshape = BlockEntry("reshape", ("reshape",), (), "Reorganize", 16, 16, 0, 0, True)
    edges = (
        EdgeEntry("a", "r", "dense", "reshape", False, "reshape-is-free", "no kernel", 512),
        EdgeEntry("r", "b", "reshape", "dense_1", False, "reshape-is-free", "no kernel", 512),
        EdgeEntry("b", "c", "dense_1", "dense_2", False, "second-contraction", "two", 16),
    )
    summary = Summary(4, 3, 3, 1040, 1040, 27)
    return Report("llvm", summary, (products[0], reshape, *products[1:]), edges, title="toy")


def test_a_free_reshape_is_no_first_reason_and_no_block_of_the_text() -> None:
    report = with_a_reshape()
    assert [row["reason"] for row in report.reasons()] == ["second-contraction", "reshape-is-free"]
    text = report.text()
    assert "second-contraction" in text
    assert "reshape" not in text


def test_equal_blocks_are_one_line() -> None:
    lines = with_a_reshape().text().splitlines()
    title = lines.index("Largest blocks (3 of 3; equal ones together)")
    (line,) = lines[title + 1 :]
    assert line.split() == "x3 1 ops Many-to-Many saves 0 B dense".split()


def a_profile(**seconds: float) -> ProfileReport:
    total = sum(seconds.values())
    rows = (
        KernelTime(name, (), "dense", taken, taken / total, None, 1.0)
        for name, taken in seconds.items()
    )
    return ProfileReport(tuple(rows), end_to_end_seconds=0.5)


def test_a_profile_tells_each_blocks_share_and_the_slowest_come_first() -> None:
    report = a_report().with_profile(a_profile(dense_add=0.1, softmax=0.3))
    assert report.run_seconds == report.to_json()["run_seconds"] == 0.5
    assert [block.seconds for block in report.blocks] == [0.1, 0.3]
    title, first, second = report.text().splitlines()[-3:]
    assert title == "Slowest blocks (2 of 2; equal ones together)"
    assert "75.0% of time" in first
    assert first.endswith("softmax")
    assert "25.0% of time" in second


@pytest.mark.parametrize(
    ("times", "stranger"),
    [({"dense_add": 0.1}, "softmax"), ({"dense_add": 0.1, "softmax": 0.3, "x": 1.0}, "x")],
)
def test_a_profile_of_another_build_is_refused(times: dict[str, float], stranger: str) -> None:
    with pytest.raises(InputError, match=f"each of the plan's 2 kernels; .* {stranger} is in one"):
        a_report().with_profile(a_profile(**times))


def test_free_reshapes_have_no_time() -> None:
    times = dict.fromkeys(("dense", "dense_1", "dense_2"), 0.1)
    report = with_a_reshape().with_profile(a_profile(**times))
    assert [block.share is None for block in report.blocks] == [False, True, False, False]


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
