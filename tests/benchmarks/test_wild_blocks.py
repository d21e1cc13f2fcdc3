from __future__ import annotations

import json
from pathlib import Path

import pytest
import tvm
from tvm import relay

from tests.benchmarks.scripts import script
from tests.relay_modules import const, var

blocks = script("wild_blocks")


def _row(template: str, taken: float, count: int = 1, *, is_slow: bool) -> dict[str, object]:
    return {
        "template": template,
        "operators": ["nn.conv3d", "add", "add"],
        "reads": ["1x2"],
        "gives": "2x1",
        "count": count,
        "least_us": 10.0,
        "taken_us": taken,
        "is_slow": is_slow,
        "why": "",
    }


def test_kinds_add_up_in_parts_of_networks() -> None:
    found = {
        "first": [_row("default", 60.0, is_slow=True), _row("dot", 40.0, is_slow=False)],
        "second": [_row("default", 25.0, 4, is_slow=True)],
    }
    (kind,) = blocks.by_kind(found)
    assert kind["kind"] == "default: nn.conv3d add*2"
    assert kind["part"] == pytest.approx(0.5 + 0.6)
    assert kind["count"] == 5
    assert [network for _, network, _, _ in kind["in"]] == ["second", "first"]
    text = blocks.table(found)
    assert "     5 default" in text
    assert "second: 1x2 -> 2x1" in text


def test_what_no_fast_template_takes_is_found() -> None:
    x, volume = var("x", 256, 64), var("volume", 1, 4, 20, 20, 20)
    out = [relay.nn.dense(x, const(32, 64)), relay.nn.conv3d(volume, const(4, 4, 3, 3, 3))]
    out.append(relay.nn.dense(out[0] + relay.const(1.0), const(32, 32)))
    rows = blocks.rows_of(tvm.IRModule.from_expr(relay.Function([x, volume], relay.Tuple(out))), {})
    slow = {tuple(row["operators"]): row["is_slow"] for row in rows}
    assert slow.pop(("nn.conv3d",))
    assert not any(slow.values())
    assert all(row["taken_us"] >= row["least_us"] > 0 for row in rows)


def test_what_was_planned_is_not_planned_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.onnx").write_bytes(b"")
    (tmp_path / "net.blocks.json").write_text(json.dumps([_row("default", 60.0, is_slow=True)]))
    assert blocks.main([str(tmp_path / "net.onnx"), "--cache", str(tmp_path)]) == 0
    assert "1 networks" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        blocks.main(["no-such"])
    assert "no-such: no file" in capsys.readouterr().err
