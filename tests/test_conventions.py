"""The layout of the repository, held by tests: one fact, one spelling, one direction of imports."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tvm_fusionx"

# The way of a model through the house: a room imports only from itself and from rooms above it.
ROOMS = (
    *("version", "errors", "_tvm", "output_file", "cache_folder", "compiled_sources"),
    "runtime",
    *("threads", "inputs"),
    "operators",
    "ecg",
    "frontend",
    "rewrite",
    "processors",
    "tir",
    "reuse",
    "expressions",
    "sparse",
    "gguf",
    "late_passes",
    "code_cache",
    "schedules",
    "layout",
    "fusion",
    "passes",
    "records",
    "blocks",
    "lowering",
    "measuring",
    "memory",
    "devices",
    "build",
    "bundle",
    "report",
    "counting",
    "compress",
    "tuning",
    "zoo",
    "search",
    "apps",
    "cli",
)

# All that lies loose at the top of the package.
LOOSE = (
    *(
        "__init__",
        "__main__",
        "cache_folder",
        "compiled_sources",
        "errors",
        "inputs",
        "lowering",
        "output_file",
    ),
    *("threads", "version"),
)

# Rooms whose files are rows of one table, each row checked by the one test of the table.
TESTED_AS_A_TABLE = {
    # Every rule is checked by its own declaration.
    "rewrite/rules": "rewrite/test_rules.py",
}

MAX_LINES = 400
MAX_TRACKED_BYTES = 1 << 20
NAMES_THAT_SAY_NOTHING = re.compile(r"^(utils?|helpers?|common|core|misc|managers?)$")
ABSOLUTE_PATHS_OF_ONE_MACHINE = re.compile(r"(?<![\w.])/(?:work|home|root)/\w")
MAY_PRINT = ("cli",)

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)
TESTED_MODULES = [path for path in MODULES if path.name not in ("__init__.py", "__main__.py")]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _room(dotted: str) -> str:
    """Return the room of ``tvm_fusionx.room.module.name``."""
    return dotted.split(".")[1] if "." in dotted else ""


@cache
def _tracked() -> tuple[Path, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout: the list of tracked files is missing")
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return tuple(path for path in paths if path.is_file() and not path.is_symlink())


def _imported(path: Path) -> set[str]:
    """Return the dotted names of this package's modules that a file imports, at any depth."""
    names = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{_name(path)}: relative import; spell the whole name"
            module = node.module or ""
            names.add(module)
            names.update(f"{module}.{alias.name}" for alias in node.names)
    return {name for name in names if name.startswith("tvm_fusionx.")}


@pytest.mark.parametrize("path", TESTED_MODULES, ids=_name)
def test_every_module_has_a_test_of_the_same_path(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    table = TESTED_AS_A_TABLE.get(relative.parent.as_posix())
    mirror = ROOT / "tests" / (table or relative.parent / f"test_{path.name.lstrip('_')}")
    assert mirror.is_file(), f"{_name(path)} needs {_name(mirror)}"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_point_one_way(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    if relative.parts[0] in ("__init__.py", "__main__.py"):
        return  # the package's own door opens to every room
    room = _room(".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert room in ROOMS, f"{room} is no room: add it to ROOMS at its place on the way"
    above = ROOMS[: ROOMS.index(room) + 1]
    wrong = {name for name in _imported(path) if _room(name) in ROOMS and _room(name) not in above}
    assert not wrong, f"{_name(path)} imports from rooms below it: {sorted(wrong)}"


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_import_runs_in_a_circle() -> None:
    modules = {_dotted(path): path for path in MODULES}
    imports: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    imports[name].add(inner if inner in modules else node.module)
        imports[name] &= modules.keys() - {name}
    # Modules that import none of those left go, until only circles and their readers stay.
    while free := [name for name, sources in imports.items() if not sources]:
        for name in free:
            del imports[name]
        for sources in imports.values():
            sources.difference_update(free)
    assert not imports, f"circles among {sorted(imports)}"


def test_nothing_lies_loose_at_the_top() -> None:
    assert {path.stem for path in PACKAGE.glob("*.py")} == set(LOOSE)


def _pass_files() -> list[Path]:
    """Return the modules that define a pass; the others only serve passes."""
    return [
        path
        for path in TESTED_MODULES
        if path.parent == PACKAGE / "passes" and "module_pass" in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("path", _pass_files(), ids=_name)
def test_a_pass_has_one_name_in_file_class_and_tvm(path: Path) -> None:
    expected = "".join(part.capitalize() for part in path.stem.split("_"))
    classes = [node for node in _tree(path).body if isinstance(node, ast.ClassDef)]
    named = {node.name: node for node in classes}
    assert expected in named, f"{_name(path)} must define the pass {expected}"
    decorators = [d for d in named[expected].decorator_list if isinstance(d, ast.Call)]
    values = {
        keyword.arg: keyword.value.value
        for decorator in decorators
        for keyword in decorator.keywords
        if isinstance(keyword.value, ast.Constant)
    }
    assert values.get("name") == f"tvm_fusionx.{expected}"
    # A Sequential silently skips a pass whose level is above its context's.
    assert values.get("opt_level") == 0


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_public_names_are_documented(path: Path) -> None:
    tree = _tree(path)
    assert ast.get_docstring(tree), f"{_name(path)} has no docstring"
    scopes: list[ast.Module | ast.ClassDef] = [
        tree,
        *(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"),
    ]
    missing = [
        node.name
        for scope in scopes
        for node in scope.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and not node.name.startswith("_")
        and not any(
            isinstance(decorator, ast.Name) and decorator.id in ("overload", "override")
            for decorator in node.decorator_list
        )
        and not ast.get_docstring(node)
    ]
    assert not missing, f"{_name(path)}: no docstring on {missing}"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_the_library_logs_and_never_prints(path: Path) -> None:
    if path.relative_to(PACKAGE).parts[0] in MAY_PRINT:
        return
    calls = [
        node.lineno
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not calls, f"{_name(path)} prints on lines {calls}: use logging"


def test_no_file_is_too_long_to_know() -> None:
    long = {
        _name(path): lines
        for path in _tracked()
        if path.suffix == ".py"
        and (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not long, f"over {MAX_LINES} lines: {long}"


def test_no_name_says_nothing() -> None:
    odd = [
        _name(path)
        for path in _tracked()
        if any(NAMES_THAT_SAY_NOTHING.match(part.split(".")[0]) for part in _name(path).split("/"))
    ]
    assert not odd


def test_no_folder_is_left_unlinted() -> None:
    command = [sys.executable, "-m", "ruff", "check", "--show-files", "."]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    linted = {Path(line).resolve() for line in listed.stdout.splitlines()}
    rooms = [ROOT / name for name in ("tvm_fusionx", "tests", "benchmarks")]
    sources = {path.resolve() for room in rooms for path in room.rglob("*.py")}
    assert sources <= linted


def test_no_folder_of_tests_is_left_out(pytestconfig: pytest.Config) -> None:
    left_out = pytestconfig.getini("norecursedirs")
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")}
    names = {name for folder in folders for name in folder.parts}
    assert not [name for name in names if any(fnmatch(name, each) for each in left_out)]


def test_no_file_is_heavy() -> None:
    heavy = [_name(path) for path in _tracked() if path.stat().st_size > MAX_TRACKED_BYTES]
    assert not heavy


def test_no_text_names_a_place_on_one_machine() -> None:
    found = []
    for path in _tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [_name(path)] if ABSOLUTE_PATHS_OF_ONE_MACHINE.search(text) else []
    assert not found


@pytest.mark.parametrize("link", ["passes", "schedules"])
def test_root_links_show_the_rooms(link: str) -> None:
    assert (ROOT / link).is_symlink()
    assert os.readlink(ROOT / link) == f"tvm_fusionx/{link}"
    assert (ROOT / link / "__init__.py").is_file()


def test_every_make_target_is_in_the_help() -> None:
    text = (ROOT / "Makefile").read_text()
    documented = set(re.findall(r"^([a-z-]+):.*##", text, flags=re.MULTILINE))
    promised = "help demo test test-fast check docs bench tutorials clean venv"
    assert documented >= set(promised.split())


def test_ci_runs_make_test_and_nothing_else() -> None:
    script = ROOT / ".ci" / "run"
    commands = [
        line.strip()
        for line in script.read_text().splitlines()
        if line.strip() and not line.startswith(("#", "set ", "cd "))
    ]
    assert commands == ["make test"]
    assert os.access(script, os.X_OK)
