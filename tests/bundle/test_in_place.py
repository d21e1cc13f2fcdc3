"""Random networks whose results lie in place of operands, run between guard pages."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_fusionx as fx
from tests.bundle.small_bundles import LOCAL, NAME, compiled, executed, run
from tvm_fusionx.bundle.export import export_bundle

HERE = Path(__file__).resolve().parent
GUARDED = ("gcc", "-std=c99", "-Dmalloc=guarded_malloc", "-Dmemset=filled")
SHAPE = (1, 16, 16, 16)
FEW, MANY = (1,), tuple(range(2, 14))

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


class _Network:
    """A random network: convolutions, means and turned tensors, and much that is elementwise."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._tensors = ["x", "y"]
        for _ in range(12):
            self._add()
        used = {name for node in self._nodes for name in node.input}
        self._returned = [name for name in self._tensors[2:] if name not in used]

    def model(self) -> onnx.ModelProto:
        """Return it as an ONNX model; what nobody reads is returned."""

        def ports(names: list[str]) -> list[Any]:
            return [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in names]

        graph = helper.make_graph(
            self._nodes, "net", ports(["x", "y"]), ports(self._returned), self._constants
        )
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=8)

    def _add(self) -> None:
        kind = self._random.choice(["conv", "conv", "add", "add", "mul", "max", "turn", "softmax"])
        # Late tensors more often: early ones then die, and leave their place.
        late = self._tensors[-3:]
        one, two = (str(self._random.choice(late)) for _ in range(2))
        made = f"t{len(self._nodes)}"
        if kind == "conv":
            size = int(self._random.choice([1, 3]))
            weight = self._random.standard_normal((16, 16, size, size)) / (4 * size)
            self._constants.append(numpy_helper.from_array(weight.astype("float32"), f"w{made}"))
            pads = [size // 2] * 4
            node = helper.make_node("Conv", [one, f"w{made}"], [f"c{made}"], pads=pads)
            self._nodes += [node, helper.make_node("Add", [f"c{made}", two], [made])]
        elif kind == "turn":
            self._nodes.append(helper.make_node("Transpose", [one], [made], perm=[0, 1, 3, 2]))
        elif kind == "softmax":
            self._nodes.append(helper.make_node("Softmax", [one], [made], axis=-1))
        else:
            name = {"add": "Add", "mul": "Mul", "max": "Max"}[str(kind)]
            self._nodes.append(helper.make_node(name, [one, two], [made]))
        self._tensors.append(made)


def _compare(seed: int, folder: Path) -> int:
    """Compare a network's bundle with the executor and ONNX Runtime; return what lies in place."""
    model = _Network(seed).model()
    path = folder / "model.onnx"
    onnx.save(model, path)
    generator = np.random.default_rng(seed)
    given = {name: generator.standard_normal(SHAPE).astype("float32") for name in ("x", "y")}
    mod, params = fx.from_onnx(path)
    library = fx.build(mod, LOCAL, params)
    memory = export_bundle(library, folder / NAME)
    program = compiled(
        folder / NAME / "main.c", folder / "main", [folder / NAME], [*GUARDED, allocator(folder)]
    )
    files = [folder / f"{name}.in" for name in given]
    for file, array in zip(files, given.values(), strict=True):
        array.tofile(file)
    outs = [folder / f"{port.name}.out" for port in model.graph.output]
    run([program, *files, *outs])
    found = [out.read_bytes() for out in outs]
    assert found == executed(library, given)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for one, two in zip(found, session.run(None, given), strict=True):
        error = np.abs(np.frombuffer(one, "float32").reshape(SHAPE) - two).max()
        assert error <= 1e-5 * max(1.0, np.abs(two).max())
    plan = memory.plan
    pairs = [pair for call in plan.program.calls for pair in call.in_place]
    inside = [p for p in pairs if not any(plan.program.buffers[each].is_outside for each in p)]
    return sum(plan.place_of(one) == plan.place_of(two) for one, two in inside)


def allocator(folder: Path) -> str:
    """Return the object of guarded_malloc.c, compiled."""
    made = folder / "guarded_malloc.o"
    run(["gcc", "-std=c99", "-O2", "-c", HERE / "guarded_malloc.c", "-o", made])
    return str(made)


def test_what_lies_in_place_is_the_same_to_the_bit(tmp_path: Path) -> None:
    shared = []
    for seed in FEW:
        folder = tmp_path / str(seed)
        folder.mkdir()
        shared.append(_compare(seed, folder))
    assert min(shared) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_more_networks(seed: int, tmp_path: Path) -> None:
    _compare(seed, tmp_path)
