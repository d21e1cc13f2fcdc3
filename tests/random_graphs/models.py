"""From a seed to a whole model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper

from tests.half_models import DTYPES, ELEMENTS, NotInHalvesError, in_halves
from tests.random_graphs.builder import SINGLE, GraphBuilder, Precision, Value
from tests.random_graphs.evaluate import IR_VERSION, Array, RejectedError, run_model, value_info
from tests.random_graphs.patterns import PATTERNS
from tests.random_graphs.rows import ROWS
from tests.random_graphs.rows.row import NEWEST_OPSET, OLDEST_OPSET

DEFAULT_SIZE = 12
PATTERN_PROBABILITY = 0.08
ATTEMPTS_PER_NODE = 12
MOST_OUTPUTS = 5
# Whole graph and node by node, ONNX Runtime must agree with itself.
SELF_AGREEMENT = 1e-5
TAKES_BRAINS_SINCE, IR_VERSION_OF_IT = 22, 10


@dataclass(frozen=True)
class RandomModel:
    """A random ONNX model with inputs, and the outputs that ONNX Runtime gives for them."""

    seed: int
    model: onnx.ModelProto
    inputs: dict[str, Array]
    outputs: dict[str, Array] = field(repr=False)
    tolerances: dict[str, float] = field(default_factory=dict, repr=False)
    """What outputs are held to, relative to the largest element; as float32 where none is named."""

    @property
    def operators(self) -> Counter[str]:
        """How often each operator type occurs."""
        return Counter(node.op_type for node in self.model.graph.node)


def generate(seed: int, size: int = DEFAULT_SIZE, precision: Precision = SINGLE) -> RandomModel:
    """Return the random model of this seed.

    Parameters
    ----------
    seed
        The same seed and size give the same model, with the same versions of numpy and onnx.
    size
        Nodes to aim for; a pattern may overshoot it, pruning may fall below it.
    precision
        With :data:`HALF` the model is in float16, with :data:`BRAIN` in bfloat16, and its outputs
        are those of ONNX Runtime for the same graph in float32, rounded: what is ideal.

    Returns
    -------
    random_model
        Valid for ``onnx.checker``, of opset 11 to 18 (in bfloat16 22), with inputs and reference
        outputs.
    """
    attempt = 0
    while True:
        try:
            return _generate(seed, attempt, size, precision)
        except RejectedError:
            attempt += 1


def _generate(seed: int, attempt: int, size: int, precision: Precision) -> RandomModel:
    rng = np.random.default_rng([seed, attempt])
    opset = int(rng.integers(OLDEST_OPSET, NEWEST_OPSET + 1))
    if precision.narrow == "bfloat16":
        opset = NEWEST_OPSET
    g = GraphBuilder(int(rng.integers(2**32)), opset, precision)
    rows = [row for row in ROWS if row.since <= opset]
    weights = np.array([row.weight for row in rows])
    for _ in range(size * ATTEMPTS_PER_NODE):
        if len(g.nodes) >= size:
            break
        mark = g.checkpoint()
        is_pattern = g.chance(PATTERN_PROBABILITY)
        row = rows[int(g.rng.choice(len(rows), p=weights / weights.sum()))]
        draw = g.choose(PATTERNS) if is_pattern else row.draw
        try:
            draw(g)
        except RejectedError:
            g.rollback(mark)
    if not g.nodes:
        raise RejectedError("no node was accepted")
    return _finish(g, seed)


def _finish(g: GraphBuilder, seed: int) -> RandomModel:
    outputs = _choose_outputs(g)
    nodes, needed = _live_nodes(g, {value.name for value in outputs})
    leaves = [value for value in g.values.values() if value.name in needed]
    inputs = [value for value in leaves if value.kind == "input"]
    constants = [value for value in leaves if value.kind == "constant"]
    # An input without a user is legal; it is kept at times.
    unused = [v for v in g.values.values() if v.kind == "input" and v.name not in needed]
    inputs += unused if g.chance(0.05) else []
    initializers = []
    for value in constants:
        tensor = g.constant_tensor(value.name)
        if g.uses_constant_nodes and g.chance(0.5):
            node = helper.make_node("Constant", [], [value.name], value=tensor)
            nodes.insert(0, node)
        else:
            initializers.append(tensor)
    graph = helper.make_graph(
        nodes,
        f"random_{seed}",
        [value_info(value.name, value.array) for value in inputs],
        [value_info(value.name, value.array) for value in outputs],
        initializers,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", g.opset)], ir_version=IR_VERSION
    )
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise RejectedError(str(error)) from error
    arrays = {value.name: value.array for value in inputs}
    found = run_model(model, arrays)
    for value, array in zip(outputs, found, strict=True):
        _require_same(value, array)
    reference = {value.name: array for value, array in zip(outputs, found, strict=True)}
    drawn = RandomModel(seed, model, arrays, reference)
    return _narrowed(drawn, outputs, g.precision) if g.precision.narrow else drawn


def _narrowed(drawn: RandomModel, outputs: list[Value], precision: Precision) -> RandomModel:
    """Return a model in 16 bits; outputs may differ by twice what noise of its rounding does."""
    try:
        if precision.narrow == "bfloat16":
            # What was drawn means the same there, where all operators take the type.
            drawn.model.opset_import[0].version = TAKES_BRAINS_SINCE
            drawn.model.ir_version = IR_VERSION_OF_IT
        model = in_halves(drawn.model, element=ELEMENTS[precision.narrow])
        onnx.checker.check_model(model, full_check=True)
    except (
        NotInHalvesError,
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
    ) as error:
        raise RejectedError(str(error)) from error
    tolerances = {}
    for value in outputs:
        if value.array.dtype.kind == "f":
            largest = float(np.abs(value.array).max()) or 1.0
            moved = max(float(np.abs(twin - value.array).max()) for twin in value.twins)
            tolerances[value.name] = 2 * max(moved / largest, precision.noise)
    return RandomModel(
        drawn.seed,
        model,
        {name: _half(array, precision) for name, array in drawn.inputs.items()},
        {name: _half(array, precision) for name, array in drawn.outputs.items()},
        tolerances,
    )


def _half(array: Array, precision: Precision) -> Array:
    return array.astype(DTYPES[precision.narrow]) if array.dtype == np.float32 else array


def _require_same(value: Value, array: Array) -> None:
    difference = np.abs(value.array.astype(np.float64) - array.astype(np.float64)).max()
    if value.shape != array.shape or not difference <= SELF_AGREEMENT * np.abs(array).max():
        raise RejectedError(f"{value.name}: the whole graph gives other numbers than its nodes")


def _choose_outputs(g: GraphBuilder) -> list[Value]:
    computed = [value for value in g.values.values() if value.kind == "node"]
    leaves = [value for value in computed if not value.users]
    # The leaf that most nodes lead to comes first: whatever no output needs is pruned.
    g.rng.shuffle(leaves)
    leaves.sort(key=lambda leaf: -len(_live_nodes(g, {leaf.name})[0]) * g.rng.random())
    outputs = leaves[: g.integer(2, MOST_OUTPUTS)]
    inner = [value for value in computed if value.users]
    if inner and g.chance(0.25):
        outputs.append(g.choose(inner))
    inputs = [value for value in g.values.values() if value.kind == "input"]
    if inputs and g.chance(0.04):
        outputs.append(g.choose(inputs))
    return outputs


def _live_nodes(g: GraphBuilder, outputs: set[str]) -> tuple[list[onnx.NodeProto], set[str]]:
    needed = set(outputs)
    nodes: list[onnx.NodeProto] = []
    for node in reversed(g.nodes):
        if needed.intersection(node.output):
            nodes.append(node)
            needed.update(name for name in node.input if name)
    return nodes[::-1], needed
