"""The distinct blocks of the zoo's models, kept in a folder: as TensorIR, and compiled alone.

A block is known by its structural hash, the key of tuning records. ``KEY.tir`` is it unscheduled,
``KEY.so`` its kernel; ``MODEL.json`` says which blocks a model has.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relay
from tvm.relay.backend.te_compiler import lower_to_primfunc

import tvm_fusionx as fx
from tvm_fusionx import zoo
from tvm_fusionx.build.kernels import BLOCK_ATTRIBUTE
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.build.pipeline import pipeline
from tvm_fusionx.ecg.block_calls import is_block_call, post_order
from tvm_fusionx.lowering import compile_kernel, lowering
from tvm_fusionx.output_file import new_file
from tvm_fusionx.schedules import schedule
from tvm_fusionx.schedules.lowering_log import block_hash
from tvm_fusionx.tir.indices import simplify_indices

TIR_CONVERTER = "relay.backend.tir_converter"
RESHAPE_ONLY = "relay.reshape_only"
SYMBOL = "block"


@dataclass(frozen=True)
class ModelBlock:
    """One distinct block of one model.

    Attributes
    ----------
    key
        Structural hash of the unscheduled block.
    template
        What serves it.
    name
        The first block of the model that is this one.
    count
        How many blocks of the model are.
    """

    key: str
    template: str
    name: str
    count: int


def blocks_of(name: str, models: Path, folder: Path, target: Any) -> list[ModelBlock]:
    """Return the distinct blocks of a model of the zoo; what they are is written to `folder`.

    Blocks with extern operators, which TVM's own schedules serve, are left out.
    """
    known = folder / f"{name}.json"
    if known.is_file():
        return [ModelBlock(**row) for row in json.loads(known.read_text(encoding="utf-8"))]
    found: dict[str, ModelBlock] = {}
    for block, func in unscheduled_blocks(name, models, target):
        key = block_hash(func)
        if key in found:
            row = found[key]
            found[key] = ModelBlock(key, row.template, row.name, row.count + 1)
            continue
        found[key] = ModelBlock(key, schedule(func, target).template, block, 1)
        (folder / f"{key}.tir").write_text(tvm.ir.save_json(func), encoding="utf-8")
    blocks = list(found.values())
    known.write_text(json.dumps([asdict(row) for row in blocks], indent=1), encoding="utf-8")
    return blocks


def unscheduled_blocks(name: str, models: Path, target: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and TensorIR of each block of a model, as lowering hands it to the templates.

    Blocks with extern operators, which TVM's own schedules serve, are left out.
    """
    path = models / f"{name}.onnx"
    if not path.is_file():
        models.mkdir(parents=True, exist_ok=True)
        zoo.export(name, path)
    shape = {key: value.shape for key, value in zoo.sample_inputs(name).items()}
    mod, params = fx.from_onnx(path, shape=shape)
    for function, func in _lowered_blocks(mod, params, target):
        if func is not None:
            yield str(function.attrs.get(BLOCK_ATTRIBUTE, "")), func


def scheduled_blocks(
    mod: Any, params: Mapping[str, Any], target: Any
) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield key, Relay function, TensorIR and ``Scheduled`` of each block, equal ones made once.

    Blocks with extern operators have neither TensorIR nor schedule.
    """
    made: dict[str, Any] = {}
    for function, func in _lowered_blocks(mod, params, target):
        key = block_hash(func) if func is not None else str(tvm.ir.structural_hash(function))
        if key not in made:
            made[key] = None if func is None else schedule(func, target)
        yield key, function, func, made[key]


def _lowered_blocks(
    mod: Any, params: Mapping[str, Any], target: Any
) -> Iterator[tuple[Any, Any | None]]:
    fused = relay.transform.InferType()(pipeline(target)(bind_parameters(mod, params)))
    made: dict[int, Any] = {}
    with lowering(target):
        for function in _block_functions(fused):
            # Blocks that differ by their names alone are lowered once.
            bare = relay.Function(function.params, function.body, function.ret_type)
            digest = tvm.ir.structural_hash(bare, map_free_vars=True)
            if digest not in made:
                made[digest] = _unscheduled(function, target)
            yield function, made[digest]


def _block_functions(fused: Any) -> Iterable[Any]:
    for expr in post_order(fused["main"].body):
        if is_block_call(expr) and RESHAPE_ONLY not in expr.op.attrs:
            yield expr.op


def _unscheduled(function: Any, target: Any) -> Any | None:
    """Return a block as lowering hands it to the templates, or None for extern operators."""
    config = dict(tvm.transform.PassContext.current().config.items())
    with tvm.transform.PassContext(opt_level=3, config={**config, TIR_CONVERTER: "default"}):
        try:
            return simplify_indices(lower_to_primfunc(function, target))
        except tvm.TVMError:
            return None


def read_block(folder: Path, key: str) -> Any:
    """Return the unscheduled block called `key`."""
    return tvm.ir.load_json((folder / f"{key}.tir").read_text(encoding="utf-8"))


def build_block(folder: Path, key: str, target: Any) -> float:
    """Compile a block alone, unless it is there; return the seconds that it took."""
    path = folder / f"{key}.so"
    if path.is_file():
        return 0.0
    started = time.perf_counter()
    func = schedule(read_block(folder, key), target).func
    with new_file(path) as scratch:
        compile_kernel(func, target, SYMBOL).export_library(str(scratch))
    return time.perf_counter() - started


def is_built(folder: Path, key: str) -> bool:
    """Tell whether :func:`build_block` has compiled a block."""
    return (folder / f"{key}.so").is_file()


def chosen(blocks: Mapping[str, Sequence[ModelBlock]], most: int) -> list[dict[str, Any]]:
    """Return at most so many distinct blocks of each template, a few of each model.

    Models take turns, so that one of many blocks leaves room for the others; so do templates, so
    that what is built of the list shows something of each.

    Returns
    -------
    list of dict
        The fields of each block, and its model.
    """
    queues: dict[str, dict[str, list[ModelBlock]]] = {}
    for model, rows in blocks.items():
        for row in rows:
            queues.setdefault(row.template, {}).setdefault(model, []).append(row)
    seen: set[str] = set()
    taken: dict[str, list[dict[str, Any]]] = {template: [] for template in sorted(queues)}
    for template, models in queues.items():
        for model, row in _in_turns(models):
            if row.key not in seen and len(taken[template]) < most:
                seen.add(row.key)
                taken[template].append({**asdict(row), "model": model})
    return [row for _, row in _in_turns(taken)]


def _in_turns(queues: Mapping[str, Sequence[Any]]) -> Iterable[tuple[str, Any]]:
    for position in range(max(map(len, queues.values()), default=0)):
        for name, rows in queues.items():
            if position < len(rows):
                yield name, rows[position]
