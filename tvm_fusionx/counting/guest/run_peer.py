"""SPEC: one inference of another runtime, after one to warm up, between the marks of count.c.

Runs under emulation, where nothing of this package is: `SPEC` is a JSON file that says all.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Prepared = tuple[Callable[[], Any], Callable[[Any], Sequence[np.ndarray]], str]
"""What runs, what makes arrays of its result, and the runtime's version."""

Spec = Mapping[str, Any]
Arrays = Mapping[str, np.ndarray]

# Those of count.c.
WARM, START, STOP = 0x7EE10000, 0x7EE10001, 0x7EE10002


def mark(number: int) -> None:
    """Tell the plug-in where counting begins and ends."""
    with contextlib.suppress(OSError):
        os.close(number)


def ort(spec: Spec, inputs: Arrays) -> Prepared:
    """Prepare ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        spec["model"], options, providers=["CPUExecutionProvider"]
    )
    taken = {each.name: inputs[each.name] for each in session.get_inputs()}
    return lambda: session.run(None, taken), list, onnxruntime.__version__


def mnn(spec: Spec, inputs: Arrays) -> Prepared:
    """Prepare MNN."""
    import MNN

    chosen = {"precision": spec["precision"], "memory": spec["memory"]}
    manager = MNN.nn.create_runtime_manager(({"numThread": 1, "backend": "CPU", **chosen},))
    module = MNN.nn.load_module_from_file(
        spec["model"], spec["inputs"], spec["outputs"], runtime_manager=manager
    )

    def variable(value: np.ndarray) -> Any:
        is_whole = value.dtype.kind in "iub"
        flat = value.astype(np.int32 if is_whole else np.float32).ravel()
        kind = MNN.expr.int if is_whole else MNN.expr.float
        return MNN.expr.const(flat.copy(), list(value.shape), MNN.expr.NCHW, kind)

    variables = [variable(inputs[name]) for name in spec["inputs"]]

    def run() -> list[Any]:
        # Evaluation is lazy: reading asks for it.
        return [result.read() for result in module.forward(variables)]

    return run, lambda results: [np.array(each) for each in results], MNN.version()


def ncnn(spec: Spec, inputs: Arrays) -> Prepared:
    """Prepare ncnn."""
    import ncnn as runtime

    net = runtime.Net()
    net.opt.num_threads = 1
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = spec["half"]
    net.opt.use_fp16_arithmetic = spec["half"]
    net.opt.use_bf16_storage = False
    if net.load_param(spec["parameters"]) or net.load_model(spec["weights"]):
        sys.exit("ncnn cannot load what pnnx made of the model")
    matrices = [runtime.Mat(np.ascontiguousarray(each)).clone() for each in inputs.values()]
    if len(net.input_names()) != len(matrices):
        sys.exit("pnnx left other inputs than the model's")

    def run() -> list[Any]:
        extractor = net.create_extractor()
        for name, matrix in zip(net.input_names(), matrices, strict=True):
            extractor.input(name, matrix)
        found = [extractor.extract(name) for name in net.output_names()]
        if any(status for status, _ in found):
            sys.exit("ncnn cannot compute the outputs")
        return [matrix for _, matrix in found]

    return run, lambda results: [np.array(each) for each in results], runtime.__version__


def litert(spec: Spec, inputs: Arrays) -> Prepared:
    """Prepare LiteRT."""
    from ai_edge_litert import __version__
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(spec["model"], num_threads=1)
    interpreter.allocate_tensors()
    runner = interpreter.get_signature_runner()
    takes, gives = runner.get_input_details(), runner.get_output_details()

    def in_order(names: Mapping[str, Any]) -> list[str]:
        return sorted(names, key=lambda name: int(name.rpartition("_")[2]))

    for name, value in zip(in_order(takes), inputs.values(), strict=True):
        tensor = takes[name]
        scale, zero = tensor["quantization"]
        if scale:
            bounds = np.iinfo(tensor["dtype"])
            value = np.clip(np.rint(value / scale) + zero, bounds.min, bounds.max)
        interpreter.set_tensor(tensor["index"], value.astype(tensor["dtype"]))
    kept = [gives[name] for name in in_order(gives)]

    def meant(tensor: Mapping[str, Any]) -> np.ndarray:
        value, (scale, zero) = interpreter.get_tensor(tensor["index"]), tensor["quantization"]
        return (value.astype(np.float32) - zero) * np.float32(scale) if scale else np.array(value)

    def outputs(_: Any) -> list[np.ndarray]:
        return [meant(each) for each in kept]

    return interpreter.invoke, outputs, __version__


PREPARE = {"ort": ort, "mnn": mnn, "ncnn": ncnn, "litert": litert}


def main(path: str) -> None:
    """Run what the JSON file at `path` says."""
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    inputs = dict(np.load(spec["arrays"]))
    run, outputs, version = PREPARE[spec["runtime"]](spec, inputs)
    mark(WARM)
    run()
    mark(START)
    results = run()
    mark(STOP)
    np.savez(spec["results"], *outputs(results))
    with open(spec["told"], "w", encoding="utf-8") as file:
        json.dump({"version": version}, file)


if __name__ == "__main__":
    main(sys.argv[1])
