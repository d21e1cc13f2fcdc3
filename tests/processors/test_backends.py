from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator

import pytest

from tvm_fusionx.errors import BackendError
from tvm_fusionx.processors.backends import ENTRY_POINTS, load_backends


@pytest.fixture(autouse=True)
def _as_in_a_new_process() -> Iterator[None]:
    load_backends.cache_clear()
    yield
    load_backends.cache_clear()


def _installed(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entry = importlib.metadata.EntryPoint("board", value, ENTRY_POINTS)
    real = importlib.metadata.entry_points

    def entry_points(*, group: str) -> object:
        return (entry,) if group == ENTRY_POINTS else real(group=group)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


calls: list[str] = []


def register() -> None:
    calls.append("register")


def fail() -> None:
    raise OSError("no such chip")


def test_what_a_package_names_is_called_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls.clear()
    _installed(monkeypatch, f"{__name__}:register")
    assert load_backends() == load_backends() == ("board",)
    assert calls == ["register"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (f"{__name__}:fail", "OSError: no such chip"),
        (f"{__name__}:absent", "AttributeError"),
        ("no_such_package:register", "ModuleNotFoundError"),
        (f"{__name__}:calls", "TypeError"),
    ],
)
def test_a_package_that_fails_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str, found: str
) -> None:
    _installed(monkeypatch, value)
    with pytest.raises(BackendError, match=f"backend 'board' of {value}.*{found}"):
        load_backends()


def test_without_such_packages_there_are_none() -> None:
    found: Callable[[], tuple[str, ...]] = load_backends
    assert found() == ()
