from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.tiny_models import TARGET
from tvm_fusionx.report.bench.plain_tvm import build_plain
from tvm_fusionx.report.profile.stepwise import StepwiseExecutor


@pytest.fixture(scope="module")
def executor() -> StepwiseExecutor:
    """x [2, 3] -> dense with constant weight -> reshape -> softmax, one kernel each."""
    x = relay.var("x", shape=(2, 3))
    weight = relay.const(np.arange(12, dtype="float32").reshape(4, 3))
    body = relay.nn.softmax(relay.reshape(relay.nn.dense(x, weight), (8,)))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))
    return StepwiseExecutor(build_plain(mod, TARGET, opt_level=0))


def test_what_the_model_takes_is_read_from_its_graph(executor: StepwiseExecutor) -> None:
    (given,) = executor.inputs
    assert (given.name, given.shape, given.dtype) == ("x", (2, 3), "float32")


def test_a_kernel_runs_on_the_operands_it_is_given(executor: StepwiseExecutor) -> None:
    node = next(node for node in executor.graph.nodes if "dense" in node.name)
    given = np.ones((2, 3), "float32")
    operands = [
        executor.to_device(given) if (value := executor.parameter(source)) is None else value
        for source in (executor.graph.nodes[index] for index, _ in node.inputs)
    ]
    (output,) = executor.outputs_of(node, operands)
    weight = np.arange(12, dtype="float32").reshape(4, 3)
    np.testing.assert_allclose(output.numpy(), given @ weight.T, rtol=1e-6)


def test_the_executors_own_reshape_is_done_without_a_kernel(executor: StepwiseExecutor) -> None:
    views = [n for n in executor.graph.nodes if n.is_call and not executor.launches(n)]
    assert [node.outputs[0].shape for node in views] == [(8,)]
    given = np.arange(8, dtype="float32").reshape(2, 4)
    (output,) = executor.outputs_of(views[0], [executor.to_device(given)])
    assert np.array_equal(output.numpy(), given.ravel())


def test_time_is_never_zero(executor: StepwiseExecutor) -> None:
    node = next(node for node in executor.graph.nodes if "softmax" in node.name)
    given = executor.to_device(np.ones(8, "float32"))
    seconds = executor.seconds_per_run(node, [given], repeat=3, min_repeat_ms=1)
    assert len(seconds) == 3
    assert min(seconds) > 0


def test_a_scalar_and_a_transposed_array_reach_the_device_as_they_are(
    executor: StepwiseExecutor,
) -> None:
    for value in (np.float32(3), np.float64(2.5), np.arange(6, dtype="float32").reshape(2, 3).T):
        given = executor.to_device(value)
        assert given.shape == np.shape(value)
        assert np.array_equal(given.numpy(), value)
