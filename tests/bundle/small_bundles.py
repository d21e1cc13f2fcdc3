"""A model whose kernels have workspaces, views and several outputs, as bundles; made once."""

from __future__ import annotations

import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.relay_modules import TARGET, const, module, var
from tvm_fusionx.bundle.export import export_bundle

# Valgrind and older machines know no vectors of 512 bits.
LOCAL = "llvm -mcpu=haswell" if platform.machine() == "x86_64" else TARGET
ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
NAME = "net"


def network() -> tvm.IRModule:
    """Return a network of two inputs and four outputs, a view and an input among them."""
    x, scale = var("x", 1, 16, 32, 32), var("in/scale", 1, 32, 1, 1)
    window = relay.nn.relu(relay.nn.conv2d(x, const(32, 16, 3, 3), padding=(1, 1)) * scale)
    other = relay.nn.conv2d(window, const(32, 32, 3, 3, seed=1), padding=(1, 1))
    flat = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(other))
    rows = relay.nn.softmax(relay.nn.dense(flat, const(16, 32, seed=2)))
    return module(rows, other, relay.reshape(rows, (4, 4)), scale, params=[x, scale])


def inputs() -> dict[str, np.ndarray]:
    """Return its inputs, by their names in C."""
    generator = np.random.default_rng(3)
    return {
        "x": generator.standard_normal((1, 16, 32, 32)).astype("float32"),
        "in_scale": generator.standard_normal((1, 32, 1, 1)).astype("float32"),
    }


@cache
def library(target: str = LOCAL) -> Any:
    """Return the network, built."""
    return fx.build(network(), target)


@cache
def answer() -> tuple[bytes, ...]:
    """Return what the graph executor answers."""
    x, scale = inputs().values()
    return tuple(executed(library(), {"x": x, "in/scale": scale}))


def executed(made: Any, given: dict[str, np.ndarray]) -> list[bytes]:
    """Return the bytes of what the graph executor answers."""
    executor = graph_executor.GraphModule(made["default"](tvm.cpu()))
    executor.run(**given)
    count = executor.get_num_outputs()
    return [executor.get_output(number).numpy().tobytes() for number in range(count)]


_folder = tempfile.TemporaryDirectory(prefix="fusionx-test-")


def bundle(
    target: str = LOCAL,
    name: str = NAME,
    weights: str = "embedded",
    tasks: int = 1,
    compiler: str | None = None,
) -> Path:
    """Return the folder of the network's bundle."""
    place = Path(_folder.name) / f"{name}-{weights}-{tasks}-{compiler or 'here'}" / name
    if place.is_dir():
        return place
    place.parent.mkdir()
    options: dict[str, Any] = {"weights": weights, "tasks": tasks, "compiler": compiler}
    export_bundle(library(target), place, **options)
    return place


def compiled(
    source: str | Path, output: Path, folders: Sequence[Path], options: Sequence[str] = ()
) -> Path:
    """Compile a C program with bundles, warnings being errors, and return it."""
    path = source if isinstance(source, Path) else output.with_suffix(".c")
    if isinstance(source, str):
        path.write_text(source, encoding="utf-8")
    chosen = list(options) or ["gcc", "-std=c99"]
    words = [*chosen, *STRICT, f"-I{path.parent}", *(f"-I{folder}" for folder in folders)]
    words += [str(path), "-x", "none"] if "-x" in chosen else [str(path)]
    words += [str(folder / f"lib{folder.name}.a") for folder in folders]
    run([*words, "-lm", "-lpthread", "-lstdc++", "-o", str(output)])
    return output


def run(words: Sequence[str | Path], code: int = 0) -> str:
    """Run a program; return what it said, after checking how it ended."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout


def written_inputs(folder: Path) -> list[Path]:
    """Write the inputs as files of elements."""
    paths = []
    for name, array in inputs().items():
        paths.append(folder / f"{name}.in")
        array.tofile(paths[-1])
    return paths


def need(*programs: str) -> None:
    """Skip where a program is missing."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
