"""Count the zoo's models on an Arm core: ours, and the other runtimes, by the same emulator.

    python benchmarks/arm.py [MODEL...] [--sides fusionx,ort,mnn,ncnn,litert] [--cpu cortex-a76]
        [--kind float32|int8|float16|float16-sums|bfloat16] [--again fusionx] [--without-caches]
        [--table]

Each model's counts are kept in benchmarks/results/arm/CPU/MODEL.json, side by side: what is there
is not counted again, unless --again names its side. Counts do not depend on what else the machine
does, so this may run beside anything. `fusionx count --fetch-peers` comes first. --without-caches
leaves the model of the caches out, which takes as long as all the rest: models of thousands of
millions of products have no bytes between caches then.

Of other kinds the folder is CPU-KIND. int8 is the model as ONNX Runtime's tool quantizes it (as in
benchmarks/int8.py), in all runtimes that take it; MNN (mnn-int8) and LiteRT (litert-int8) take the
float model as their own tools quantize it, and are compared with that. float16 is the file of
float32: ours with precision="float16", the others in the half precision that they offer;
float16-sums is the same, and ours sums up in halves. bfloat16 is ours alone, with that precision.
The table then has ours over our float32, too, where that was counted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tvm_fusionx import zoo
from tvm_fusionx.counting.count import LIMITS, OURS, Count, count_library
from tvm_fusionx.counting.model_build import compile_for_core
from tvm_fusionx.counting.peer_run import check_sides, count_peer
from tvm_fusionx.output_file import new_file
from tvm_fusionx.report.peers.torch_program import PROGRAM_SUFFIX

RESULTS = Path(__file__).resolve().parent / "results" / "arm"
MODELS = (
    *("mobilenet-v2", "resnet18", "minilm", "ppocr-det"),
    *("mobilenet-v1", "mobilenet-v3", "efficientnet-b0", "ppocr-rec", "tinybert"),
    *("mobilenet-ssd", "resnet50", "yolo-v8n", "distilbert", "mobilebert"),
    *("unet", "whisper-tiny-encoder"),
)
KINDS = FLOAT32, INT8, FLOAT16, SUMS, BRAIN = (
    *("float32", "int8", "float16", "float16-sums"),
    "bfloat16",
)
SIDES = {
    FLOAT32: (OURS, "ort", "mnn", "ncnn", "litert"),
    INT8: (OURS, "ort", "mnn-int8", "litert-int8"),
    **dict.fromkeys((FLOAT16, SUMS), (OURS, "mnn-fp16", "ncnn-fp16")),
    BRAIN: (OURS,),
}
# Sides of bytes that do not compute what a quantized file says, but what a tool makes of floats.
OWN_TOOLS = ("mnn-int8", "litert-int8")
# What must be shown of these kinds.
NARROW_MODELS = ("mobilenet-v2", "resnet18", "minilm")
CORE = "cortex-a76"
# The largest difference from the reference, relative to its largest value, that counts as computing
# the same: convolutions of other runtimes by minimal filtering differ by so much.
# Halves are rounded between kernels, and by other runtimes at each product; of bytes two results
# may be a step apart in each layer.
TOLERANCES = {FLOAT32: 1e-3, INT8: 5e-2, FLOAT16: 5e-2, SUMS: 5e-2, BRAIN: 5e-2}
MEASURES = ("instructions", "neoverse-n1", "cortex-a55", "neoverse-n2", "neoverse-v1")
DIGITS = 3


def main(words: Sequence[str] | None = None) -> int:
    """Count what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--sides", default="")
    parser.add_argument("--kind", choices=KINDS, default=FLOAT32)
    parser.add_argument("--again", default="", help="sides to count anew")
    parser.add_argument("--without-caches", action="store_true")
    parser.add_argument("--cpu", default=CORE)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only print what is there")
    arguments = parser.parse_args(words)
    kind = arguments.kind
    plain = arguments.results / arguments.cpu
    folder = plain if kind == FLOAT32 else plain.with_name(f"{plain.name}-{kind}")
    sides = [side for side in arguments.sides.split(",") if side] or SIDES[kind]
    models = arguments.models or (MODELS if kind == FLOAT32 else NARROW_MODELS)
    if not arguments.table:
        check_sides([side.replace("litert-int8", "litert") for side in sides if side != OURS])
        folder.mkdir(parents=True, exist_ok=True)
        for name in models:
            count_model(
                name,
                sides,
                arguments.again.split(","),
                arguments.cpu,
                folder,
                kind,
                with_caches=not arguments.without_caches,
            )
    floats = None if kind == FLOAT32 else read_results(plain, models)
    print(table(read_results(folder, models), kind, floats))
    return 0


def count_model(
    name: str,
    sides: Sequence[str],
    again: Sequence[str],
    core: str,
    folder: Path,
    kind: str = FLOAT32,
    *,
    with_caches: bool = True,
) -> None:
    """Count the sides of one model that were not counted; write after each."""
    path = folder / f"{name}.json"
    result: dict[str, Any] = {"sides": {}, "problems": {}}
    if path.is_file():
        result = json.loads(path.read_text(encoding="utf-8"))
    known = {*result["sides"], *result["problems"]}
    missing = [side for side in sides if side in again or side not in known]
    if not missing:
        return
    result |= {"model": name, "summary": zoo.summary(name), "core": core, "limits": LIMITS}
    with tempfile.TemporaryDirectory(prefix="fusionx-arm-") as scratch:
        model = Path(scratch) / f"{name}.onnx"
        exported = zoo.export(name, model)
        inputs = zoo.sample_inputs(exported)
        floats = model
        if kind == INT8:
            # What only prints tables needs no quantizer.
            from int8_models import quantize

            model = quantize(Path(scratch), name)
        elif "litert" in missing:
            # From a model without a torch module, onnx2torch makes one.
            with contextlib.suppress(Exception):
                zoo.export(name, model.with_suffix(PROGRAM_SUFFIX), "program")
        expected = reference(model, inputs, as_written=kind == INT8)
        for side in missing:
            result["sides"].pop(side, None)
            result["problems"].pop(side, None)
            try:
                if side in OWN_TOOLS:
                    count = count_own_tool(side, name, floats, inputs, core, with_caches)
                else:
                    count = count_side(
                        side, model, inputs, core, exported.shapes, kind, with_caches=with_caches
                    )
            except Exception as error:  # one side's fault must not hide the others
                result["problems"][side] = str(error).strip().splitlines()[-1]
                print(f"{name} {side}: {result['problems'][side]}", flush=True)
            else:
                like = reference(floats, inputs) if side in OWN_TOOLS else expected
                result["sides"][side] = as_kept(count, error_of(count, like))
                instructions = count.total.instructions
                print(f"{name} {side}: {instructions / 1e6:.1f} M instructions", flush=True)
            with new_file(path) as made:
                made.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def count_side(
    side: str,
    model: Path,
    inputs: Mapping[str, np.ndarray],
    core: str,
    shapes: Mapping[str, tuple[int, ...]],
    kind: str = FLOAT32,
    *,
    with_caches: bool = True,
) -> Count:
    """Count one side of a model."""
    if side != OURS:
        return count_peer(side, model, inputs, core, with_caches=with_caches)
    library = model.with_suffix(".tar")
    precision = kind if kind in (FLOAT16, SUMS, BRAIN) else None
    compile_for_core(model, library, core, shape=dict(shapes), precision=precision)
    return count_library(library, core, inputs=inputs, with_caches=with_caches)


def count_own_tool(
    side: str,
    name: str,
    floats: Path,
    inputs: Mapping[str, np.ndarray],
    core: str,
    with_caches: bool,
) -> Count:
    """Count what a runtime's own tool makes of the float model."""
    if side == "mnn-int8":
        return count_peer(side, floats, inputs, core, with_caches=with_caches)
    from int8_own_tools import litert_file

    with litert_file(floats.parent, name, inputs) as file:
        return count_peer("litert", file, inputs, core, with_caches=with_caches)


def reference(
    model: Path, inputs: Mapping[str, np.ndarray], *, as_written: bool = False
) -> np.ndarray:
    """Return what ONNX Runtime computes on this machine, in one row.

    Parameters
    ----------
    as_written
        Whether it computes each node as the file has it. What it makes of a quantized model on x86
        rounds in other places than the file: MiniLM's results are 0.09 of the largest off then.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if as_written:
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    taken = {each.name: inputs[each.name] for each in session.get_inputs()}
    return flat(session.run(None, taken))


def flat(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return arrays in one row."""
    return np.concatenate([np.asarray(array, np.float64).ravel() for array in arrays])


def error_of(count: Count, expected: np.ndarray) -> float | None:
    """Return the largest relative difference; None of outputs of another size."""
    found = flat(count.outputs)
    if found.size != expected.size:
        return None
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def as_kept(count: Count, error: float | None) -> dict[str, Any]:
    """Return what is kept of a count: all of ours but the code, of the others the totals."""
    told = count.to_json()
    kept = {"version": told["version"], "error": error, "total": told["total"]}
    if count.side == OURS:
        kept["kernels"] = told["kernels"]
        kept["loops"] = [{k: v for k, v in loop.items() if k != "code"} for loop in told["loops"]]
    return kept


def read_results(folder: Path, models: Sequence[str]) -> list[dict[str, Any]]:
    """Return the results that are there, in the order of `models`."""
    paths = [folder / f"{name}.json" for name in models]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]


def measure_of(side: Mapping[str, Any], measure: str) -> float:
    """Return what a side took by a measure."""
    total = side["total"]
    return float(total[measure] if measure in total else total["cycles"][measure])


def ratio_of(
    result: Mapping[str, Any], measure: str, tolerance: float = TOLERANCES[FLOAT32]
) -> tuple[float, str] | None:
    """Return ours over the best other that computed the same, and which; None without one."""
    others = {
        name: measure_of(side, measure)
        for name, side in result["sides"].items()
        if name != OURS and side["error"] is not None and side["error"] <= tolerance
    }
    if OURS not in result["sides"] or not others:
        return None
    best = min(others, key=lambda name: others[name])
    return measure_of(result["sides"][OURS], measure) / others[best], best


def table(
    results: Sequence[Mapping[str, Any]],
    kind: str = FLOAT32,
    floats: Sequence[Mapping[str, Any]] | None = None,
) -> str:
    """Return ours over the best other, model by model, and the geometric means.

    With the results of float32, in `floats`, also ours over our float32.
    """
    head = ["model", "our M instr.", *(f"{name} ratio" for name in MEASURES), "best", "error"]
    if floats is not None:
        head[2:2] = ["over float32"]
    rows = [head, ["---", *("---:" for _ in head[1:-2]), "---", "---:"]]
    found: dict[str, list[float]] = {name: [] for name in MEASURES}
    for result in results:
        ours = result["sides"].get(OURS)
        if ours is None:
            continue
        ratios = {name: ratio_of(result, name, TOLERANCES[kind]) for name in MEASURES}
        cells = [] if floats is None else [over_float(result, floats)]
        for name, ratio in ratios.items():
            cells.append("-" if ratio is None else f"{ratio[0]:.{DIGITS}f}")
            if ratio is not None:
                found[name].append(ratio[0])
        first = ratios["instructions"]
        error = ours["error"]
        rows.append(
            [
                result["model"],
                f"{measure_of(ours, 'instructions') / 1e6:.1f}",
                *cells,
                first[1] if first is not None else "-",
                f"{error:.1e}" if error is not None else "other size",
            ]
        )
    means = [
        f"{math.exp(sum(map(math.log, each)) / len(each)):.{DIGITS}f}" if each else "-"
        for each in found.values()
    ]
    rows.append(["geometric mean", *[""] * (len(head) - len(means) - 3), *means, "", ""])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def over_float(result: Mapping[str, Any], floats: Sequence[Mapping[str, Any]]) -> str:
    """Return our instructions over those of our float32, where that was counted."""
    for each in floats:
        if each["model"] == result["model"] and OURS in each["sides"]:
            ratio = measure_of(result["sides"][OURS], MEASURES[0])
            return f"{ratio / measure_of(each['sides'][OURS], MEASURES[0]):.{DIGITS}f}"
    return "-"


if __name__ == "__main__":
    sys.exit(main())
