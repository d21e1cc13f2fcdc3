"""Weights of several programs in a file of their own, which is mapped and never copied.

A library file is read as a whole, and its weights are unpacked: for a while a process holds them
three times, and each process has its own. Pages of a mapped file are there once for all processes,
and the system may drop them. So programs that are kept on this machine have large weights here.

The file: a word that says what it is, the SHA-256 of all behind it, the length of a header, the
header as JSON (dtype, shape and place of each array; names of each program), and arrays, each where
vectors may begin.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import mmap
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvm_fusionx.build.archive import refusal
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.build.library import Library
from tvm_fusionx.output_file import new_file

WORD = b"FXWEIGHT"

# The word, and the digest of what stands behind them: first the header's length.
START, LENGTH = struct.Struct(f"<{len(WORD)}s32s"), struct.Struct("<Q")
FRONT_BYTES = START.size + LENGTH.size

# TVM takes no array where it lies that begins elsewhere.
ALIGNMENT = 64

# Smaller ones stay in the library.
LEAST_BYTES = 4096

# What NumPy and TVM hand to each other where it lies.
DTYPES = ("float32", "float16", "int32", "int8", "uint8", "uint16")

# Read at once, so that a digest needs no memory.
PART_BYTES = 1 << 20


def save_weights(programs: Sequence[Library], path: str | Path) -> list[Library]:
    """Write the large weights of some programs; return the programs without them.

    Parameters
    ----------
    programs
        Of one model: weights that are equal the same arrays.
    path
        Written whole or not at all.

    Raises
    ------
    OutputFileError
        The path cannot be written.
    DiskFullError
        There is no space left.
    """
    large = [_large(program) for program in programs]
    arrays = {id(array): array for each in large for array in each.values()}
    numbers = {key: number for number, key in enumerate(arrays)}
    names = [{name: numbers[id(array)] for name, array in each.items()} for each in large]
    rows, place = [], 0
    for array in arrays.values():
        shape = [int(extent) for extent in array.shape]
        rows.append({"dtype": str(array.dtype), "shape": shape, "place": place})
        place = _aligned(place + _bytes_of(rows[-1]))
    header = json.dumps({"arrays": rows, "programs": names}).encode()
    # Blanks, which JSON has for nothing.
    header = header.ljust(_aligned(FRONT_BYTES + len(header)) - FRONT_BYTES)
    header = LENGTH.pack(len(header)) + header
    digest = hashlib.sha256(header)
    with new_file(path) as scratch, scratch.open("wb") as file:
        file.write(START.pack(WORD, b"") + header)
        for array in arrays.values():
            held = array.numpy().tobytes()
            held = held.ljust(_aligned(len(held)), b"\0")
            digest.update(held)
            file.write(held)
        file.seek(0)
        file.write(START.pack(WORD, digest.digest()))
    return [
        replace(program, params={n: a for n, a in program.params.items() if n not in own})
        for program, own in zip(programs, names, strict=True)
    ]


def with_weights(programs: Sequence[Library], path: str | Path) -> tuple[Library, ...]:
    """Return programs with the weights of a file, which is mapped as long as any of them is used.

    Raises
    ------
    LibraryFileError
        The file is missing, damaged, or of other programs.
    """
    where = Path(path)
    try:
        with where.open("rb") as file:
            word, digest = START.unpack(file.read(START.size))
            (length,) = LENGTH.unpack(file.read(LENGTH.size))
            # Private: what writes to a weight writes to a page of its own.
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError, struct.error) as error:
        raise _damaged(where, "a file of weights", str(error)) from error
    if word != WORD or _digest_of(mapped) != digest:
        raise _damaged(where, "what was written", "a part, or other bytes")
    end = FRONT_BYTES + length
    header = json.loads(mapped[FRONT_BYTES:end])
    names: list[dict[str, int]] = header["programs"]
    if len(names) != len(programs):
        raise _damaged(where, f"weights of {len(programs)} programs", str(len(names)))
    whole = np.frombuffer(mapped, "uint8")
    arrays = [_array(whole[end + row["place"] :], row) for row in header["arrays"]]
    return tuple(
        replace(program, params={**program.params, **{n: arrays[at] for n, at in own.items()}})
        for program, own in zip(programs, names, strict=True)
    )


def _large(program: Library) -> dict[str, Any]:
    """Return the weights that an executor may read where they lie, the large ones."""
    readable = KernelGraph.from_json(program.graph_json).read_by_kernels_alone
    return {
        name: array
        for name, array in program.params.items()
        if name in readable
        and str(array.dtype) in DTYPES
        and math.prod(map(int, array.shape)) * np.dtype(str(array.dtype)).itemsize >= LEAST_BYTES
    }


def _array(held: np.ndarray[Any, Any], row: Mapping[str, Any]) -> Any:
    found = held[: _bytes_of(row)].view(row["dtype"]).reshape(row["shape"])
    return tvm.nd.from_dlpack(found)


def _bytes_of(row: Mapping[str, Any]) -> int:
    return math.prod(row["shape"]) * np.dtype(row["dtype"]).itemsize


def _aligned(count: int) -> int:
    return -(-count // ALIGNMENT) * ALIGNMENT


def _digest_of(mapped: mmap.mmap) -> bytes:
    found = hashlib.sha256()
    with memoryview(mapped) as whole:
        for start, end in itertools.pairwise((*range(START.size, len(whole), PART_BYTES), None)):
            found.update(whole[start:end])
    return found.digest()


def _damaged(path: Path, expected: str, found: str) -> Exception:
    return refusal(path, expected, found, "Remove it: it is made again when it is needed.")
