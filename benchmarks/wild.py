"""Networks outside the zoo: ours beside other runtimes, and the blocks that lose the most.

    python benchmarks/wild.py [NAME ...] [--minutes M] [--json benchmarks/results/wild.json]
    python benchmarks/wild.py --table           # of what lies in the cache already
    python benchmarks/wild_blocks.py            # which blocks no fast template takes; times nothing
    python benchmarks/hidden_features.py python benchmarks/wild.py --target "llvm -mcpu=haswell" ...

``wild_networks.json`` lists them: configurations of `transformers`, modules after papers
(``wild_modules.py``, ``wild_pictures.py``), and files that packages carry. Each is exported once,
with random weights, into the cache, and measured in a process of its own: built, compared with ONNX
Runtime, timed in turns with each other runtime, and profiled kernel by kernel. What was measured
lies as ``NAME.json`` beside its file, failures too, and is not measured again without ``--again``:
after ``--minutes`` no further network is begun, and the same command goes on. The table ends with
the geometric mean, and with the kernels under 30 % of what the machine could do, summed up over all
networks by template and operators: the list to work on, top first. `hidden_features.py` before it
makes a machine with AVX-512 one with AVX2, for all sides.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

HERE = Path(__file__).resolve()
LIST = HERE.with_name("wild_networks.json")
TARGET = "llvm -mcpu=native"
SEED = 7
OPSET = 18
VOCABULARY = 1000
BYTES = 257
# Relative to the largest output: another order of sums, over some layers.
TOLERANCE = 1e-3
MODEL_LIMIT_SECONDS = 900
OURS, REFERENCE = "ours", "ort"
MODEL, RESULT = "{}.onnx", "{}.json"


def networks() -> dict[str, dict[str, Any]]:
    """Return what there is, by name."""
    return {row["name"]: row for row in json.loads(LIST.read_text(encoding="utf-8"))}


def drawn(given: Sequence[Any]) -> np.ndarray:
    """Return an input: its kind, and its shape."""
    kind, *shape = given
    draw = np.random.default_rng(SEED)
    if kind in ("ids", "bytes"):
        return draw.integers(1, VOCABULARY if kind == "ids" else BYTES, shape)
    return draw.standard_normal(shape).astype("float32")


def export(row: Mapping[str, Any], path: Path) -> None:
    """Write a network's file; in a process of torch alone."""
    if row["source"] == "package":
        import importlib.util

        spec = importlib.util.find_spec(row["family"])
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"{row['family']} is not installed")
        path.write_bytes((Path(spec.origin).parent / row["path"]).read_bytes())
        return
    import torch

    warnings.simplefilter("ignore")
    # Attention as operators that ONNX has, and not as one of torch's own.
    torch.backends.mha.set_fastpath_enabled(False)
    torch.manual_seed(SEED)
    given = tuple(torch.from_numpy(drawn(each)) for each in row["given"])
    module = _module_of(row)
    # The exporter that traces writes plainer files; what it does not know the other captures.
    for captures in (False, True):
        try:
            with torch.no_grad():
                torch.onnx.export(
                    module,
                    given,
                    str(path),
                    input_names=[f"x{at}" for at in range(len(given))],
                    output_names=["y"],
                    opset_version=OPSET,
                    dynamo=captures,
                    external_data=False,
                )
            return
        except Exception:  # torch's exporters raise what their parts raise
            if captures:
                raise


def _module_of(row: Mapping[str, Any]) -> Any:
    import torch

    if row["source"] == "torch":
        import wild_modules
        import wild_pictures

        found = getattr(wild_modules, row["family"], None) or getattr(wild_pictures, row["family"])
        return found(**row["config"]).eval()
    import transformers

    family = row["family"]
    config = getattr(transformers, f"{family}Config")(**row["config"])
    config.use_cache = False
    config._attn_implementation = "eager"
    model = getattr(transformers, f"{family}{row['head']}")(config)

    class First(torch.nn.Module):  # type: ignore[misc, name-defined]
        """Gives one tensor."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, given: Any) -> Any:
            """Return the first result."""
            return self.model(given, return_dict=False)[0]

    return First().eval()


def measure(
    row: Mapping[str, Any], path: Path, peers: Sequence[str], repeat: int, target: str = TARGET
) -> Any:
    """Return what one network takes on every side, and its blocks far from their limit."""
    import onnx
    from measured_runs import commit_here

    import tvm_fusionx as fx
    from tvm_fusionx.report.bench.bench import describe_device
    from tvm_fusionx.report.bench.plain_tvm import load, set_inputs
    from tvm_fusionx.report.bench.timing import threads_apart, time_interleaved
    from tvm_fusionx.report.profile.limits import slow_kernels
    from tvm_fusionx.report.profile.profile import profile

    names = [each.name for each in onnx.load(str(path), load_external_data=False).graph.input]
    inputs = {name: drawn(given) for name, given in zip(names, row["given"], strict=False)}
    threads = fx.threads()
    started = time.perf_counter()
    mod, params = fx.from_onnx(path, shape={name: each.shape for name, each in inputs.items()})
    imported = time.perf_counter()
    # The time is reported, so every kernel is compiled.
    with fx.kernel_cache(use=False):
        library = fx.build(mod, target, params=params)
    built = time.perf_counter()
    sides, failures = _sides(path, inputs, peers, threads)
    executor = load(library)
    set_inputs(executor, inputs)
    executor.run()
    difference = _difference(executor.get_output(0).numpy(), sides.get(REFERENCE))
    runs = {OURS: executor.run, **{name: run for name, (run, _) in sides.items()}}
    with threads_apart(threads):
        latencies, failed = time_interleaved(runs, repeat)
    report = profile(library, inputs, repeat=2)
    slow = slow_kernels(report)
    return {
        "name": row["name"],
        "device": describe_device(),
        "commit": commit_here(),
        "import_s": imported - started,
        "build_s": built - imported,
        "kernels": len(report.kernels),
        "ms": {name: latency.median for name, latency in latencies.items()},
        "failures": {**failures, **failed},
        "difference": difference,
        "sum_us": report.sum_seconds * 1e6,
        "slow": [
            {
                "kernel": each.kernel.name,
                "template": each.kernel.template,
                "us": each.kernel.seconds * 1e6,
                "limit_us": each.limit_seconds * 1e6,
                "lost_us": each.lost_seconds * 1e6,
            }
            for each in slow
        ],
    }


def _sides(
    path: Path, inputs: Mapping[str, np.ndarray], peers: Sequence[str], threads: int
) -> tuple[dict[str, tuple[Any, Any]], dict[str, str]]:
    """Return how each other runtime runs the network, and why some do not."""
    from tvm_fusionx.report.bench.timing import describe_failure
    from tvm_fusionx.report.peers import lite_rt, onnx_runtime, open_vino
    from tvm_fusionx.report.peers.conversions import Conversions

    makers = {"ort": onnx_runtime, "openvino": open_vino, "litert": lite_rt}
    sides: dict[str, tuple[Any, Any]] = {}
    failures: dict[str, str] = {}
    for name in peers:
        try:
            peer = makers[name].prepare(path, inputs, threads, Conversions())
            sides[name] = (peer.run, peer.outputs(peer.run())[0])
        except Exception as error:  # another runtime may raise anything
            failures[name] = describe_failure(error)
    return sides, failures


def _difference(found: np.ndarray, reference: tuple[Any, Any] | None) -> float | None:
    if reference is None:
        return None
    expected = reference[1].astype("float64")
    largest = np.abs(expected).max(initial=0.0)
    return float(np.abs(found - expected).max(initial=0.0) / (largest or 1.0))


def ratio_of(result: Mapping[str, Any]) -> float | None:
    """Return the time of the best other runtime over ours; None where nothing was compared."""
    times = result.get("ms", {})
    others = [value for name, value in times.items() if name != OURS]
    return min(others) / times[OURS] if OURS in times and others else None


def geometric_mean(ratios: Sequence[float]) -> float:
    """Return it; not a number of none."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def lost_by_kind(results: Sequence[Mapping[str, Any]]) -> list[tuple[str, float, int, float]]:
    """Return kinds of slow blocks, the dearest first.

    A kind is a template and the operators of the kernel's name. What one loses is told in parts of
    its network's time, added up over all networks: large networks count no more than small ones.

    Returns
    -------
    list
        Kind, parts of networks' times lost, how many blocks, the worst part of a limit.
    """
    kinds: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        for block in result.get("slow", []):
            kind = f"{block['template']}: {block['kernel'].rstrip('0123456789').rstrip('_')}"
            part = block["limit_us"] / block["us"]
            kinds.setdefault(kind, []).append((block["lost_us"] / result["sum_us"], part))
    rows = [
        (kind, sum(lost for lost, _ in each), len(each), min(part for _, part in each))
        for kind, each in kinds.items()
    ]
    return sorted(rows, key=lambda row: -row[1])


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return all of it as text."""
    lines = [f"{'network':28} {'ours':>8} {'ort':>8} {'openvino':>8} {'ratio':>6} {'build':>6} off"]
    ratios = {each["name"]: ratio for each in results if (ratio := ratio_of(each)) is not None}
    for each in sorted(results, key=lambda one: ratios.get(one["name"], math.inf)):
        if "error" in each:
            lines.append(f"{each['name']:28} {each['error'][:100]}")
            continue
        times = [
            f"{each['ms'][name]:8.2f}" if name in each["ms"] else f"{'-':>8}"
            for name in (OURS, "ort", "openvino")
        ]
        ratio = f"{ratios[each['name']]:6.2f}" if each["name"] in ratios else f"{'-':>6}"
        off = "-" if each["difference"] is None else f"{each['difference']:.0e}"
        wrong = " WRONG" if (each["difference"] or 0.0) > TOLERANCE else ""
        row = f"{each['name']:28} {' '.join(times)} {ratio} {each['build_s']:6.1f} {off}{wrong}"
        lines.append(row)
    first = sum(ratio >= 1 for ratio in ratios.values())
    mean = geometric_mean(list(ratios.values()))
    lines.append(f"{len(ratios)} compared, first on {first}, geometric mean {mean:.2f}")
    lines += ["", "lost, in parts of a network's time, by kind of block:"]
    for kind, lost, count, part in lost_by_kind(results)[:30]:
        lines.append(f"{lost:6.2f} {count:4} blocks, down to {part:4.0%}: {kind[:150]}")
    return "\n".join(lines)


def in_process(words: Sequence[str], log: Path) -> str:
    """Run this file with other words; return why it failed, or nothing."""
    with log.open("w", encoding="utf-8") as told:
        try:
            done = subprocess.run(
                [sys.executable, str(HERE), *words],
                stdout=told,
                stderr=subprocess.STDOUT,
                timeout=MODEL_LIMIT_SECONDS,
                check=False,
                env={**os.environ, "TOPHUB_LOCATION": "NONE"},
            )
        except subprocess.TimeoutExpired:
            return f"not done in {MODEL_LIMIT_SECONDS} s"
    lines = [line for line in log.read_text(encoding="utf-8").splitlines() if line.strip()]
    return "" if done.returncode == 0 else (lines[-1] if lines else f"exit {done.returncode}")


def run_one(name: str, cache: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return a network's result, from the cache or measured now."""
    path, kept = cache / MODEL.format(name), cache / RESULT.format(name)
    if kept.is_file() and not options.again:
        loaded: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return loaded
    log = cache / f"{name}.log"
    why = ""
    if not path.is_file():
        failed = in_process(["--export", name, "--cache", str(cache)], log)
        why = failed and f"not exported: {failed}"
    if not why:
        more = ["--vs", options.vs, "--repeat", str(options.repeat), "--cache", str(cache)]
        why = in_process(["--measure", name, *more, "--target", options.target], log)
    if why:
        write(kept, json.dumps({"name": name, "error": why}, indent=1) + "\n")
    measured: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return measured


def keep(cache: Path, path: Path, options: argparse.Namespace) -> None:
    """Write all results that the cache has, asked for or not, and how they were measured."""
    import tvm_fusionx as fx

    kept = [cache / RESULT.format(name) for name in networks()]
    told = {
        "threads": fx.threads(),
        "target": options.target,
        "hides_wide_vectors": "hidden_features" in os.environ.get("LD_PRELOAD", ""),
        "repeat": options.repeat,
        "rows": [json.loads(each.read_text(encoding="utf-8")) for each in kept if each.is_file()],
    }
    write(path, json.dumps(told, indent=1) + "\n")


def write(path: Path, text: str) -> None:
    """Write a file whole, or leave what was there."""
    from tvm_fusionx.output_file import new_file

    with new_file(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def main(words: Sequence[str] | None = None) -> int:
    """Measure what is asked for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("names", nargs="*", help="all by default")
    parser.add_argument("--cache", type=Path, default=Path("out/wild"))
    parser.add_argument("--vs", default="ort,openvino", help="of ort, openvino, litert")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--again", action="store_true", help="measure what was measured already")
    parser.add_argument("--table", action="store_true", help="only of what was measured already")
    parser.add_argument("--target", default=TARGET)
    parser.add_argument("--minutes", type=float, help="begin no network after so many")
    parser.add_argument("--json", type=Path, help="where all results are written together, too")
    parser.add_argument("--export", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--measure", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    known, cache = networks(), options.cache
    asked = [*options.names, *filter(None, [options.export, options.measure])]
    unknown = sorted(set(asked) - set(known))
    if unknown:
        parser.error(f"{', '.join(unknown)}: expected some of {', '.join(known)}")
    cache.mkdir(parents=True, exist_ok=True)
    if options.export:
        scratch = cache / f".{options.export}.onnx"
        export(known[options.export], scratch)
        scratch.rename(cache / MODEL.format(options.export))
        return 0
    if options.measure:
        path = cache / MODEL.format(options.measure)
        peers = options.vs.split(",")
        found = measure(known[options.measure], path, peers, options.repeat, options.target)
        write(cache / RESULT.format(options.measure), json.dumps(found, indent=1) + "\n")
        return 0
    started, results = time.monotonic(), []
    for name in options.names or known:
        spent = (time.monotonic() - started) / 60
        is_over = options.minutes is not None and spent >= options.minutes
        is_known = (cache / RESULT.format(name)).is_file()
        if (not is_known and (options.table or is_over)) or (is_over and options.again):
            continue
        results.append(run_one(name, cache, options))
        if options.json:
            keep(cache, options.json, options)
        if not options.table:
            found = results[-1]
            print(name, found.get("error") or found["ms"], flush=True)
    print(table(results))
    left = len(options.names or known) - len(results)
    if left and not options.table:
        print(f"{left} networks are left: the same command goes on with them.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
