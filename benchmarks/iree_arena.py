"""What IREE's compiled model takes for results at one moment, read from its own plan.

IREE lives in an environment of its own (``python -m venv iree && iree/bin/pip install onnx
iree-base-compiler``); its compiler stops when memory is planned, before any code is made. What a
run asks for then stands in the text: ``stream.resource.alloca`` of transient and external memory,
and ``dealloca``. Weights are constants, and kernels' own workspaces are on the stack: not in it.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from tvm_fusionx.errors import MissingDependencyError, ModelError

TARGET = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
)
# As it comes, and as it is told to need little: the less counts.
SETTINGS: dict[str, tuple[str, ...]] = {
    "default": (),
    "least": ("--iree-opt-level=O3", "--iree-stream-partitioning-favor=min-peak-memory"),
}
CONSTANT = re.compile(r"(%[\w#]+) = arith\.constant (\d+) : index")
TAKEN = re.compile(
    r"stream\.resource\.(alloca|dealloca) .*!stream\.resource<(transient|external)>\{(%[\w#]+)\}"
)
# What begins another function of a module; memory of initialisers is constants'.
FUNCTION = re.compile(r"^\s*util\.(func|initializer)\b")
STEP_SECONDS = 600
# IREE takes few operators of older versions; its importer converts them.
LEAST_OPSET = 17


def find_iree(python: Path) -> tuple[Path, Path]:
    """Return IREE's importer and compiler beside `python`.

    Raises
    ------
    MissingDependencyError
        They are not there.
    """
    found = tuple(python.with_name(name) for name in ("iree-import-onnx", "iree-compile"))
    missing = [f"no {path}" for path in found if not path.is_file()]
    # The importer is there without the package that it imports.
    if not missing and subprocess.run([found[0], "--help"], capture_output=True).returncode:
        missing = [f"a {found[0].name} that does not start, as without the package onnx"]
    if missing:
        raise MissingDependencyError(
            "IREE",
            expected="a Python of an environment that has it",
            found=missing[0],
            next_step="Make one: python -m venv iree && iree/bin/pip install onnx "
            "iree-base-compiler; then give --iree iree/bin/python.",
        )
    return found[0], found[1]


def peak_bytes(text: str) -> int:
    """Return the most that functions of a planned module hold at one moment.

    Raises
    ------
    ModelError
        A size is known when it runs, and not before; or nothing is planned.
    """
    most, now, is_function, seen = 0, 0, False, False
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        begun = FUNCTION.match(line)
        if begun is not None:
            now, is_function = 0, begun[1] == "func"
            sizes = {}
        for name, value in CONSTANT.findall(line):
            sizes[name] = int(value)
        taken = TAKEN.search(line)
        if taken is None or not is_function:
            continue
        seen = True
        step, _, size = taken.groups()
        if size not in sizes:
            raise _not_planned(f"a size {size} that is known when it runs")
        now += sizes[size] if step == "alloca" else -sizes[size]
        most = max(most, now)
    if not seen:
        raise _not_planned("none of it")
    return most


def _not_planned(found: str) -> ModelError:
    return ModelError(
        "memory of IREE's module",
        expected="sizes that its compiler knows",
        found=found,
        next_step="Leave the model out of the comparison.",
    )


def iree_bytes(
    model: Path, shapes: Mapping[str, Sequence[int]], python: Path, cpu: str = "host"
) -> dict[str, int]:
    """Return IREE's memory for results of an ONNX model by its setting, in bytes.

    The model is planned for `cpu`, as LLVM names it.

    Raises
    ------
    MissingDependencyError, ModelError
        IREE is not there; it refuses the model.
    """
    importer, compiler = find_iree(python)
    with tempfile.TemporaryDirectory(prefix="fusionx-iree-") as place:
        folder = Path(place)
        fixed = with_fixed_inputs(model, shapes, folder / "fixed.onnx")
        imported = folder / "model.mlir"
        newer = ["--opset-version", str(LEAST_OPSET)] if _opset(fixed) < LEAST_OPSET else []
        _run([importer, fixed, *newer, "-o", imported])
        found = {}
        for setting, options in SETTINGS.items():
            planned = folder / "planned.mlir"
            words = [compiler, imported, "--compile-to=stream", *TARGET, *options]
            words.append(f"--iree-llvmcpu-target-cpu={cpu}")
            _run([*words, "--mlir-elide-elementsattrs-if-larger=8", "-o", planned])
            found[f"iree_{setting}_bytes"] = peak_bytes(planned.read_text(encoding="utf-8"))
    return found


def with_fixed_inputs(model: Path, shapes: Mapping[str, Sequence[int]], output: Path) -> Path:
    """Write a model whose inputs have the given shapes, weights beside it where they were."""
    loaded = onnx.load(str(model))
    weights = {tensor.name for tensor in loaded.graph.initializer}
    for port in loaded.graph.input:
        if port.name in weights or port.name not in shapes:
            continue
        for dimension, extent in zip(
            port.type.tensor_type.shape.dim, shapes[port.name], strict=True
        ):
            dimension.dim_value = extent
    onnx.save(
        loaded, str(output), save_as_external_data=loaded.ByteSize() > onnx.checker.MAXIMUM_PROTOBUF
    )
    return output


def _opset(model: Path) -> int:
    loaded = onnx.load(str(model), load_external_data=False)
    return max(each.version for each in loaded.opset_import if not each.domain)


def _run(words: Sequence[str | Path]) -> None:
    try:
        done = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, timeout=STEP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _refused(words, f"nothing within {STEP_SECONDS} seconds") from error
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        raise _refused(words, (said or done.stderr.strip().splitlines() or ["silence"])[0])


def _refused(words: Sequence[str | Path], found: str) -> ModelError:
    return ModelError(
        f"{Path(words[0]).name} of IREE",
        expected="a model that it takes",
        found=found[:300],
        next_step="The row stands without it.",
    )
