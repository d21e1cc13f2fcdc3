"""What runs a model while it is quantised: ONNX Runtime where it is installed, or our own build."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_fusionx._tvm.presence import install_command
from tvm_fusionx.build.build import build
from tvm_fusionx.errors import InputError, MissingDependencyError
from tvm_fusionx.frontend.from_onnx import from_onnx
from tvm_fusionx.report.bench.plain_tvm import load, set_inputs
from tvm_fusionx.report.verify.reference import ERRORS_ONLY

Runner = Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]
"""From inputs by name to outputs in order."""

ONNX_RUNTIME, OWN = "onnxruntime", "fusionx"
ENGINES = (ONNX_RUNTIME, OWN)

TARGET = "llvm -mcpu=native"


def default_engine() -> str:
    """Return ``"onnxruntime"`` where it is installed: it needs no compiling; else ``"fusionx"``."""
    return ONNX_RUNTIME if importlib.util.find_spec(ONNX_RUNTIME) else OWN


def runner(model: Any, engine: str) -> Runner:
    """Return what runs `model`, a ``ModelProto``.

    Quantized models are run as what they mean: floats, rounded to integers and back. So the numbers
    do not depend on what this machine's integer instructions saturate at.

    Raises
    ------
    InputError
        The engine is unknown, or does not take the model.
    MissingDependencyError
        The engine is not installed.
    """
    if engine == ONNX_RUNTIME:
        return _onnx_runtime(model)
    if engine == OWN:
        return _Own(model)
    raise InputError(
        f"engine {engine!r}",
        expected=" or ".join(ENGINES),
        found=repr(engine),
        next_step="Leave it out for the one that is installed.",
    )


def _onnx_runtime(model: Any) -> Runner:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError(
            "running a model while it is quantised",
            expected="the onnxruntime package",
            found=str(error),
            next_step=f"Install it ({install_command('onnxruntime')}), or say engine='fusionx'.",
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    # Kernels of integers saturate where a processor has no VNNI.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # its exceptions derive from nothing of their own but Exception
        raise InputError(
            f"model {model.graph.name!r}",
            expected="a model that ONNX Runtime runs",
            found=str(error).strip().splitlines()[0],
            next_step="Say engine='fusionx' to run it by our own build.",
        ) from error
    names = {node.name for node in session.get_inputs()}

    def run(inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        fed = {name: value for name, value in inputs.items() if name in names}
        return [np.asarray(value) for value in session.run(None, fed)]

    return run


class _Own:
    """Compiles for the shapes that come, and keeps the last program."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._shapes: dict[str, tuple[int, ...]] | None = None
        self._executor: Any = None

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        taken = {info.name for info in self._model.graph.input}
        given = {name: np.asarray(value) for name, value in inputs.items() if name in taken}
        shapes = {name: tuple(value.shape) for name, value in given.items()}
        if shapes != self._shapes:
            mod, params = from_onnx(self._model, shape=shapes)
            self._executor = load(build(mod, TARGET, params, executor="graph"))
            self._shapes = shapes
        set_inputs(self._executor, given)
        self._executor.run()
        count = self._executor.get_num_outputs()
        return [self._executor.get_output(index).numpy() for index in range(count)]
