"""Run bundles of whole models under valgrind, and with the sanitizers of addresses and C's rules.

    python benchmarks/bundle_checks.py [NAME ...]

Each model of ``benchmarks/bundles.py`` is built for vectors of 256 bits, which valgrind knows, and
exported with its weights in the program and beside it. The example program of each bundle answers
the same random inputs under valgrind, and compiled with the sanitizers, the bundle's own C, too;
every answer is compared with the graph executor's, to the bit. Ends with 1 where one differs or a
tool has something to say. A model takes some minutes: valgrind executes 50 times slower.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.contrib import graph_executor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from bundles import INT8, MODELS
from int8_models import quantize

import tvm_fusionx as fx
from tvm_fusionx import zoo
from tvm_fusionx.inputs import inputs_of, random_inputs

TARGET = "llvm -mcpu=haswell"
VALGRIND = ("valgrind", "-q", "--error-exitcode=9")
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all"
# The example frees nothing before it ends, and says so.
NO_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}
PLACES = ("embedded", "beside")


def built(name: str, folder: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """Return a model of the zoo, built, and inputs for it; ``NAME:int8`` is quantized."""
    plain = name.removesuffix(INT8)
    exported = zoo.export(plain, folder / "model.onnx")
    path = exported.path if plain == name else quantize(folder, plain)
    mod, params = fx.from_onnx(path, shape=exported.shapes)
    return fx.build(mod, TARGET, params), random_inputs(inputs_of(mod, params))


def answers(library: Any, inputs: Mapping[str, np.ndarray]) -> list[bytes]:
    """Return the bytes of the graph executor's outputs."""
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(**inputs)
    count = executor.get_num_outputs()
    return [executor.get_output(number).numpy().tobytes() for number in range(count)]


def checking_compiler(folder: Path) -> Path:
    """Write gcc with the sanitizers as one command, and return it."""
    program = folder / "checking-gcc"
    program.write_text(f'#!/bin/sh\nexec gcc {SANITIZERS} "$@"\n', encoding="ascii")
    program.chmod(0o755)
    return program


def program_of(bundle: Path, compiler: str, program: Path) -> list[str]:
    """Compile a bundle's example to ``program``; return the words that start it."""
    library = bundle / f"lib{bundle.name}.a"
    words = [compiler, "-std=c99", f"-I{bundle}", str(bundle / "main.c"), str(library)]
    subprocess.run([*words, "-lm", "-o", str(program)], check=True)
    weights = bundle / f"{bundle.name}.weights"
    return [str(program), *([str(weights)] if weights.is_file() else [])]


def check(words: Sequence[str], given: Sequence[Path], expected: Sequence[bytes]) -> str:
    """Run a program of a bundle; return what is wrong, or "right"."""
    with tempfile.TemporaryDirectory(prefix="fusionx-bundle-check-") as scratch:
        outputs = [Path(scratch) / f"{number}.out" for number in range(len(expected))]
        done = subprocess.run(
            [*words, *map(str, given), *map(str, outputs)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **NO_LEAKS},
        )
        if done.returncode:
            return f"exit status {done.returncode}\n{done.stderr}"
        said = done.stderr.strip()
        if said:
            return said
        if [output.read_bytes() for output in outputs] != list(expected):
            return "another answer than the graph executor's"
    return "right"


def check_model(name: str, folder: Path) -> bool:
    """Check a model's bundles, print a line each, and tell whether all are right."""
    library, inputs = built(name, folder)
    expected = answers(library, inputs)
    given = []
    for number, array in enumerate(inputs.values()):
        given.append(folder / f"{number}.bin")
        array.tofile(given[-1])
    checking = checking_compiler(folder)
    is_right = True
    for weights in PLACES:
        for tool, compiler, before in (
            ("valgrind", "gcc", VALGRIND),
            ("sanitizers", str(checking), ()),
        ):
            bundle = folder / f"{tool}-{weights}" / "net"
            bundle.parent.mkdir()
            fx.export_bundle(library, bundle, weights=weights, compiler=compiler)
            program = program_of(bundle, compiler, bundle.parent / "main")
            found = check([*before, *program], given, expected)
            print(f"{name}, weights {weights}, {tool}: {found}", flush=True)
            is_right &= found == "right"
    return is_right


def main() -> None:
    """Check the models that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(MODELS))
    is_right = True
    for name in parser.parse_args().names:
        with tempfile.TemporaryDirectory(prefix="fusionx-bundle-checks-") as folder:
            is_right &= check_model(name, Path(folder))
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()
