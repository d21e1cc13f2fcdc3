"""The documents: nothing in them names what is not there, and nothing public is missing in them."""

from __future__ import annotations

import importlib
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import tvm_fusionx
from tests.test_conventions import ROOMS
from tvm_fusionx import errors
from tvm_fusionx.schedules import ALL_TEMPLATES

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]

# What the site's hooks make (docs/site_hooks.py), out of files that lie elsewhere.
MADE = ("changelog.md", "results/full_run.md", "results/templates.md", "results/results.html")

# Folders that paths in texts begin in.
BASES = (ROOT, ROOT / "tvm_fusionx", ROOT / "tvm_fusionx" / "schedules")
FOLDERS_OF_USERS = ("out/", "records/", "server/", "equal-budget/")
# What the how-to pages let a reader write; they may not be there, or a page tells old news.
EXAMPLES = (
    "tvm_fusionx/schedules/rows/flat.py",
    "tests/frontend/test_float8.py",
    "tests/schedules/rows/test_flat.py",
    "tests/zoo/networks/test_alexnet.py",
    "tvm_fusionx/zoo/networks/alexnet.py",
)
A_PATH = re.compile(r"(?<![\w./~:$-])((?:[\w.-]+/)+(?:[\w.-]+\.(?:py|json|md|ipynb|txt|cc|h))?)")
A_FILE = re.compile(r"`([a-z_0-9]+\.py)`")
A_LINK = re.compile(r"\]\(([^)\s]+)\)")
A_DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
A_COMMIT = re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,8}\b")

LONGEST = {"CHANGELOG.md": 60, "docs/limits.md": 60}

TROUBLE = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _tracked() -> frozenset[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout: the list of tracked files is missing")
    return frozenset(name for name in listed.stdout.split("\0") if name)


@cache
def _base_names() -> frozenset[str]:
    return frozenset(name.rpartition("/")[2] for name in _tracked())


def _leaves(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for inner in entry.values() if isinstance(entry, dict) else entry:
            yield from _leaves(inner)


def _site() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(_text(ROOT / "mkdocs.yml"))
    return loaded


def test_every_page_is_in_the_navigation_once() -> None:
    entries = list(_leaves(_site()["nav"]))
    assert len(entries) == len(set(entries))
    pages = {path.relative_to(DOCS).as_posix() for path in PAGES}
    assert set(entries) == pages | {each for each in MADE if each.endswith(".md")}


def test_the_site_loads_nothing_from_elsewhere() -> None:
    site = _site()
    assert site["theme"]["font"] is False
    assert site["use_directory_urls"] is False
    # Its script for searching in a folder comes from another machine.
    assert "offline" not in site["plugins"]
    assert not {"extra_css", "extra_javascript"} & site.keys()


@pytest.mark.parametrize("path", TEXTS, ids=_name)
def test_every_link_leads_to_a_file(path: Path) -> None:
    text = re.sub(r"```.*?```", "", _text(path), flags=re.DOTALL)
    links = [link.partition("#")[0] for link in A_LINK.findall(text) if "://" not in link]
    made = {DOCS / each for each in MADE}
    lost = [
        link
        for link in links
        if link and not (at := (path.parent / link).resolve()).exists() and at not in made
    ]
    assert not lost


@pytest.mark.parametrize("path", TEXTS, ids=_name)
def test_every_path_that_is_named_exists(path: Path) -> None:
    text = A_LINK.sub("]", _text(path))
    named = {each for each in A_PATH.findall(text) if not re.search(r"[A-Z]{3}", each)}
    named = {each for each in named if not each.startswith(FOLDERS_OF_USERS)}
    lost = [
        each
        for each in named - set(EXAMPLES)
        if ("." in each.rpartition("/")[2] or f"`{each}`" in text)
        and not any((base / each).exists() for base in BASES)
    ]
    lost += [each for each in A_FILE.findall(text) if each not in _base_names()]
    assert not lost


def test_examples_are_still_to_be_written() -> None:
    assert [each for each in EXAMPLES if any((base / each).exists() for base in BASES)] == []


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_every_import_in_an_example_is_there(path: Path) -> None:
    blocks = "\n".join(re.findall(r"```python[^\n]*\n(.*?)```", _text(path), flags=re.DOTALL))
    for module, names in re.findall(r"from (tvm_fusionx[\w.]*) import ([\w, ]+)", blocks):
        at = ROOT / module.replace(".", "/")
        source = at.with_suffix(".py") if at.with_suffix(".py").exists() else at / "__init__.py"
        assert source.exists(), module
        missing = [
            name for name in names.split(", ") if not re.search(rf"\b{name}\b", _text(source))
        ]
        assert not missing, module


@pytest.mark.parametrize("path", TEXTS, ids=_name)
def test_no_text_tells_a_day_or_a_commit(path: Path) -> None:
    text = A_LINK.sub("]", _text(path))
    assert A_DATE.findall(text) == []
    assert A_COMMIT.findall(text) == []


@pytest.mark.parametrize("name", LONGEST)
def test_what_is_to_be_short_is_short(name: str) -> None:
    assert len(_text(ROOT / name).splitlines()) <= LONGEST[name]


def test_the_changelog_has_a_line_a_thing() -> None:
    text = _text(ROOT / "CHANGELOG.md")
    assert re.findall(r"^### (.*)$", text, flags=re.MULTILINE) == ["Added", "Changed", "Fixed"]
    body = [line for line in text.splitlines()[3:] if line and not line.startswith("#")]
    assert [line for line in body if not line.startswith("- ")] == []


def test_every_public_name_is_in_the_reference() -> None:
    text = _text(DOCS / "reference" / "python.md")
    functions = {
        name
        for name in tvm_fusionx.__all__
        if callable(getattr(tvm_fusionx, name)) and not name.startswith("_")
    }
    documented = set(re.findall(r"^::: tvm_fusionx[\w.]*\.(\w+)$", text, flags=re.MULTILINE))
    assert functions <= documented


def test_everything_in_the_reference_is_there() -> None:
    for path in (DOCS / "reference").glob("*.md"):
        for dotted in re.findall(r"^::: (tvm_fusionx[\w.]*)$", _text(path), flags=re.MULTILINE):
            module, _, name = dotted.rpartition(".")
            place = ROOT / dotted.replace(".", "/")
            is_module = place.with_suffix(".py").exists() or place.is_dir()
            assert is_module or hasattr(importlib.import_module(module), name), dotted


def test_every_template_is_in_the_list_of_templates() -> None:
    text = _text(DOCS / "concepts" / "templates.md")
    assert [each.name for each in ALL_TEMPLATES if f"`{each.name}`" not in text] == []


@cache
def _sources() -> str:
    # A message is written in several strings; what lies between two of them is no part of it.
    text = "\n".join(map(_text, sorted((ROOT / "tvm_fusionx").rglob("*.py"))))
    return re.sub(r'"\s*\n\s*f?"', "", text)


def _told() -> list[str]:
    rows = re.findall(r"^\| (.*?) \|", TROUBLE, flags=re.MULTILINE)
    ours = [row for row in rows if "(TVM)" not in row]
    return [phrase for row in ours for phrase in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("phrase", _told())
def test_a_message_that_is_told_is_one_that_is_said(phrase: str) -> None:
    assert phrase in _sources() or phrase in _sources().replace("\\", "") or hasattr(errors, phrase)


def test_every_error_is_in_the_troubleshooting() -> None:
    kinds = [name for name in vars(errors) if name.endswith("Error") and name != "FusionXError"]
    assert [name for name in kinds if name not in TROUBLE] == []


def test_the_glossary_is_in_order() -> None:
    words = re.findall(r"^\| ([^|]+?) \|", _text(DOCS / "glossary.md"), flags=re.MULTILINE)[2:]
    assert len(words) > 50
    assert words == sorted(words, key=str.lower)


def test_the_rooms_are_those_that_imports_are_held_to() -> None:
    table = _text(ROOT / "CONTRIBUTING.md").partition("## The rooms")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", table, flags=re.MULTILINE)
    rooms = [name for cell in cells for name in re.findall(r"`(\w+)(?:/|\.py)`", cell)]
    assert rooms == list(ROOMS)


@pytest.mark.parametrize("page", ["template", "processor", "an-element-type", "rule"])
def test_the_readme_leads_straight_to_what_is_added_most(page: str) -> None:
    assert re.search(rf"\]\(docs/how-to/add-(?:a-)?{page}\.md\)", _text(ROOT / "README.md"))
