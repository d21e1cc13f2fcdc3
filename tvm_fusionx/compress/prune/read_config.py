"""A configuration of pruning from a small file: YAML, TOML or JSON.

It is read strictly: a word that nobody would look at is an error. No value is code.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tvm_fusionx._tvm.presence import install_command
from tvm_fusionx.compress.prune.config import METHODS, OPTIMIZERS, Budget, PruneConfig, Training
from tvm_fusionx.compress.prune.layouts import LAYER_KINDS
from tvm_fusionx.compress.prune.structures import (
    BLOCK,
    CONNECTIVITY,
    FILTER,
    KINDS,
    N_M,
    PATTERN,
    PATTERN_DENSITY,
    UNSTRUCTURED,
    Structure,
)
from tvm_fusionx.compress.prune.words import (
    Reader,
    flag,
    number,
    one_of,
    read_table,
    refusal,
    whole,
)
from tvm_fusionx.errors import InputError, MissingDependencyError

MOST_PATTERNS, MOST_GROUP = 64, 1024
LEAST_RHO = 1e-9


def _block_size(value: Any) -> tuple[int, int]:
    pair = (value, 1) if isinstance(value, int) else value
    return _pair(pair, "a number of rows, or [rows, columns]")


def _n_m(value: Any) -> tuple[int, int]:
    pair = _pair(value, "[n, m]: of each m weights n are zero")
    if pair[0] >= pair[1]:
        raise ValueError("[n, m] with n below m: of each m weights n are zero")
    return pair


def _pair(value: Any, expected: str) -> tuple[int, int]:
    read = whole(1, MOST_GROUP)
    try:
        first, second = (read(each) for each in value)
    except (TypeError, ValueError) as error:
        raise ValueError(expected) from error
    return first, second


def _rho(value: Any) -> tuple[float, ...]:
    stages = value if isinstance(value, list) else [value]
    if not stages:
        raise ValueError("one number, or a list of them")
    return tuple(number(LEAST_RHO, 1e6)(each) for each in stages)


_STRUCTURE: dict[str, Reader] = {
    "structure": one_of(*KINDS),
    "target_sparsity": number(0, 1, open_end=True),
    "group_size": whole(1, MOST_GROUP),
    "block_size": _block_size,
    "n_m_ratio": _n_m,
    "patterns": whole(1, MOST_PATTERNS),
    "entries": whole(1, MOST_GROUP),
    "balanced": flag,
}
# Words that only some structures look at.
_ONLY_FOR = {
    "group_size": (PATTERN, CONNECTIVITY),
    "block_size": (BLOCK,),
    "n_m_ratio": (N_M,),
    "patterns": (PATTERN,),
    "entries": (PATTERN,),
    "balanced": (PATTERN, CONNECTIVITY, BLOCK, UNSTRUCTURED),
    "target_sparsity": (PATTERN, CONNECTIVITY, BLOCK, UNSTRUCTURED, FILTER),
}
_TRAINING: dict[str, Reader] = {
    "method": one_of(*METHODS),
    "prune_steps": whole(0),
    "retrain_steps": whole(0),
    "update_every": whole(1),
    "optimizer": one_of(*OPTIMIZERS),
    "learning_rate": number(0, 100),
    "weight_decay": number(0, 100),
    "momentum": number(0, 1, open_end=True),
    "warm_up": number(0, 1),
    "rho": _rho,
    "distillation": number(0, 1e6),
    "temperature": number(1e-3, 1e3),
    "seed": whole(0, (1 << 31) - 1),
    "checkpoint_every": whole(1),
}
_BUDGET: dict[str, Reader] = {
    "target_latency_ms": number(1e-6, 1e9),
    "target_accuracy": number(-1e9, 1e9),
    "trials": whole(1, 20),
}


def _structure(thing: str) -> Reader:
    def read(given: Any) -> Structure | None:
        if given is None:
            return None
        values = read_table(thing, given, _STRUCTURE)
        kind = values.pop("structure", UNSTRUCTURED)
        for word in values:
            if kind not in _ONLY_FOR[word]:
                words = ", ".join(_ONLY_FOR[word])
                raise refusal(f"{thing}: {word}", f"a structure that has it ({words})", kind)
        needed = "n_m_ratio" if kind == N_M else "target_sparsity"
        if kind == PATTERN:
            # What a pattern leaves out by itself: no kernel is cut.
            values.setdefault("target_sparsity", 1 - PATTERN_DENSITY)
        if needed not in values:
            raise refusal(
                thing, f"{needed} for the structure {kind!r}", ", ".join(values) or "none"
            )
        if kind == N_M:
            values["target_sparsity"] = values["n_m_ratio"][0] / values["n_m_ratio"][1]
        return Structure(kind, **values)

    return read


def _types(given: Any) -> dict[str, Structure | None]:
    readers = {kind: _structure(f"op_type_configs.{kind}") for kind in LAYER_KINDS}
    return read_table("op_type_configs", given, readers)


def _names(given: Any) -> dict[str, Structure | None]:
    words = given if isinstance(given, Mapping) else {}
    readers = {name: _structure(f"op_name_configs.{name}") for name in words}
    return read_table("op_name_configs", given, readers)


def _budget(given: Any) -> Budget:
    budget = Budget(**read_table("budget", given, _BUDGET))
    if budget.target_latency_ms is not None and budget.target_accuracy is not None:
        raise refusal("budget", "target_latency_ms or target_accuracy", "both")
    return budget


_WORDS: dict[str, Reader] = {
    "global_config": _structure("global_config"),
    "op_type_configs": _types,
    "op_name_configs": _names,
    "weight_threshold": whole(0),
    "training": lambda given: Training(**read_table("training", given, _TRAINING)),
    "budget": _budget,
}


def parse_config(given: Any, thing: str = "the configuration") -> PruneConfig:
    """Return a configuration from tables of plain values.

    Raises
    ------
    InputError
        A word is unknown, or a value is none.
    """
    return PruneConfig(**read_table(thing, given, _WORDS))


def read_config(source: PruneConfig | Mapping[str, Any] | str | Path) -> PruneConfig:
    """Return a configuration from a file (``.yaml``, ``.toml``, ``.json``) or a table.

    Raises
    ------
    InputError
        The file is not there or not readable as what its name says, or has words or values that are
        none.
    MissingDependencyError
        The package that reads such files is not installed.
    """
    if isinstance(source, PruneConfig):
        return source
    if isinstance(source, Mapping):
        return parse_config(source)
    path = Path(source)
    thing = f"configuration {path}"
    reader = _FILES.get(path.suffix.lower())
    if reader is None or not path.is_file():
        found = "no such file" if reader else f"a name that ends in {path.suffix!r}"
        raise refusal(thing, f"a file that ends in {', '.join(_FILES)}", found)
    try:
        given = reader(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        said = " ".join(str(error).split())
        raise refusal(thing, f"a file of {path.suffix[1:]}", said) from error
    return parse_config(given, thing)


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise _missing("YAML", "pyyaml", error) from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _toml(text: str) -> Any:
    # Python's own from 3.11 on.
    name = "tomllib" if importlib.util.find_spec("tomllib") else "tomli"
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise _missing("TOML", "tomli", error) from error
    return module.loads(text)


def _missing(what: str, package: str, error: ImportError) -> MissingDependencyError:
    return MissingDependencyError(
        f"reading a configuration in {what}",
        expected=f"the package {package}",
        found=str(error),
        next_step=f"Install it with: {install_command(package)}; or write it in JSON.",
    )


_FILES: dict[str, Callable[[str], Any]] = {
    ".yaml": _yaml,
    ".yml": _yaml,
    ".toml": _toml,
    ".json": json.loads,
}
