"""What a newcomer sees of the package: its names, what their signatures say, how long those are."""

from __future__ import annotations

import enum
import importlib
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tvm

import tvm_fusionx as fx
from tests.relay_modules import TARGET, module, var
from tvm_fusionx.rewrite import ALL_RULES

ROOT = Path(fx.__file__).resolve().parent

# What fits on a screen of a notebook.
LONGEST_SIGNATURE = 600


def _public() -> dict[str, Any]:
    """Return the functions and classes that the package and its rooms offer, by name."""
    rooms = [
        "tvm_fusionx",
        *(f"tvm_fusionx.{path.parent.name}" for path in ROOT.glob("*/__init__.py")),
    ]
    found = {}
    for room in rooms:
        home = importlib.import_module(room)
        for name in getattr(home, "__all__", ()):
            thing = getattr(home, name)
            own = str(getattr(thing, "__module__", "")).startswith("tvm_fusionx")
            if own and (inspect.isfunction(thing) or inspect.isclass(thing)):
                found[f"{room}.{name}"] = thing
    return found


def _has_pythons_signature(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, (Exception, enum.Enum))


PUBLIC = {name: thing for name, thing in _public().items() if not _has_pythons_signature(thing)}


def test_the_signatures_of_every_room_are_looked_at() -> None:
    assert {
        "tvm_fusionx.verify",
        "tvm_fusionx.passes.RewriteGraph",
        "tvm_fusionx.zoo.export",
    } <= set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_signature_is_short_and_typed(name: str) -> None:
    signature = inspect.signature(PUBLIC[name])
    assert len(str(signature)) <= LONGEST_SIGNATURE
    assert " at 0x" not in str(signature), "a default that says nothing to a person"
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, parameter.name


@pytest.mark.parametrize("name", [name for name in fx.__all__ if callable(getattr(fx, name))])
def test_every_function_of_the_package_names_its_options(name: str) -> None:
    parameters = inspect.signature(getattr(fx, name)).parameters.values()
    assert all(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


def test_the_names_of_the_package_are_its_public_ones() -> None:
    assert dir(fx) == sorted(fx.__all__)
    assert {"bench", "from_onnx", "schedules", "zoo"} <= set(dir(fx))
    assert all(getattr(fx, name) is not None for name in dir(fx))
    with pytest.raises(AttributeError, match="has no attribute 'bnech'"):
        _ = fx.bnech


def test_what_needs_other_packages_is_imported_when_it_is_asked_for() -> None:
    script = (
        "import sys, tvm_fusionx as fx\n"
        "heavy = ('onnx', 'torch', 'tvm_fusionx.zoo', 'tvm_fusionx.frontend')\n"
        "print([name for name in heavy if name in sys.modules])\n"
        "print(len(fx.zoo.names()) > 0, callable(fx.from_onnx))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[]", "True True"], done.stderr


def test_a_rule_prints_its_name() -> None:
    assert repr(ALL_RULES[0]) == f"<Rule {ALL_RULES[0].name}>"


def _of_the_model(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **options: function(module(tvm.relay.exp(var("x", 4))), TARGET, **options)


@pytest.mark.parametrize(
    "function",
    [
        _of_the_model(fx.build),
        _of_the_model(fx.explain),
        lambda **options: fx.pipeline(TARGET, **options),
        lambda **options: fx.tune(module(tvm.relay.exp(var("x", 4))), **options),
    ],
    ids=["build", "explain", "pipeline", "tune"],
)
def test_an_unknown_option_fails_as_python_does(function: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'palnner'"):
        function(palnner="optimal")


def test_the_options_of_a_build_are_those_of_the_pipeline_and_of_explain() -> None:
    def options(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
        named = inspect.signature(function).parameters.values()
        return {p.name: (p.default, p.annotation) for p in named if p.kind is p.KEYWORD_ONLY}

    of_build = options(fx.build)
    # What is made of the passes' module is no matter of theirs.
    for name in ("shapes", "executor", "memory_limit"):
        of_build.pop(name)
    # Who changes the order of passes builds inside ``fx.lowering``.
    of_pipeline = options(fx.pipeline)
    for name in ("before", "after", "without"):
        of_pipeline.pop(name)
    assert of_build == of_pipeline == options(fx.phases)
    of_explain = options(fx.explain)
    # What was built already, and is told of.
    of_explain.pop("library")
    assert of_explain.items() == of_build.items() - {
        item for item in of_build.items() if item[0] == "precision"
    }


def test_settings_of_a_session_are_options_of_tune() -> None:
    settings = inspect.signature(importlib.import_module("tvm_fusionx.tuning.settings").Settings)
    named = inspect.signature(fx.tune).parameters
    for name, setting in settings.parameters.items():
        assert (named[name].default, named[name].annotation) == (
            setting.default,
            setting.annotation,
        )
