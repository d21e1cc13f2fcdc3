"""Time bundles from the start of a process to its first answer, beside other runtimes.

    python benchmarks/bundles.py --json out/bundles.json [--again] [NAME...]

Each run is a new process, one thread, the sides taking turns; inputs are the same random ones. The
program's file and the model's are in the system's memory, for they were read just before.

- *C*: a program of C with the bundle linked in, weights mapped from a file beside it.
- *C embedded*: the same with the weights in the program.
- *Python*: the bundle's loader. The other runtimes run in Python, too, and *bare* is Python that
  imports numpy and answers at once: what is above it is the runtime's.

``start_ms`` is from before the process is made to its first line, which it writes when it has the
answer; then it tells its memory (``VmRSS``, of it ``RssAnon``, which no other process shares, and
``VmHWM``). Files are weighed with all that is needed at run time and nothing of Python.
``steady_ms`` is of the bundle, by its loader in Python, and of the graph executor, in one process
and one thread, taking turns.

A file that is there is gone on with: models that stand in it are left out, but with ``--again``.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.contrib import graph_executor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from int8_models import quantize
from kept_rows import read_rows, write_rows

import tvm_fusionx as fx
from tvm_fusionx import zoo
from tvm_fusionx.build.library import build_versions
from tvm_fusionx.bundle.names import identifier
from tvm_fusionx.inputs import inputs_of, random_inputs
from tvm_fusionx.report.bench.bench import describe_device
from tvm_fusionx.report.peers import mnn_session, ncnn_net

ROOT = Path(__file__).resolve().parents[1]
TARGET = "llvm -mcpu=native"
INT8 = ":int8"
MODELS = ("minilm", "ppocr-det", "mobilenet-v2", f"resnet18{INT8}")
RUNS = 7
STEADY_TURNS, STEADY_RUNS = 7, 10
PROCESS_SECONDS = 120
FIELDS = ("VmRSS", "VmHWM", "RssAnon")
TELL = (
    "print('answer', flush=True)\n"
    "text = open('/proc/self/status').read()\n"
    f"print(*[text.split(f + ':')[1].split()[0] for f in {FIELDS}], flush=True)\n"
)
READ = (
    "import sys, numpy as np\nfolder = sys.argv[1]\ngiven = dict(np.load(folder + '/inputs.npz'))\n"
)
# What each runtime is made to do in a process of its own.
SCRIPTS = {
    "bare": READ,
    "Python": READ
    + "sys.path.insert(0, folder + '/net')\n"
    + "import net\nnet.Model().run(**given)\n",
    "ORT": READ
    + "import onnxruntime as ort\no = ort.SessionOptions()\n"
    + "o.intra_op_num_threads = o.inter_op_num_threads = 1\no.log_severity_level = 3\n"
    + "s = ort.InferenceSession(folder + '/model.onnx', o, providers=['CPUExecutionProvider'])\n"
    + "s.run(None, {i.name: given[n] for i, n in zip(s.get_inputs(), given)})\n",
    "MNN": READ
    + "import MNN\nfrom pathlib import Path\n"
    + "names = Path(folder + '/names').read_text().split('\\n')\n"
    + "m = MNN.nn.create_runtime_manager(({'numThread': 1, 'precision': 'high', "
    + "'backend': 'CPU'},))\n"
    + "n = MNN.nn.load_module_from_file(folder + '/model.mnn', names[0].split('\\t'), "
    + "names[1].split('\\t'), runtime_manager=m)\n"
    + "def v(a):\n"
    + "    i = a.dtype.kind in 'iub'\n"
    + "    k = MNN.expr.int if i else MNN.expr.float\n"
    + "    return MNN.expr.const(a.astype('int32' if i else 'float32').copy(), list(a.shape), "
    + "MNN.expr.NCHW, k)\n"
    + "[r.read() for r in n.forward([v(a) for a in given.values()])]\n",
    "ncnn": READ
    + "import ncnn\nn = ncnn.Net()\nn.opt.num_threads = 1\n"
    + "n.opt.use_fp16_packed = n.opt.use_fp16_storage = n.opt.use_fp16_arithmetic = False\n"
    + "n.opt.use_bf16_storage = False\n"
    + "assert n.load_param(folder + '/model.ncnn.param') == 0\n"
    + "assert n.load_model(folder + '/model.ncnn.bin') == 0\ne = n.create_extractor()\n"
    + "for name, a in zip(n.input_names(), given.values()):\n"
    + "    e.input(name, ncnn.Mat(a[0] if a.ndim > 1 and a.shape[0] == 1 else a).clone())\n"
    + "assert all(e.extract(name)[0] == 0 for name in n.output_names())\n",
}
PROGRAM = """
#include <stdio.h>
#include <string.h>
#define main run_example
#include "main.c"
#undef main
int main(int count, char **words) {
  char line[256];
  FILE *file;
  if (run_example(count, words) != 0) return 1;
  puts("answer");
  fflush(stdout);
  file = fopen("/proc/self/status", "r");
  if (file == NULL) return 2;
  while (fgets(line, sizeof line, file) != NULL) {
    unsigned long size;
    if (sscanf(line, "VmHWM: %lu", &size) == 1) printf("VmHWM %lu\\n", size);
    if (sscanf(line, "VmRSS: %lu", &size) == 1) printf("VmRSS %lu\\n", size);
    if (sscanf(line, "RssAnon: %lu", &size) == 1) printf("RssAnon %lu\\n", size);
  }
  return 0;
}
"""


def one_run(words: list[str]) -> dict[str, float]:
    """Start a process; return the milliseconds to its answer, and its memory in KiB."""
    with tempfile.TemporaryFile("w+") as said:
        begun = time.perf_counter()
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said, text=True) as child:
            assert child.stdout is not None
            said_before = ""
            # MNN greets on standard output.
            for line in iter(child.stdout.readline, ""):
                if line == "answer\n":
                    break
                said_before = line
            ended = time.perf_counter()
            told = child.stdout.read().split()
            child.wait(PROCESS_SECONDS)
        said.seek(0)
        lines = said.read().strip().splitlines() or [f"it said {said_before!r}"]
    if child.returncode != 0 or not told:
        raise RuntimeError(lines[-1][:300])
    named = zip(told[::2], told[1::2], strict=True)
    memory = dict(named if told[0] in FIELDS else zip(FIELDS, told, strict=True))
    return {"start_ms": (ended - begun) * 1e3, **{name: float(memory[name]) for name in FIELDS}}


def sides_of(folder: Path, inputs: dict[str, np.ndarray]) -> dict[str, list[str]]:
    """Return the command of each side."""
    files = [str(folder / f"{number}.bin") for number in range(len(inputs))]
    outputs = [str(folder / f"{number}.out") for number in range(32)]
    weights = str(folder / "net" / "net.weights")
    python = {
        name: [sys.executable, "-c", code + TELL, str(folder)] for name, code in SCRIPTS.items()
    }
    return {
        "C": [str(folder / "beside"), weights, *files, *outputs],
        "C embedded": [str(folder / "embedded"), *files, *outputs],
        **python,
    }


def prepare(name: str, folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Build the bundles of a model, convert it for the others; return inputs and what is known."""
    plain = name.removesuffix(INT8)
    exported = zoo.export(plain, folder / "model.onnx")
    if name.endswith(INT8):
        (folder / "float").mkdir()
        quantize(folder / "float", plain).rename(folder / "model.onnx")
    mod, params = fx.from_onnx(folder / "model.onnx", shape=exported.shapes)
    begun = time.perf_counter()
    library = fx.build(mod, TARGET, params)
    row: dict[str, Any] = {"model": name, "build_seconds": time.perf_counter() - begun}
    inputs = random_inputs(inputs_of(mod, params))
    inside = folder / "embedded-bundle" / "net"
    inside.parent.mkdir()
    fx.export_bundle(library, inside, weights="embedded")
    memory = fx.export_bundle(library, folder / "net", weights="beside")
    for bundle, program in ((inside, "embedded"), (folder / "net", "beside")):
        source = bundle / "timed.c"
        source.write_text(PROGRAM, encoding="utf-8")
        words = ["gcc", "-O2", str(source), str(bundle / "libnet.a"), "-lm", "-o"]
        subprocess.run([*words, str(folder / program)], check=True)
    for number, array in enumerate(inputs.values()):
        array.tofile(folder / f"{number}.bin")
    renamed = {identifier(key): value for key, value in inputs.items()}
    np.savez(folder / "inputs.npz", **renamed)  # type: ignore[arg-type]
    row |= {
        "weights_bytes": memory.weights,
        "arena_bytes": memory.plan.arena_bytes,
        "library_bytes": (folder / "net" / "libnet.so").stat().st_size,
        "program_bytes": (folder / "beside").stat().st_size,
        "is_equal": _is_equal(library, inputs, folder),
        "steady_ms": _steady(library, inputs, folder / "net"),
    }
    row["failed"] = _converted(folder, inputs)
    return inputs, row


def _is_equal(library: Any, inputs: dict[str, np.ndarray], folder: Path) -> bool:
    """Tell whether the program's outputs are the graph executor's, to the bit."""
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for key, value in inputs.items():
        executor.set_input(key, value)
    executor.run()
    subprocess.run(sides_of(folder, inputs)["C"], check=True, capture_output=True)
    count = executor.get_num_outputs()
    answers = [executor.get_output(number).numpy().tobytes() for number in range(count)]
    return answers == [(folder / f"{number}.out").read_bytes() for number in range(count)]


def _steady(library: Any, inputs: dict[str, np.ndarray], bundle: Path) -> dict[str, Any]:
    """Time the bundle and the graph executor, warm; the medians of turns."""
    spec = importlib.util.spec_from_file_location("net_timed", bundle / "net.py")
    assert spec is not None
    assert spec.loader is not None
    loaded: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    model = loaded.Model()
    given = {identifier(key): value for key, value in inputs.items()}
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(**inputs)
    sides: dict[str, Callable[[], Any]] = {
        "bundle": lambda: model.run(**given),
        "executor": executor.run,
    }
    found: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(STEADY_TURNS):
        for side, run in sides.items():
            run()
            begun = time.perf_counter()
            for _ in range(STEADY_RUNS):
                run()
            found[side].append((time.perf_counter() - begun) * 1e3 / STEADY_RUNS)
    model.close()
    medians = {side: statistics.median(times) for side, times in found.items()}
    return {**medians, "all": {side: [round(t, 3) for t in times] for side, times in found.items()}}


def _converted(folder: Path, inputs: dict[str, np.ndarray]) -> dict[str, str]:
    """Convert the model for MNN and ncnn; return why not, by side."""
    import onnx

    model = folder / "model.onnx"
    graph = onnx.load(str(model), load_external_data=False).graph
    given = {tensor.name for tensor in graph.initializer}
    taken = [tensor.name for tensor in graph.input if tensor.name not in given]
    lines = ["\t".join(taken), "\t".join(tensor.name for tensor in graph.output)]
    (folder / "names").write_text("\n".join(lines), encoding="utf-8")

    def for_ncnn() -> None:
        made = folder / "ncnn"
        made.mkdir()
        ncnn_net._convert(ncnn_net._pnnx_program(), model, inputs, made)
        for path in list(made.iterdir()):
            path.rename(folder / path.name)

    steps: dict[str, Callable[[], None]] = {
        "MNN": lambda: mnn_session._convert(model, folder / "model.mnn"),
        "ncnn": for_ncnn,
    }
    failed = {}
    for side, step in steps.items():
        try:
            step()
        except Exception as error:  # whatever a converter raises
            failed[side] = str(error)[:300]
    return failed


def measured(name: str, runs: int) -> dict[str, Any]:
    """Return the row of one model."""
    with tempfile.TemporaryDirectory(prefix="fusionx-bundles-") as place:
        folder = Path(place)
        inputs, row = prepare(name, folder)
        found: dict[str, list[dict[str, float]]] = {}
        for _ in range(runs):
            for side, words in sides_of(folder, inputs).items():
                if side in row["failed"]:
                    continue
                try:
                    found.setdefault(side, []).append(one_run(words))
                except RuntimeError as error:
                    row["failed"][side] = str(error)
    row["sides"] = {
        side: {
            "start_ms": statistics.median(each["start_ms"] for each in rows),
            "start_ms_all": [round(each["start_ms"], 2) for each in rows],
            **{field: statistics.median(each[field] for each in rows) for field in FIELDS},
        }
        for side, rows in found.items()
        if side not in row["failed"]
    }
    return row


def show(row: dict[str, Any]) -> None:
    """Print a row."""
    steady = row["steady_ms"]
    print(
        f"{row['model']}: equal {row['is_equal']}, {row['library_bytes'] / 1024:.0f} KiB of code, "
        f"warm {steady['bundle']:.2f} ms, graph executor {steady['executor']:.2f} ms"
    )
    for side, each in row["sides"].items():
        sizes = "  ".join(f"{field} {each[field] / 1024:7.1f} MiB" for field in FIELDS)
        print(f"  {side:11} {each['start_ms']:8.1f} ms  {sizes}", flush=True)
    for side, why in row["failed"].items():
        print(f"  {side:11} {why}", flush=True)


def main() -> None:
    """Measure the models that are named, and write the JSON after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--json", type=Path, default=ROOT / "out" / "bundles.json")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--again", action="store_true", help="measure anew what the file has")
    chosen = parser.parse_args()
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    fx.threads(1)
    content = {"device": describe_device(), "versions": build_versions()}
    rows = {} if chosen.again else read_rows(chosen.json, content)
    for name in chosen.names:
        if name not in rows:
            rows[name] = measured(name, chosen.runs)
            write_rows(chosen.json, content, rows)
        show(rows[name])


if __name__ == "__main__":
    main()
