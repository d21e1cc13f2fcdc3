"""Count another runtime's inference of the same model, under the same emulator."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.cache_folder import cache_folder
from tvm_fusionx.counting.arm_root import SITE, peers_folder, python_of, root_of, why_no_peers
from tvm_fusionx.counting.count import Count, count_functions
from tvm_fusionx.counting.cycles import CYCLE_CORES
from tvm_fusionx.counting.emulator import caches_of, check_core, run_counted
from tvm_fusionx.counting.executed import functions_of
from tvm_fusionx.counting.trace import read_trace
from tvm_fusionx.errors import MissingDependencyError, TargetError
from tvm_fusionx.inputs import write_arrays
from tvm_fusionx.report.peers import lite_rt, mnn_session, ncnn_net
from tvm_fusionx.report.peers.conversions import Conversions

SCRIPT = Path(__file__).resolve().parent / "guest" / "run_peer.py"
# Where Debian for arm64 keeps its libraries.
LIBRARIES = "usr/lib/aarch64-linux-gnu"

Arrays = Mapping[str, np.ndarray]
Prepared = contextlib.AbstractContextManager[tuple[dict[str, Any], Arrays]]


@contextlib.contextmanager
def _ort(model: Path, inputs: Arrays, _: Conversions) -> Iterator[tuple[dict[str, Any], Arrays]]:
    yield {"runtime": "ort", "model": str(model.resolve())}, inputs


@contextlib.contextmanager
def _mnn(
    model: Path,
    inputs: Arrays,
    conversions: Conversions,
    precision: str = "high",
    options: Sequence[str] = (),
    memory: str = "normal",
) -> Iterator[tuple[dict[str, Any], Arrays]]:
    takes, gives = mnn_session.names_of(model)
    with mnn_session.converted(model, conversions, options) as folder:
        spec = {"runtime": "mnn", "model": str(folder / mnn_session.CONVERTED)}
        spec |= {"precision": precision, "memory": memory}
        yield {**spec, "inputs": takes, "outputs": gives}, inputs


@contextlib.contextmanager
def _ncnn(
    model: Path, inputs: Arrays, conversions: Conversions, half: bool = False
) -> Iterator[tuple[dict[str, Any], Arrays]]:
    with ncnn_net.converted(model, inputs, conversions) as folder:
        spec = {"runtime": "ncnn", "half": half}
        files = {
            "parameters": str(folder / ncnn_net.PARAMETERS),
            "weights": str(folder / ncnn_net.WEIGHTS),
        }
        arrays = {name: ncnn_net.unbatched(value) for name, value in inputs.items()}
        yield {**spec, **files}, arrays


@contextlib.contextmanager
def _litert(
    model: Path, inputs: Arrays, conversions: Conversions
) -> Iterator[tuple[dict[str, Any], Arrays]]:
    if model.suffix == Path(lite_rt.CONVERTED).suffix:
        yield {"runtime": "litert", "model": str(model.resolve())}, inputs
        return
    with lite_rt.converted(model, inputs, conversions) as folder:
        yield {"runtime": "litert", "model": str(folder / lite_rt.CONVERTED)}, inputs


# Name on the command line -> what prepares it. The -fp16 ones compute in half precision, the -int8
# one in bytes that its converter makes of a float model; LiteRT takes what its tools wrote, too.
SIDES: Mapping[str, Callable[[Path, Arrays, Conversions], Prepared]] = {
    "ort": _ort,
    "mnn": _mnn,
    "ncnn": _ncnn,
    "litert": _litert,
    "mnn-fp16": lambda model, inputs, kept: _mnn(model, inputs, kept, "low"),
    "mnn-int8": lambda model, inputs, kept: _mnn(
        model, inputs, kept, "high", mnn_session.BYTES_OPTIONS, mnn_session.BYTES_MEMORY
    ),
    "ncnn-fp16": lambda model, inputs, kept: _ncnn(model, inputs, kept, True),
}


def check_sides(sides: Sequence[str]) -> None:
    """Raise where one of `sides` is no runtime that can be counted, or nothing was fetched.

    Raises
    ------
    TargetError
        There is no such runtime.
    MissingDependencyError
        Their root was not fetched.
    """
    unknown = [side for side in sides if side not in SIDES]
    if unknown:
        raise TargetError(
            f"--against {','.join(unknown)}",
            expected=f"some of {', '.join(SIDES)}",
            found="others",
            next_step="Name runtimes that have wheels for aarch64.",
        )
    problem = why_no_peers() if sides else None
    if problem is not None:
        raise MissingDependencyError(
            "counting other runtimes",
            expected="Debian for arm64, and their wheels",
            found=problem,
            next_step="It takes a minute, and 350 MB of the cache folder.",
        )


def count_peer(
    side: str,
    model: str | Path,
    inputs: Arrays,
    core: str,
    *,
    with_caches: bool = True,
    cores: Sequence[str] = CYCLE_CORES,
    conversions: Conversions | None = None,
) -> Count:
    """Count one inference of the ONNX file `model` by another runtime, after one to warm up.

    What the Python interpreter executed is left out; what the runtime did for it is not.

    Parameters
    ----------
    side
        One of :data:`SIDES`.
    inputs
        Arrays by name, in the model's order.
    conversions
        Where converted models are kept; the cache folder by default.

    Raises
    ------
    TargetError, MissingDependencyError
        As :func:`check_sides`; or a converter is missing.
    DeviceError, RuntimeError
        The runtime cannot run the model, or its converter not convert it.
    """
    check_core(core)
    check_sides([side])
    model = Path(model)
    kept = conversions or Conversions(cache_folder() / "counting" / "conversions")
    root = root_of(core)
    python = python_of(root)
    with (
        tempfile.TemporaryDirectory(prefix="fusionx-count-") as name,
        SIDES[side](model, inputs, kept) as (spec, arrays),
    ):
        folder = Path(name)
        counts, told = folder / "counts.txt", folder / "told.json"
        results = folder / "results.npz"
        write_arrays(folder / "arrays.npz", arrays)
        paths = {"arrays": folder / "arrays.npz", "results": results, "told": told}
        whole = {**spec, **{key: str(path) for key, path in paths.items()}}
        (folder / "spec.json").write_text(json.dumps(whole), encoding="utf-8")
        run_counted(
            [str(python), "-S", "-s", str(SCRIPT), str(folder / "spec.json")],
            counts,
            core,
            caches=caches_of(core) if with_caches else None,
            environment={
                "PYTHONHOME": str(root / "usr"),
                "PYTHONPATH": str(peers_folder() / SITE),
                "PYTHONDONTWRITEBYTECODE": "1",
                "LD_LIBRARY_PATH": str(root / LIBRARIES),
            },
            sysroot=root,
        )
        functions = functions_of(read_trace(counts))
        with np.load(results) as loaded:
            outputs = [loaded[key] for key in loaded.files]
        version = str(json.loads(told.read_text(encoding="utf-8"))["version"])
    interpreter = python.resolve().name
    return count_functions(
        [each for each in functions if each.module != interpreter],
        side=side,
        version=version,
        model=model.stem,
        core=core,
        cores=cores,
        outputs=outputs,
    )
