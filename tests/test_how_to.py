"""The how-to pages: what they let a reader write still does what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tvm import relay

from tests.frontend.onnx_nodes import Case, check, floats
from tests.relay_modules import graph, var
from tests.rewrite.proof import prove
from tests.zoo.networks.published import count, printed
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.converters import CONVERTERS, linear
from tvm_fusionx.rewrite.engine import apply_rules
from tvm_fusionx.rewrite.rules import limits
from tvm_fusionx.zoo import recipe, recipes

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "how-to"
X, Y = var("x", 64, 256), var("y", 64, 256)

# The tests that each page names for what it writes; of large files those that it is about.
TESTS_OF_PAGES = {
    "add-a-template": [
        "tests/schedules/rows/test_flat.py",
        "tests/schedules/test_every_template.py",
        "tests/test_lowering.py",
        "tests/schedules/test_on_arm.py",
        "tests/test_docs.py::test_every_template_is_in_the_list_of_templates",
        *("-k", "flat or its_row or logged or tvms_own or list_of_templates or every_template_has"),
    ],
    "add-an-element-type": [
        "tests/frontend/test_float8.py",
        "tests/frontend/test_element_types.py",
        "tests/frontend/converters/test_casts.py",
        "tests/schedules/test_data_types.py",
        *("-k", "not test_data_types or (int16 and not float16 and (dense or transposed))"),
    ],
}

# What a reader has: the sources, and what their tests read.
SOURCES = ("tvm_fusionx", "tests", "docs", "benchmarks")
LOOSE = ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "mkdocs.yml")


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


def _changed(text: str, diff: str) -> str:
    """Return `text` after each hunk of `diff`, whose old lines must stand in it once."""
    for hunk in re.split(r"^@@\n", diff, flags=re.MULTILINE)[1:]:
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] or line for line in lines if line[0] != "+")
        new = "".join(line[1:] or line for line in lines if line[0] != "-")
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def _write(page: str, sources: Path) -> list[str]:
    """Do what a page says to files; return their paths, the Python among them."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    files = re.findall(r"^```(\w+) title=\"(.*?)\"\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for language, name, body in files:
        path = sources / name
        if language == "diff":
            body = _changed(path.read_text(encoding="utf-8"), body)
        else:
            assert not path.exists(), f"{name} is there: the page needs another example"
        path.write_text(body, encoding="utf-8")
    return [name for _, name, _ in files if name.endswith(".py")]


def _run(sources: Path, *words: str) -> None:
    """Run a module of Python in `sources`, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=sources,
        env={**os.environ, "PYTHONPATH": str(sources)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(name="sources")
def fixture_sources(tmp_path: Path) -> Path:
    """Return a copy of the sources, to write in."""
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for name in LOOSE:
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", TESTS_OF_PAGES)
def test_what_a_page_writes_passes_the_tests_that_it_names(page: str, sources: Path) -> None:
    names = _write(page, sources)
    for words in (["ruff", "check"], ["ruff", "format", "--check"]) if names else ():
        _run(sources, *words, *names)
    _run(sources, "pytest", "-q", "-p", "no:cacheprovider", *TESTS_OF_PAGES[page])


def test_rows_that_a_page_quotes_are_there() -> None:
    text = (PAGES / "add-a-processor.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^```json title=\"(.*?)\"\n(.*?)\n```", text, re.DOTALL | re.MULTILINE)
    assert quoted
    for name, row in quoted:
        assert row in (ROOT / name).read_text(encoding="utf-8")


def test_the_converter_agrees_and_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "ai.onnx.ml.Scaler" not in CONVERTERS, "the page needs another operator"
    # Taken out again in the end.
    monkeypatch.setitem(CONVERTERS, "ai.onnx.ml.Scaler", CONVERTERS["Gemm"])
    written(blocks("add-a-converter")[0], dict(vars(linear)))
    scales = {"offset": [1.0, 2.0, 3.0], "scale": [0.5]}
    check([Case("Scaler", [floats(4, 3)], scales, domain="ai.onnx.ml")])
    with pytest.raises(UnsupportedOperatorError, match=r"1 or 4 numbers; found 3 and 1"):
        check([Case("Scaler", [floats(4, 4)], scales, domain="ai.onnx.ml", expected=[])])


BUILD_ON_THE_BOARD = """
import tvm_fusionx as fx
from tests.relay_modules import const, inputs_of, module, run_plain, var
from tvm import relay
from tvm_fusionx.report.bench.plain_tvm import run_once

mod = module(relay.nn.relu(relay.nn.dense(var("x", 8, 16), const(32, 16))))
library = fx.build(mod, "acme/board-2")
blocks, log = library.fusionx_built_from
print("acme.layout=\\"rows\\"" in blocks.astext(), [entry.template for entry in log.entries])
print(abs(run_once(library, inputs_of(mod))[0] - run_plain(mod, inputs_of(mod))[0]).max() < 1e-5)
print(fx.phases("acme/board-2").names)
"""


def test_a_backend_of_another_package_is_served(tmp_path: Path) -> None:
    """The page's package is installed as pip would: a module, and its entry points beside it."""
    _write("add-a-backend", tmp_path)
    entry = re.findall(r'^acme = "(.*)"$', (tmp_path / "pyproject.toml").read_text(), re.MULTILINE)
    information = tmp_path / "acme_fusionx-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-fusionx\nVersion: 1.0\n"
    )
    (information / "entry_points.txt").write_text(f"[tvm_fusionx.backends]\nacme = {entry[0]}\n")
    done = subprocess.run(
        [sys.executable, "-c", BUILD_ON_THE_BOARD],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "True ['dot']",
        "True",
        "('outline', 'rewrite', 'fuse', 'layout', 'precision', 'float32', 'textures')",
    ]
    passes = written(blocks("add-a-backend")[0], {})["passes"]
    names = [step.info.name for step in passes.passes]
    assert names.index("FoldConstant") + 1 == names.index("tvm_fusionx.FuseByMapping")
    assert "tvm_fusionx.PackLayouts" not in names


def test_several_shapes_are_built_and_run() -> None:
    (example,) = blocks("several-shapes")
    assert len(written(example, {})["programs"].programs) == 2


@pytest.mark.slow
def test_the_model_is_one_and_its_row_too() -> None:
    pytest.importorskip("torch")
    network, row = blocks("add-a-model")[:2]
    make = written(network.replace("from __future__ import annotations\n", ""), {})["alexnet"]
    assert count(make, (1, 3, 224, 224)).parameters == printed("61.1M")
    scope = {**vars(recipe), **vars(recipes)}
    assert "224x224" in eval(f"{{{row}}}", scope)["alexnet"].summary
