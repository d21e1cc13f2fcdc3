"""Random valid ONNX graphs compiled by the package agree with ONNX Runtime.

``python benchmarks/random_graphs.py --count 1000`` runs many more, each in a process of its own;
with ``--precision float16`` those in float16.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime")

from tests.random_graphs import HALF, ROWS, RandomModel, generate
from tests.random_graphs.builder import GraphBuilder
from tests.random_graphs.check import (
    FAILED,
    OK,
    REFUSED,
    WRONG,
    check,
    compile_with_fusionx,
    why_different,
)
from tests.random_graphs.evaluate import RejectedError
from tests.random_graphs.exact import exact_outputs
from tests.random_graphs.shrink import shrink
from tests.sampled import few_fast

FAST_SEEDS = range(25)
FAST_SIZE = 4  # nodes a graph
SLOW_SEEDS = range(1000, 1100)
HALF_SEEDS = range(2000, 2030)
# A graph may be refused with a typed error, but a front end that refuses everything is no front
# end: of all random graphs at least this share compiles.
LEAST_SHARE_COMPILED = 0.9


def outcome_of(random_model: RandomModel) -> str:
    outcome = check(
        compile_with_fusionx,
        random_model.model,
        random_model.inputs,
        random_model.outputs,
        random_model.tolerances,
    )
    assert outcome.status in (OK, REFUSED), (
        f"seed {random_model.seed} ({dict(random_model.operators)}): {outcome}"
    )
    return outcome.status


@pytest.mark.parametrize("seed", few_fast(FAST_SEEDS, 2))
def test_small_graphs_agree_with_onnxruntime(seed: int) -> None:
    outcome_of(generate(seed, FAST_SIZE))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW_SEEDS)
def test_graphs_agree_with_onnxruntime(seed: int) -> None:
    outcome_of(generate(seed))


@pytest.mark.parametrize("seed", few_fast(FAST_SEEDS, 2))
def test_small_graphs_of_halves_are_near_those_of_float32(seed: int) -> None:
    outcome_of(generate(seed, FAST_SIZE, HALF))


@pytest.mark.slow
@pytest.mark.parametrize("seed", HALF_SEEDS)
def test_graphs_of_halves_are_near_those_of_float32(seed: int) -> None:
    outcome_of(generate(seed, precision=HALF))


@pytest.mark.parametrize("seed", range(20))
def test_graphs_of_halves_are_valid_and_held_to_a_few_steps(seed: int) -> None:
    drawn = generate(seed, precision=HALF)
    onnx.checker.check_model(drawn.model, full_check=True)
    arrays = (*drawn.inputs.values(), *drawn.outputs.values())
    assert not any(array.dtype == np.float32 for array in arrays)
    assert all(np.isfinite(array).all() for array in drawn.outputs.values())
    floats = {name for name, array in drawn.outputs.items() if array.dtype.kind == "f"}
    assert set(drawn.tolerances) == floats
    assert all(HALF.noise < each < 2 * HALF.twin_tolerance for each in drawn.tolerances.values())


def test_a_graph_of_halves_is_held_to_less_than_sums_in_halves_reach() -> None:
    """4,096 products summed up in halves are wrong by more than any tolerance allows."""
    ones = np.full(4096, 0.75, np.float16)
    total = np.float16(0)
    for each in ones:
        total = np.float16(total + each)
    wrong, right = np.array([total]), np.array([3072], np.float16)
    assert why_different("sum", wrong, right, 2 * HALF.twin_tolerance)
    assert why_different("sum", right, right, HALF.noise) is None


@pytest.mark.slow
def test_most_graphs_compile() -> None:
    statuses = Counter(outcome_of(generate(seed, 2)) for seed in range(10))
    assert statuses[OK] >= LEAST_SHARE_COMPILED * statuses.total(), statuses


def test_same_seed_gives_the_same_model() -> None:
    first, second = generate(7), generate(7)
    assert first.model.SerializeToString() == second.model.SerializeToString()
    for name, array in first.inputs.items():
        np.testing.assert_array_equal(array, second.inputs[name])
    assert generate(8).model.SerializeToString() != first.model.SerializeToString()


@pytest.mark.slow
def test_graphs_cover_operators_opsets_and_forms() -> None:
    operators: Counter[str] = Counter()
    opsets, ranks, outputs = set(), set(), set()
    shared = 0
    for seed in range(200):
        random_model = generate(seed)
        graph = random_model.model.graph
        operators.update(random_model.operators)
        opsets.add(random_model.model.opset_import[0].version)
        ranks.update(array.ndim for array in random_model.outputs.values())
        outputs.add(len(graph.output))
        uses = Counter(name for node in graph.node for name in node.input)
        shared += any(uses[tensor.name] > 1 for tensor in graph.initializer)
    assert len(operators) >= 100
    assert set(operators) <= {row.operator for row in ROWS} | {"Constant", "DequantizeLinear"}
    assert opsets == set(range(11, 19))
    assert {0, 1, 2, 3, 4, 5} <= ranks
    assert {1, 2, 3, 4, 5} <= outputs
    assert shared > 0


@pytest.mark.parametrize("seed", range(20))
def test_graphs_are_valid_and_finite(seed: int) -> None:
    random_model = generate(seed)
    onnx.checker.check_model(random_model.model, full_check=True)
    assert random_model.outputs
    for array in random_model.outputs.values():
        assert np.isfinite(array).all()


def builder_with(array: np.ndarray) -> tuple[GraphBuilder, str]:
    g = GraphBuilder(seed=0, opset=17)
    name = g.add_input(array.shape)
    # An operand that rounding errors have already touched: its twins carry noise.
    g.values[name].array = array
    g.values[name].twins = (array, array)
    (noisy,) = g.add("Mul", [name, g.add_constant(np.array(1.0, np.float32))])
    return g, noisy


@pytest.mark.parametrize(
    ("operator", "array"),
    [
        ("Floor", [0.5, 2.0]),
        ("ArgMax", [1.0, 1.0 + 1e-7]),
        ("Reciprocal", [1.0, 1e-6]),
        ("Sqrt", [1.0, -1.0]),
    ],
)
def test_nodes_that_hang_on_rounding_errors_are_rejected(operator: str, array: list[float]) -> None:
    g, noisy = builder_with(np.array(array, np.float32))
    with pytest.raises(RejectedError):
        g.add(operator, [noisy], exact=True)


def test_a_node_that_cannot_run_is_rejected() -> None:
    g, noisy = builder_with(np.ones((2, 3), np.float32))
    mark = g.checkpoint()
    with pytest.raises(RejectedError):
        g.add("MatMul", [noisy, noisy])
    g.rollback(mark)
    assert [node.op_type for node in g.nodes] == ["Mul"]


def test_shrinking_keeps_only_what_fails() -> None:
    def fails(candidate: RandomModel) -> bool:
        return "Softmax" in candidate.operators

    model = next(m for m in map(generate, range(100)) if fails(m) and len(m.model.graph.node) > 6)
    small = shrink(model, fails)
    assert [node.op_type for node in small.model.graph.node if node.input] == ["Softmax"]
    onnx.checker.check_model(small.model, full_check=True)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (np.float32([1, 2]), None),
        (np.float32([1, 2 + 1e-5]), None),
        (np.float32([1, 2 + 1e-4]), "differs by"),
        (np.float32([1, np.nan]), "differs by"),
        (np.float64([1, 2]), "dtype"),
        (np.float32([[1, 2]]), "shape"),
    ],
)
def test_differences_have_reasons(found: np.ndarray, reason: str | None) -> None:
    difference = why_different("y", found, np.float32([1, 2]))
    assert (difference is None) if reason is None else (reason in str(difference))


def test_an_outcome_tells_wrong_numbers_from_errors() -> None:
    random_model = generate(0, 2)
    model, inputs, outputs = random_model.model, random_model.inputs, random_model.outputs
    right = list(outputs.values())

    def fail(*_: object) -> list[np.ndarray]:
        raise RuntimeError("no")

    assert check(lambda *_: right, model, inputs, outputs).status == OK
    assert check(lambda *_: [], model, inputs, outputs).status == WRONG
    assert check(fail, model, inputs, outputs).status == FAILED


def norm_of_a_nearly_constant_image() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        norms (float[1, 1, 16, 9] x) => (float[1, 1, 9] y)
        <float[1] scale = {1.4}, float[1] shift = {-0.4}>
        {
            normed = InstanceNormalization (x, scale, shift)
            y = ReduceMean <axes = [2], keepdims = 0> (normed)
        }
    """)
    image = np.full((1, 1, 16, 9), -1.3566177, np.float32)
    image[0, 0, 5, 4] = -1.5602832
    return model, {"x": image}


def test_where_the_reference_is_off_the_exact_result_decides() -> None:
    model, inputs = norm_of_a_nearly_constant_image()
    exact = exact_outputs(model, inputs)
    x = inputs["x"].astype(np.float64)
    normed = np.float32(1.4) * (x - x.mean()) / np.sqrt(x.var() + 1e-5) + np.float32(-0.4)
    np.testing.assert_allclose(exact["y"], normed.mean(axis=2), rtol=1e-5)
    largest = float(np.abs(exact["y"]).max())

    def status_of(found: np.ndarray, reference: np.ndarray) -> str:
        narrow = {"y": reference.astype(np.float32)}
        return check(lambda *_: [found.astype(np.float32)], model, inputs, narrow).status

    off = exact["y"] + 3e-5 * largest
    assert status_of(exact["y"] - 2e-5 * largest, off) == OK
    assert status_of(exact["y"] - 4e-5 * largest, off) == WRONG
    assert status_of(off, exact["y"]) == WRONG


def test_a_model_that_float64_does_not_cover_has_no_exact_outputs() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 18, "com.microsoft": 1]>
        odd (float[2, 3] x) => (float[2, 3] y) { y = com.microsoft.QuickGelu (x) }
    """)
    assert exact_outputs(model, {"x": np.ones((2, 3), np.float32)}) == {}
