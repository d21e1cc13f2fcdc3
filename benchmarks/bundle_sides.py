"""What :mod:`bundles` starts, each in a process of its own: C, Python, and other runtimes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from importlib.metadata import files as files_of
from importlib.metadata import packages_distributions, version
from pathlib import Path

import numpy as np

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
# The Python module of each other runtime, and what it is called among packages.
MODULES = {"ORT": "onnxruntime", "MNN": "MNN", "ncnn": "ncnn"}
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


def shared_libraries_bytes(module: str) -> int:
    """Return the bytes of the shared libraries that came with a Python module, each once."""
    files: set[Path] = set()
    for name in packages_distributions().get(module, []):
        for path in files_of(name) or []:
            if ".so" in path.name and (place := Path(str(path.locate()))).is_file():
                files.add(place.resolve())
    return sum(path.stat().st_size for path in files)


def peer_versions() -> dict[str, str]:
    """Return the version of each other runtime that is installed."""
    found = packages_distributions()
    return {side: version(found[name][0]) for side, name in MODULES.items() if name in found}
