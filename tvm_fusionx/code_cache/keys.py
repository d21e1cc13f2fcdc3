"""What a kernel's machine code depends on, as one digest."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import tvm

from tvm_fusionx.late_passes.context import ADD_LOWER_PASS
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.version import VERSION

# Of what is kept: entries of another format have other keys.
FORMAT = 1
PACKAGE = Path(__file__).resolve().parents[1]
# Rooms with the code that a scheduled block passes on its way to LLVM.
ROOMS_OF_LOWERING = ("_tvm", "code_cache", "late_passes", "processors", "tir")
SYMBOL_START = "fusionx_kernel_"
SYMBOL = "global_symbol"


def kernel_keys(target: tvm.target.Target, denormals: str) -> Callable[[Any], str]:
    """Return what tells the key of a scheduled block that is compiled here and now.

    The key is a digest of the block, every number and name in it; of the target and what a schedule
    sees of its processor; of the current ``PassContext``; of the versions of TVM and LLVM; and of
    the sources of our passes.

    Parameters
    ----------
    target
        A CPU.
    denormals
        What the passes were made with that are in the context.
    """
    around = hashlib.sha256(surroundings(target, denormals).encode())

    def key_of(func: Any) -> str:
        digest = around.copy()
        plain = func.without_attr(SYMBOL) if SYMBOL in (func.attrs or {}) else func
        digest.update(_MAP.sub(_in_order, tvm.ir.save_json(plain)).encode())
        return digest.hexdigest()

    return key_of


def block_keys(target: tvm.target.Target, denormals: str) -> Callable[[str, str], str]:
    """Return what tells the key of a block before it is scheduled.

    It depends on what :func:`kernel_keys` has, and on all sources of the package: which templates
    read what, nobody has to write down.

    Returns
    -------
    key_of
        Of the unscheduled block as TVM's JSON, and a text of its tuning record.
    """
    around = hashlib.sha256((surroundings(target, denormals) + _all_sources()).encode())

    def key_of(text: str, record: str) -> str:
        digest = around.copy()
        digest.update(f"{len(record)} {record}".encode())
        digest.update(_MAP.sub(_in_order, text).encode())
        return digest.hexdigest()

    return key_of


def surroundings(target: tvm.target.Target, denormals: str) -> str:
    """Return all that code depends on beside its block, as one text: see :func:`kernel_keys`."""
    context = tvm.transform.PassContext.current()
    config = {key: value for key, value in context.config.items() if key != ADD_LOWER_PASS}
    facts = [
        FORMAT,
        VERSION,
        _compiler(),
        _sources(),
        str(target),
        _text_of(describe_cpu(target)),
        denormals,
        int(context.opt_level),
        sorted(map(str, context.required_pass)),
        sorted(map(str, context.disabled_pass)),
        sorted((str(key), _text_of(value)) for key, value in config.items()),
    ]
    return repr(facts)


# A map of TVM's as JSON: numbers of keys and values, in the order of their addresses; a long one
# is a line a number.
_MAP = re.compile(r'("type_key": "Map",\s*"data": )\[([0-9,\s]*)\]')


def _in_order(found: re.Match[str]) -> str:
    numbers = list(map(int, found[2].split(","))) if found[2].strip() else []
    return found[1] + str(sorted(zip(numbers[::2], numbers[1::2], strict=True)))


def symbol_of(key: str) -> str:
    """Return the name of the function with the code of a key: equal names, equal code."""
    return SYMBOL_START + key[:SYMBOL_DIGITS]


# Of a symbol: 128 bits.
SYMBOL_DIGITS = 32


@functools.cache
def _compiler() -> str:
    facts = tvm.support.libinfo()
    told = ("TVM_VERSION", "GIT_COMMIT_HASH", "GIT_COMMIT_TIME", "LLVM_VERSION")
    return repr([tvm.__version__, *(str(facts.get(name, "")) for name in told)])


@functools.cache
def _sources() -> str:
    return _digest_of(path for room in ROOMS_OF_LOWERING for path in _files(PACKAGE / room, "*.py"))


@functools.cache
def _all_sources() -> str:
    return _digest_of(path for kind in ("*.py", "*.json") for path in _files(PACKAGE, kind))


def _files(folder: Path, kind: str) -> list[Path]:
    return sorted(folder.rglob(kind))


def _digest_of(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(str(path.relative_to(PACKAGE)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _text_of(thing: Any) -> str:
    """Return a text that is the same in every process: no addresses, and sets in one order."""
    if isinstance(thing, tvm.Object) and not isinstance(thing, str):
        return str(tvm.ir.save_json(thing))
    if is_dataclass(thing) and not isinstance(thing, type):
        return repr([(each.name, _text_of(getattr(thing, each.name))) for each in fields(thing)])
    if isinstance(thing, (set, frozenset)):
        return repr(sorted(map(_text_of, thing)))
    if isinstance(thing, (tuple, list)):
        return repr([_text_of(each) for each in thing])
    return repr(thing)
