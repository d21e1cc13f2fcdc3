"""Time quantized models: ours, and other runtimes with the same file or their own, in turns.

    python benchmarks/int8.py [NAME...] [--out out/int8] [--repeat 100] [--seconds 40] [--ours]
                              [--json FILE] [--limit 600] [--again]

NAME is a model of the zoo; all of it by default, the quickest first. Each is exported, quantized by
ONNX Runtime's tool (per channel, unsigned activations, calibrated on seeded random inputs) and
compiled, unless OUT has it already from equal sources; what is measured are our int8 and float32
builds, ONNX Runtime's two, the int8 file in OpenVINO, and what MNN's and LiteRT's own tools make of
the float model (`int8_own_tools.py`); who does not take it is told on stderr. --ours times our two
sides alone. A row has the median milliseconds, our float time over our int8 time, the best other
int8 over ours, how many products multiply integers (the others are floats, which the build
estimated to be faster), and the accuracy: the largest difference from ONNX Runtime's float model,
relative to its largest output, and how many rows have the same largest element.

Each model has a process of its own, of at most --limit seconds, of which timing takes about
--seconds: fewer runs of a side than --repeat where that many take longer, ten at least. What became
of a model is written to FILE (OUT/results.json) at once, and is not measured again with equal
sources and options but for --again. Models that the tool or a build cannot do are told at the end.
The exit code is 1 where our int8 is slower than our float.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.contrib import graph_executor

sys.path.insert(0, str(Path(__file__).resolve().parent))

from int8_models import FLOAT32, INT8, export, inputs_of, quantize
from int8_own_tools import OWN_TOOLS

import tvm_fusionx as fx
from tvm_fusionx import zoo
from tvm_fusionx.output_file import new_file
from tvm_fusionx.passes.rewrite_quantized import rewrite_quantized
from tvm_fusionx.records.device import processor_name
from tvm_fusionx.report.bench.timing import (
    Latency,
    describe_failure,
    threads_apart,
    time_interleaved,
)
from tvm_fusionx.report.peers import PreparedPeer, prepare_peer

TARGET = "llvm -mcpu=native"
DEFAULT_REPEAT = 100
# All of the zoo, from the quickest to the slowest in float.
MODELS = (
    *("ppocr-cls", "mobilenet-v3", "mobilenet-v2", "mobilenet-v1", "ppocr-det", "tinybert"),
    *("efficientnet-b0", "ppocr-rec", "mobilenet-ssd", "resnet18", "minilm", "yolo-v8n"),
    *("resnet50", "distilbert", "mobilebert", "vgg16", "llama-block", "unet", "bert-base"),
    *("albert", "faster-rcnn", "c3d", "s3d", "gpt2", "vit-b16", "whisper-tiny-encoder"),
    *("yolo-v4", "mask-rcnn"),
)
DEFAULT_LIMIT_SECONDS = 600
# What timing a model takes at most, and the runs of a side that are timed however long they take.
DEFAULT_SECONDS = 40
FEWEST_RUNS = 10

OURS = {INT8: "ours int8", FLOAT32: "ours float32"}
ORT_FLOAT = "ort float32"
# Those that read the quantized file, and those whose own tools quantize the float model.
READERS = ("ort", "openvino")
PEERS = (*READERS, *OWN_TOOLS)
# How far apart two medians of equal sides lie on a quiet machine.
EQUAL = 1.02


def sources() -> str:
    """Return a digest of our sources: what they compiled is not what others would."""
    found = hashlib.sha256()
    folder = Path(fx.__file__).parent
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".json", ".cc", ".h"):
            found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


def on_integers(out: Path, name: str) -> str:
    """Return how many of the products that read integers multiply them."""
    shapes = {key: value.shape for key, value in inputs_of(out, name).items()}
    mod, _ = fx.from_onnx(quantize(out, name), shape=shapes)
    choices = rewrite_quantized(mod, TARGET)[1]
    return f"{sum(choice.reason is None for choice in choices)}/{len(choices)}"


def compiled(out: Path, name: str, kind: str) -> Path:
    """Build the model of one kind, unless that was done, and return the library's path."""
    path = out / f"{name}.{kind}.{sources()}.so"
    if not path.exists():
        source = quantize(out, name) if kind == INT8 else export(out, name)
        shapes = {key: value.shape for key, value in inputs_of(out, name).items()}
        started = time.perf_counter()
        mod, params = fx.from_onnx(source, shape=shapes)
        with new_file(path) as scratch:
            # The linker goes by the ending.
            linked = scratch.with_name(f"{scratch.name}.so")
            fx.build(mod, TARGET, params).export_library(str(linked))
            os.replace(linked, scratch)
        print(f"{name} {kind}: built in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return path


def _ours(path: Path, inputs: Mapping[str, np.ndarray]) -> Any:
    executor = graph_executor.GraphModule(tvm.runtime.load_module(str(path))["default"](tvm.cpu()))
    for key, value in inputs.items():
        executor.set_input(key, value)
    return executor


def _peers(
    out: Path, name: str, inputs: Mapping[str, np.ndarray], threads: int, names: Sequence[str]
) -> tuple[dict[str, PreparedPeer], dict[str, str]]:
    """Return what was prepared, by side, and why the others were not."""
    sides: dict[str, Callable[[], PreparedPeer]] = {}
    for peer in names:
        if peer in OWN_TOOLS:
            sides[f"{peer} int8"] = partial(OWN_TOOLS[peer], out, name, inputs, threads)
        else:
            model = quantize(out, name)
            sides[f"{peer} int8"] = partial(prepare_peer, peer, model, inputs, threads)
    if "ort" in names:
        model = export(out, name)
        sides[ORT_FLOAT] = partial(prepare_peer, "ort", model, inputs, threads)
    prepared: dict[str, PreparedPeer] = {}
    failed: dict[str, str] = {}
    for side, prepare in sides.items():
        try:
            prepared[side] = prepare()
        except Exception as error:  # another runtime may raise anything
            failed[side] = describe_failure(error)
    return prepared, failed


def runs_within(seconds: float, repeat: int, one_of_each: float) -> int:
    """Return how often each side is run, of which one run of each takes `one_of_each` seconds."""
    return max(FEWEST_RUNS, min(repeat, int(seconds / max(one_of_each, 1e-9))))


def measure(
    out: Path, name: str, repeat: int, seconds: float, peers: Sequence[str]
) -> dict[str, Any]:
    """Return the latencies of all sides by name, what failed, and how accurate two of them are."""
    paths = {kind: compiled(out, name, kind) for kind in OURS}
    inputs, threads = inputs_of(out, name), fx.threads()
    ours = {OURS[kind]: _ours(path, inputs) for kind, path in paths.items()}
    prepared, failures = _peers(out, name, inputs, threads, peers)
    runs: dict[str, Callable[[], Any]] = {side: executor.run for side, executor in ours.items()}
    runs |= {side: peer.run for side, peer in prepared.items()}
    made, one_of_each = {}, 0.0
    for side, run in list(runs.items()):
        try:
            result = run()
            started = time.perf_counter()
            run()
            one_of_each += time.perf_counter() - started
            if side in prepared:
                made[side] = prepared[side].outputs(result)[0]
            else:
                made[side] = ours[side].get_output(0).numpy()
        except Exception as error:
            failures[side] = describe_failure(error)
            del runs[side]
    with threads_apart(threads):
        runs_of_each = runs_within(seconds, repeat, one_of_each)
        latencies, failed = time_interleaved(runs, runs_of_each)
    exact = made.get(ORT_FLOAT, made[OURS[FLOAT32]])
    accuracy = {side: _accuracy(made[side], exact) for side in made if side.endswith(INT8)}
    return {
        "model": name,
        "threads": threads,
        "device": processor_name(),
        "runs": runs_of_each,
        "integers": on_integers(out, name),
        "latencies": {side: each.to_json() for side, each in latencies.items()},
        "gains": gains(latencies),
        "accuracy": accuracy,
        "failures": failures | failed,
    }


def gains(latencies: Mapping[str, Latency]) -> dict[str, float | None]:
    """Return float over int8 of ours, and the best other int8 over ours."""
    int8 = latencies[OURS[INT8]].median
    others = [
        each.median
        for side, each in latencies.items()
        if side.endswith(INT8) and side != OURS[INT8]
    ]
    return {
        "float32 / int8": latencies[OURS[FLOAT32]].median / int8,
        "best other / ours": min(others) / int8 if others else None,
    }


def _accuracy(found: np.ndarray, exact: np.ndarray) -> str:
    if found.shape != exact.shape:
        return f"shape {found.shape}"
    worst = np.abs(found - exact).max() / np.abs(exact).max()
    agree = (found.argmax(-1) == exact.argmax(-1)).mean()
    return f"{worst:.3f}, {agree:.0%}"


def row_of(result: Mapping[str, Any], sides: Sequence[str]) -> str:
    """Return a result as a row of the table."""
    taken = [result["latencies"].get(side) for side in sides]
    cells = ["-" if each is None else f"{each['median']:.2f}" for each in taken]
    cells += ["-" if each is None else f"{each:.2f}" for each in result["gains"].values()]
    cells.append(result["integers"])
    cells += [result["accuracy"].get(side, "-") for side in (OURS[INT8], "ort int8")]
    return f"| {result['model']} | " + " | ".join(cells) + " |"


def _mean(values: Sequence[float]) -> str:
    return f"{math.exp(sum(map(math.log, values)) / len(values)):.2f}" if values else "-"


def options_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what a result depends on, beside the model."""
    kept = ("repeat", "seconds", "ours")
    return {"sources": sources(), **{name: getattr(arguments, name) for name in kept}}


def in_own_process(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what a process of its own measured of a model, or why it has no result."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "result.json"
        words = [sys.executable, __file__, name, "--single", str(written)]
        words += ["--out", str(arguments.out), "--repeat", str(arguments.repeat)]
        words += ["--seconds", str(arguments.seconds)]
        words += ["--ours"] if arguments.ours else []
        try:
            code = subprocess.run(words, timeout=arguments.limit, check=False).returncode
        except subprocess.TimeoutExpired:
            return {"model": name, "failed": f"it took more than {arguments.limit} seconds"}
        if not written.exists():
            return {"model": name, "failed": f"its process ended with {code}"}
        result: dict[str, Any] = json.loads(written.read_text(encoding="utf-8"))
        return result


def _single(name: str, arguments: argparse.Namespace) -> int:
    peers = () if arguments.ours else PEERS
    try:
        result = measure(arguments.out, name, arguments.repeat, arguments.seconds, peers)
    except Exception as error:  # the tool and the exports raise anything
        result = {"model": name, "failed": describe_failure(error)}
    with new_file(arguments.single) as scratch:
        scratch.write_text(json.dumps(result) + "\n", encoding="utf-8")
    return 0


def results_of(path: Path) -> dict[str, dict[str, Any]]:
    """Return the results of a file by model; each says what options it was measured with."""
    if not path.exists():
        return {}
    return {each["model"]: each for each in json.loads(path.read_text(encoding="utf-8"))}


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=MODELS)
    parser.add_argument("--out", type=Path, default=Path("out/int8"))
    parser.add_argument("--repeat", type=int, default=DEFAULT_REPEAT, help="timed runs of a side")
    parser.add_argument("--ours", action="store_true", help="time our two sides alone")
    parser.add_argument("--json", type=Path, help="results; OUT/results.json by default")
    parser.add_argument(
        "--limit", type=float, default=DEFAULT_LIMIT_SECONDS, help="seconds for a model"
    )
    parser.add_argument(
        "--seconds", type=float, default=DEFAULT_SECONDS, help="that timing a model takes at most"
    )
    parser.add_argument("--again", action="store_true", help="measure what was measured before")
    parser.add_argument("--single", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    unknown = sorted(set(arguments.names) - set(zoo.names()))
    if unknown:
        parser.error(f"{unknown[0]}: expected models of the zoo: {', '.join(zoo.names())}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.single is not None:
        return _single(arguments.names[0], arguments)
    stored = arguments.json or arguments.out / "results.json"
    options = options_of(arguments)
    results = results_of(stored)
    # Models that nobody asks for now keep their rows.
    known = {name for name, each in results.items() if each.get("options") == options}
    known = set() if arguments.again else known
    peers = () if arguments.ours else PEERS
    sides = [*OURS.values(), *(f"{peer} int8" for peer in peers)]
    sides += [ORT_FLOAT] if peers else []
    heads = [*sides, "float32 / int8", "best other / ours", "on integers"]
    heads += ["ours from float", "ORT from float"]
    print("| model | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 1) + "|")
    for name in arguments.names:
        if name not in known:
            results[name] = in_own_process(name, arguments) | {"options": options}
            with new_file(stored) as scratch:
                text = json.dumps(list(results.values()), indent=1) + "\n"
                scratch.write_text(text, encoding="utf-8")
        result = results[name]
        if "failed" in result:
            print(f"{name}: {result['failed']}", file=sys.stderr)
            continue
        print(row_of(result, sides), flush=True)
        for side, why in result["failures"].items():
            print(f"{name}: {side}: {why}", file=sys.stderr)
    return _conclude([results[name] for name in arguments.names])


def _conclude(results: Sequence[Mapping[str, Any]]) -> int:
    """Print what all results say together, and return the exit code."""
    whole = [result for result in results if "failed" not in result]
    own = [result["gains"]["float32 / int8"] for result in whole]
    others = [each for r in whole if (each := r["gains"]["best other / ours"]) is not None]
    print(f"geometric means: float32 / int8 {_mean(own)}, best other / ours {_mean(others)}")
    slower = [r["model"] for r, gain in zip(whole, own, strict=True) if gain * EQUAL < 1]
    behind = [r["model"] for r in whole if (r["gains"]["best other / ours"] or EQUAL) * EQUAL < 1]
    for what, names in (
        ("int8 is slower than float32", slower),
        ("another int8 is faster", behind),
        ("no result", [r["model"] for r in results if "failed" in r]),
    ):
        if names:
            print(f"{what}: {', '.join(names)}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
