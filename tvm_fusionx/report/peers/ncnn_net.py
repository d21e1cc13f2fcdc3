"""ncnn on the CPU, in float32."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.report.peers import PreparedPeer
from tvm_fusionx.report.peers.conversions import Conversions, onnx_sources, shape_sources

# A conversion takes seconds; one that takes longer hangs.
CONVERSION_SECONDS = 300

# What pnnx calls its results for a model called model.onnx.
PARAMETERS, WEIGHTS = "model.ncnn.param", "model.ncnn.bin"

# Layers that compute nothing and move nothing.
MOVES_NOTHING = {
    "Dropout",
    "ExpandDims",
    "Flatten",
    "Input",
    "MemoryData",
    "Noop",
    "Reshape",
    "Split",
    "Squeeze",
}

# What pnnx calls the numpy dtypes that it takes.
PNNX_TYPES = {"float32": "f32", "float16": "f16", "int64": "i64", "int32": "i32", "uint8": "u8"}


def prepare(
    model: Path,
    inputs: Mapping[str, np.ndarray],
    threads: int,
    conversions: Conversions,
) -> PreparedPeer:
    """Convert `model` with pnnx, in a process of its own, and return an ncnn net on it.

    ncnn has no batch: a leading extent of 1 is dropped from each input.
    """
    import ncnn

    with converted(model, inputs, conversions) as folder:
        parameters, weights = folder / PARAMETERS, folder / WEIGHTS
        layers = _count_layers(parameters)
        net = ncnn.Net()
        net.opt.num_threads = threads
        net.opt.use_fp16_packed = False
        net.opt.use_fp16_storage = False
        net.opt.use_fp16_arithmetic = False
        net.opt.use_bf16_storage = False
        if net.load_param(str(parameters)) != 0 or net.load_model(str(weights)) != 0:
            unknown = ", ".join(_layers_left_by_pnnx(parameters)) or "none that stands out"
            raise RuntimeError(
                f"ncnn cannot load what pnnx made of the model; layers it lacks: {unknown}"
            )
    arrays = [unbatched(value) for value in inputs.values()]
    matrices = [ncnn.Mat(array).clone() for array in arrays]
    input_names, output_names = list(net.input_names()), list(net.output_names())
    if len(input_names) != len(matrices):
        raise RuntimeError(f"pnnx left {len(input_names)} of {len(matrices)} inputs")

    def run() -> Any:
        extractor = net.create_extractor()
        for name, matrix in zip(input_names, matrices, strict=True):
            extractor.input(name, matrix)
        results = []
        for name in output_names:
            status, matrix = extractor.extract(name)
            if status != 0:
                raise RuntimeError(f"ncnn cannot compute {name} (status {status})")
            results.append(matrix)
        return results

    return PreparedPeer(
        name="ncnn",
        version=metadata.version("ncnn"),
        run=run,
        outputs=lambda results: [np.array(matrix) for matrix in results],
        count_kernels=lambda: layers,
    )


@contextlib.contextmanager
def converted(
    model: Path, inputs: Mapping[str, np.ndarray], conversions: Conversions
) -> Iterator[Path]:
    """Yield a folder with :data:`PARAMETERS` and :data:`WEIGHTS`, what pnnx made of `model`."""
    program = _pnnx_program()

    def convert(folder: Path) -> None:
        _convert(program, model, inputs, folder)

    sources = [*onnx_sources(model), *shape_sources(inputs), metadata.version("pnnx")]
    with conversions.made("ncnn", sources, convert) as folder:
        yield folder


def _convert(program: Path, model: Path, inputs: Mapping[str, np.ndarray], folder: Path) -> None:
    local = folder / "model.onnx"
    local.symlink_to(model.resolve())
    shapes = ",".join(
        f"[{','.join(map(str, value.shape))}]{PNNX_TYPES[str(value.dtype)]}"
        for value in inputs.values()
    )
    command = [str(program), local.name, f"inputshape={shapes}", "fp16=0"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=CONVERSION_SECONDS, check=False
    )
    for made in folder.iterdir():
        if made.name not in (PARAMETERS, WEIGHTS):
            made.unlink()
    if not ((folder / PARAMETERS).exists() and (folder / WEIGHTS).exists()):
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise RuntimeError(
            f"pnnx failed (exit code {done.returncode}): {lines[-1] if lines else 'no message'}"
        )


def _pnnx_program() -> Path:
    """Return the converter in the pnnx package, without importing that: it imports torch."""
    spec = importlib.util.find_spec("pnnx")
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    programs = [Path(folder) / "pnnx" for folder in folders]
    for program in programs:
        if program.is_file():
            return program
    raise MissingDependencyError(
        "pnnx",
        expected="the converter from ONNX to ncnn",
        found="not installed",
        next_step="Install it with: pip install --no-deps pnnx.",
    )


def _layers_left_by_pnnx(parameters: Path) -> list[str]:
    """Return the layer types that are not ncnn's: pnnx leaves them under a qualified name."""
    types = {line.split()[0] for line in parameters.read_text().splitlines() if line.strip()}
    return sorted(kind for kind in types if "." in kind or ":" in kind)


def _count_layers(parameters: Path) -> int:
    """Return the layers that do work; pnnx has fused them already."""
    # A magic number and the sizes of the file come first.
    layers = [line.split()[0] for line in parameters.read_text().splitlines()[2:] if line.strip()]
    return sum(kind not in MOVES_NOTHING for kind in layers)


def unbatched(value: np.ndarray) -> np.ndarray:
    """Return an input as ncnn takes it: without a leading extent of 1, integers in 32 bits."""
    array = value[0] if value.ndim > 1 and value.shape[0] == 1 else value
    if np.issubdtype(array.dtype, np.integer):
        array = array.astype(np.int32)
    return np.ascontiguousarray(array)
