"""The page of the templates, and which blocks it is made from."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks.scripts import script

blocks, page, rates = map(script, ("template_blocks", "template_page", "machine_rates"))


def _run() -> dict[str, Any]:
    levels = len(rates.WORKING_SETS)
    machine = rates.MachineRates(
        2, 0.0, 0.0, 1e11, 1e10, dict.fromkeys(("copy", "read", "fill"), (1e11,) * levels)
    )

    def block(name: str, template: str, us: float, **work: int) -> dict[str, Any]:
        return {
            **{"key": name, "template": template, "name": name, "model": "net", "count": 2},
            **{"shapes": ["float32[8, 8]", "float32[8]"], "us": us, "work": work},
        }

    return {
        **{"date": "2026-01-31", "device": "a processor", "commit": "abc", "tvm": "0.19.0"},
        "command": "time",
        "rates": machine.to_json(),
        "blocks": [
            block("product", "dot", 10.0, flops=10**6, instructions=5 * 10**5, read_bytes=64),
            block("slow", "rows", 10.0, read_bytes=10**5),
            block("copy", "rows", 1.25, read_bytes=50000, written_bytes=50000),
        ],
    }


def test_a_row_tells_which_limit_binds_and_how_near_it_is() -> None:
    product, slow, copy = page.rows_of(_run())
    assert product.binds == "arithmetic"
    assert (product.of_limit, product.of_peak) == pytest.approx((0.5, 0.5))
    assert (slow.binds, round(slow.of_limit, 3)) == ("bandwidth", 0.1)
    assert round(copy.of_bandwidth, 3) == 0.8


def test_the_summary_counts_what_is_under_half() -> None:
    dot, rows = page.summary(page.rows_of(_run()))
    assert dot[:5] == ["dot", "1", "50%", "50%", "0 (0%)"]
    assert rows[:5] == ["rows", "2", "45%", "10%", "1 (50%)"]


def test_each_poor_block_has_its_reason() -> None:
    text = page.page(_run(), {"slow": "it gathers"})
    assert "- it gathers (slow)" in text
    assert "not looked into" in page.page(_run(), {})
    assert "| product | net | `[8, 8] -> [8]` | 10.0 | 100 | 50% |" in text
    assert "| 4 KiB | 100 | 100 | 100 |" in text


def test_models_and_templates_take_turns() -> None:
    def made(template: str, *keys: str) -> list[Any]:
        return [blocks.ModelBlock(key, template, key, 1) for key in keys]

    found = blocks.chosen(
        {"a": [*made("dot", "1", "2", "3"), *made("rows", "4")], "b": made("dot", "1", "5")}, 3
    )
    assert [(row["key"], row["model"]) for row in found] == [
        ("1", "a"),
        ("4", "a"),
        ("2", "a"),
        ("5", "b"),
    ]
