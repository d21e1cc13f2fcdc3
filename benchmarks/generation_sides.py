"""The processes that `generation.py` asks, and how fast this machine reads memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tvm

import tvm_fusionx as fx
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.gguf.read import read_gguf
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.measuring.peak_kernels import SUMS_READ, reading
from tvm_fusionx.schedules import describe_cpu, resolve_target

WORKER = Path(__file__).with_name("generation_worker.py")
OURS, LLAMA = "ours", "llama.cpp"
# ONNX Runtime's products of bytes, and with the zero points that Q4_1 has.
ORT, ORT_FLOAT_ZEROS = "ort", "ort-float-zeros"
PEERS = (LLAMA, ORT, ORT_FLOAT_ZEROS)

# Far beyond any last level cache: 256 MiB of float32.
READ_FLOATS = 1 << 26
READ_ROUNDS = 10
FLOAT_BYTES = 4
GIGA = 1e9


@dataclass
class Side:
    """A process that runs the model."""

    name: str
    python: str
    activations: str | None = None
    """What ours multiplies packed weights by; llama.cpp has its own way."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What it said when it loaded the model."""

    def __post_init__(self) -> None:
        """Start it."""
        command = [self.python, str(WORKER), self.name]
        if self.activations is not None:
            self.name = f"{self.name} {self.activations}"
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        except OSError as error:
            raise self._missing(str(error)) from error

    def ask(self, **question: Any) -> dict[str, Any]:
        """Return the answer to a question.

        Raises
        ------
        MissingDependencyError
            The process ended: what it needs is not there, as it said on its standard error.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._missing("it ended") from error
        line = self._process.stdout.readline()
        if not line:
            raise self._missing(f"it ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def load(
        self,
        path: Path,
        threads: int,
        places: int,
        activations: str | None = None,
        chunks: list[int] | None = None,
    ) -> None:
        """Load the model."""
        activations = activations or self.activations
        self.facts = self.ask(
            ask="load",
            path=str(path),
            threads=threads,
            places=places,
            activations=activations,
            chunks=chunks,
        )

    def end(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def _missing(self, found: str) -> MissingDependencyError:
        return MissingDependencyError(
            f"{self.name} in {self.python}",
            expected="a Python that has it",
            found=found,
            next_step="python -m venv DIR && DIR/bin/pip install llama-cpp-python; then give "
            "--llama-python DIR/bin/python.",
        )


def our_side(activations: str | None = None) -> Side:
    """Return a process of ours; named after `activations` where these are given."""
    return Side(OURS, sys.executable, activations)


def peer_sides(names: Sequence[str], llama_python: str) -> list[Side]:
    """Return a process of each of :data:`PEERS` that is named."""
    return [Side(name, llama_python if name == LLAMA else sys.executable) for name in names]


def reading_gbytes_per_second() -> float:
    """Return how fast all threads in use read memory, the best of some rounds."""
    target = resolve_target("llvm -mcpu=native")
    threads, lanes = fx.threads(), describe_cpu(target).lanes
    width = threads * SUMS_READ * lanes
    floats = READ_FLOATS // width * width
    kernel = compile_kernel(reading(threads, lanes, floats), target, "reading")
    source = tvm.nd.array(np.ones(floats, "float32"))
    sums = tvm.nd.array(np.zeros(width, "float32"))
    taken = []
    for _ in range(READ_ROUNDS):
        start = time.perf_counter()
        kernel["reading"](source, sums)
        taken.append(time.perf_counter() - start)
    return FLOAT_BYTES * floats / min(taken) / GIGA


def weight_bytes(path: Path) -> int:
    """Return the bytes of weights that a token reads: all but rows of an embedding of its own."""
    tensors = read_gguf(path).tensors
    kept = [
        tensor
        for name, tensor in tensors.items()
        if name != "token_embd.weight" or "output.weight" not in tensors
    ]
    return sum(int(tensor.n_bytes) for tensor in kept)
