"""Make a failing model small: keep only what it needs to go on failing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx
from onnx import helper, numpy_helper

from tests.random_graphs.evaluate import IR_VERSION, Array, RejectedError, run_model, value_info
from tests.random_graphs.models import RandomModel

Fails = Callable[[RandomModel], bool]


def shrink(random_model: RandomModel, fails: Fails, budget: int = 60) -> RandomModel:
    """Return a smaller model that still fails.

    First one output at a time, from the earliest node on; then every intermediate value in turn
    becomes a graph input, which drops all that only served to compute it.

    Parameters
    ----------
    random_model
        A model for which `fails` returns True.
    fails
        Tells whether a candidate fails in the same way.
    budget
        How many candidates may be tried.
    """
    values = _all_values(random_model)
    tries = 0

    def try_model(candidate: RandomModel | None) -> bool:
        nonlocal tries
        if candidate is None or tries >= budget:
            return False
        tries += 1
        return fails(candidate)

    best = random_model
    for name in _computed(best.model):
        candidate = _cut(best, values, outputs=[name], inputs=[])
        if try_model(candidate):
            best = candidate or best
            break
    for name in reversed(_computed(best.model)):
        outputs = [output.name for output in best.model.graph.output]
        if name in outputs or name not in _computed(best.model):
            continue
        candidate = _cut(best, values, outputs=outputs, inputs=[name])
        if try_model(candidate):
            best = candidate or best
    return best


def _computed(model: onnx.ModelProto) -> list[str]:
    return [
        name
        for node in model.graph.node
        if node.op_type != "Constant"
        for name in node.output
        if name
    ]


def _all_values(random_model: RandomModel) -> dict[str, Array]:
    model = onnx.ModelProto()
    model.CopyFrom(random_model.model)
    names = _computed(model)
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    arrays = run_model(model, random_model.inputs, names)
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    return {**constants, **random_model.inputs, **dict(zip(names, arrays, strict=True))}


def _cut(
    random_model: RandomModel, values: Mapping[str, Array], outputs: list[str], inputs: list[str]
) -> RandomModel | None:
    """Return the model with these outputs, in which `inputs` are given instead of computed."""
    old = random_model.model
    needed, nodes = set(outputs), []
    for node in reversed(old.graph.node):
        if needed.difference(inputs).intersection(node.output):
            nodes.append(node)
            needed.update(name for name in node.input if name)
    sources = [value.name for value in old.graph.input] + inputs
    kept = [name for name in sources if name in needed]
    if any(name in outputs for name in kept):
        return None
    graph = helper.make_graph(
        nodes[::-1],
        old.graph.name,
        [value_info(name, values[name]) for name in kept],
        [value_info(name, values[name]) for name in outputs],
        [tensor for tensor in old.graph.initializer if tensor.name in needed],
    )
    model = helper.make_model(graph, opset_imports=old.opset_import, ir_version=IR_VERSION)
    arrays = {name: values[name] for name in kept}
    try:
        found = run_model(model, arrays)
    except RejectedError:
        return None
    # A value inside of a graph is held to what its loosest output is.
    loosest = max(random_model.tolerances.values(), default=None)
    tolerances = {} if loosest is None else dict.fromkeys(outputs, loosest)
    results = dict(zip(outputs, found, strict=True))
    return RandomModel(random_model.seed, model, arrays, results, tolerances)
