"""The how-to pages: what they let a reader write still does what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.frontend.onnx_nodes import Case, check, floats
from tests.relay_modules import assert_close, graph, var
from tests.rewrite.proof import prove
from tests.schedules.blocked_blocks import unscheduled
from tests.zoo.networks.published import count, printed
from tvm_fusionx import schedules
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.converters import CONVERTERS, linear
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.rewrite.engine import apply_rules
from tvm_fusionx.rewrite.rules import limits
from tvm_fusionx.schedules import Family, describe_cpu, resolve_target, schedule
from tvm_fusionx.zoo import recipe, recipes

PAGES = Path(__file__).resolve().parent.parent / "docs" / "how-to"
TARGET = resolve_target("llvm -mcpu=native")
X, Y = var("x", 64, 256), var("y", 64, 256)


def blocks(page: str) -> list[str]:
    """Return the Python of a page, block by block."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def written(source: str, scope: dict[str, Any]) -> dict[str, Any]:
    """Run what a reader writes in a module that has `scope` already."""
    # Annotations are never evaluated in the modules that the pages speak of.
    exec(compile(f"from __future__ import annotations\n{source}", "how-to", "exec"), scope)
    return scope


def test_the_rule_holds_and_is_applied() -> None:
    source = blocks("add-a-rule")[0]
    rule = written(source, dict(vars(limits)))["sum_less_maximum"]
    assert prove(rule)
    before = graph((X + Y) - relay.maximum(X, Y))
    apply_rules(before, [rule])
    assert [node.op for node in before.calls()] == ["minimum"]


@pytest.fixture(name="flat")
def fixture_flat(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put the page's template in front of all others."""
    source, imports = blocks("add-a-template")[:2]
    first = "import math\nfrom dataclasses import dataclass\nfrom typing import Any\n"
    template = written(f"{first}{imports}{source}", {"__name__": __name__})["FLAT"]
    family = Family(describe_cpu, (template, *schedules.CPU_TEMPLATES))
    monkeypatch.setitem(schedules.FAMILIES, "llvm", family)
    return template


def test_the_template_serves_and_its_numbers_are_right(flat: Any) -> None:
    scheduled = schedule(unscheduled(relay.add(X, Y)), TARGET)
    assert scheduled.template == flat.name
    x, y = (np.random.default_rng(seed).random((64, 256), "float32") for seed in (0, 1))
    out = tvm.nd.array(np.zeros_like(x))
    compile_kernel(scheduled.func, TARGET, "kernel")(tvm.nd.array(x), tvm.nd.array(y), out)
    assert_close([out.numpy()], [x + y], 1e-6)


def test_the_template_refuses_with_its_reasons(flat: Any) -> None:
    for body, why in (
        (relay.nn.softmax(X), "it has"),
        (relay.max(X, axis=1), "it sums"),
        (relay.exp(var("z", 3, 5)), "do not divide"),
        (relay.add(X, var("b", 256)), "other shapes"),
    ):
        refused = {
            each.template: each.reason for each in schedule(unscheduled(body), TARGET).refusals
        }
        assert why in refused[flat.name]


def test_the_converter_agrees_and_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Det" not in CONVERTERS, "the page needs another operator"
    monkeypatch.setitem(CONVERTERS, "Det", CONVERTERS["Gemm"])  # taken out again in the end
    written(blocks("add-a-converter")[0], dict(vars(linear)))
    check([Case("Det", [floats(4, n, n, seed=n)]) for n in (1, 2, 3)])
    with pytest.raises(UnsupportedOperatorError, match=r"at most 3 rows; found 4 rows"):
        check([Case("Det", [floats(2, 4, 4)])])


@pytest.mark.slow
def test_the_model_is_one_and_its_row_too() -> None:
    pytest.importorskip("torch")
    network, row = blocks("add-a-model")[:2]
    make = written(network.replace("from __future__ import annotations\n", ""), {})["alexnet"]
    assert count(make, (1, 3, 224, 224)).parameters == printed("61.1M")
    scope = {**vars(recipe), **vars(recipes)}
    assert "224x224" in eval(f"{{{row}}}", scope)["alexnet"].summary
