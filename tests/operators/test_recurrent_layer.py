"""What a layer is, told from its fields; its functions are tested with the operator's numbers."""

from __future__ import annotations

import pytest

from tests.recurrent_layers import USUAL, drawn
from tvm_fusionx.frontend.converters.recurrent_activations import DEFAULTS
from tvm_fusionx.operators.recurrent_layer import (
    FUNCTIONS,
    GATES,
    GRU,
    LSTM,
    RELAY_FUNCTIONS,
    RNN,
    Layer,
    results_of,
    step_at,
)


@pytest.mark.parametrize("seed", range(8))
def test_a_layer_is_what_its_text_says(seed: int) -> None:
    layer = drawn(seed)
    assert Layer.of_text(layer.text()) == layer


def test_the_front_end_knows_the_same_functions() -> None:
    assert FUNCTIONS.keys() == RELAY_FUNCTIONS.keys() == DEFAULTS.keys()


@pytest.mark.parametrize(
    ("kind", "is_linear_first", "phases"),
    [
        (RNN, False, ((0,),)),
        (LSTM, False, ((0, 1, 2, 3),)),
        (GRU, True, ((0, 1, 2),)),
        (GRU, False, ((0, 1), (2,))),
    ],
)
def test_gates_are_computed_once_in_phases(
    kind: str, is_linear_first: bool, phases: tuple[tuple[int, ...], ...]
) -> None:
    layer = Layer(kind, 3, 2, 20, (False,), USUAL[kind], is_linear_first=is_linear_first)
    assert layer.phases == phases
    assert sorted(sum(phases, ())) == list(range(GATES[kind]))
    assert (layer.panels, layer.padded) == (2, 32)
    assert layer.weights_before(len(phases)) == layer.weights == GATES[kind] * 32 * 20


@pytest.mark.parametrize(
    ("reverse", "direction", "order"),
    [((False,), 0, [0, 1, 2]), ((True,), 0, [2, 1, 0]), ((False, True), 1, [2, 1, 0])],
)
def test_steps_in_their_order(reverse: tuple[bool, ...], direction: int, order: list[int]) -> None:
    layer = Layer(RNN, 3, 1, 4, reverse, USUAL[RNN])
    assert [step_at(layer, direction, turn) for turn in range(3)] == order


def test_results_have_a_cell_only_of_an_lstm() -> None:
    shapes = [
        [
            tuple(map(int, result.shape))
            for result in results_of(Layer(kind, 3, 2, 5, (False, True), USUAL[kind]))
        ]
        for kind in (LSTM, GRU)
    ]
    assert shapes == [[(3, 2, 2, 5), (2, 2, 5), (2, 2, 5)], [(3, 2, 2, 5), (2, 2, 5)]]
