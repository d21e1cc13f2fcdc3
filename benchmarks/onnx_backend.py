"""Run the ONNX package's own node and model tests through the front end and the compiler.

Every test runs in a worker process, so that a crash or a hang costs one test and not the run. A
test that fails with all its inputs fed at run time is tried once more with its shape-like inputs
(the shape of a Reshape, the starts of a Slice, ...) as constants, as a deployed model has them.

Outcomes
--------
passed
    Every output equals the expected one within the tolerance of ONNX's own runner.
refused
    A typed ``FusionXError``: the user is told what cannot be done.
disputed
    Not the expected numbers, where ONNX Runtime 1.31 does not give these either, or float64 says
    that they lie further off than ours (see ``DISPUTED``).
wrong
    Numbers, shapes or types that differ from the expected ones, without an error.
crashed
    The process died, or gave no answer within the limit.
failed
    Any other exception.

Examples
--------
``python benchmarks/onnx_backend.py --backend fusionx --json out.json``
``python benchmarks/onnx_backend.py --backend tvm --only 'test_clip*'``
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import queue
import selectors
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from onnx_backend_cases import DISPUTED, as_held, list_cases, load_case

OUTCOMES = ("passed", "refused", "disputed", "wrong", "crashed", "failed")
BACKENDS = ("fusionx", "frontend", "tvm")
# The slowest passing test takes about 20 s of one core here; a hang is a hang at three times that.
DEFAULT_LIMIT_SECONDS = 60.0
MAX_WORKERS = 2
MESSAGE_CHARACTERS = 400
OPT_LEVEL = 3


class WrongAnswerError(Exception):
    """The compiled model's outputs are not the expected ones."""


class NothingToFixError(Exception):
    """The model has no shape-like input that could be given as a constant."""


def flatten(values: list[Any]) -> list[Any]:
    """Flatten sequences one level: a compiled model returns a sequence as that many outputs."""
    flat: list[Any] = []
    for value in values:
        flat.extend(value) if isinstance(value, list) else flat.append(value)
    return flat


def why_not_equal(outputs: list[Any], expected: list[Any], rtol: float, atol: float) -> str | None:
    """Return the first difference, or None when all outputs agree."""
    if len(outputs) != len(expected):
        return f"{len(outputs)} outputs, expected {len(expected)}"
    pairs = [as_held(*pair) for pair in zip(outputs, expected, strict=True)]
    for index, (found, wanted) in enumerate(pairs):
        if found.dtype != wanted.dtype:
            return f"output {index}: {found.dtype}, expected {wanted.dtype}"
        if found.shape != wanted.shape:
            return f"output {index}: shape {found.shape}, expected {wanted.shape}"
        try:
            np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)
        except AssertionError as error:
            return f"output {index}: " + " ".join(str(error).split())
    return None


def import_with_tvm(model: Any, constants: dict[str, np.ndarray]) -> Any:
    """Import with TVM's own importer; `constants` become initializers."""
    from onnx import numpy_helper
    from tvm import relay

    from tvm_fusionx._tvm.onnx_importer import onnx_mapping

    model.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in constants.items()
    )
    kept = [i for i in model.graph.input if i.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    with onnx_mapping():
        return relay.frontend.from_onnx(model, freeze_params=True)[0]


def compile_and_load(
    backend: str, model: Any, constants: dict[str, np.ndarray], target: str
) -> Any:
    """Return a graph executor for `model`."""
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    from tvm_fusionx._tvm import cures

    if backend == "tvm":
        with cures.let_cure():
            mod = import_with_tvm(model, constants)
    else:
        from tvm_fusionx.frontend import from_onnx

        mod, _ = from_onnx(model, constants=constants)
    if backend == "fusionx":
        from tvm_fusionx.build.build import build

        library = build(mod, target)
    else:
        with cures.let_cure(), tvm.transform.PassContext(opt_level=OPT_LEVEL):
            library = relay.build(mod, target)
    return graph_executor.GraphModule(library["default"](tvm.cpu())), mod


def run_once(
    backend: str, model: Any, inputs: list[Any], constants: dict[str, np.ndarray], target: str
) -> list[Any]:
    """Compile `model`, feed `inputs` (but for `constants`), and return its outputs."""
    from tvm_fusionx._tvm.arrays import numpy_of

    names = [info.name for info in model.graph.input]
    executor, mod = compile_and_load(backend, model, constants, target)
    taken = {param.name_hint for param in mod["main"].params}
    for name, value in zip(names, inputs, strict=False):
        if name in taken:
            executor.set_input(name, value)
    executor.run()
    return [numpy_of(executor.get_output(i)) for i in range(executor.get_num_outputs())]


def run_case(case: Any, backend: str, target: str, should_fix_shapes: bool) -> None:
    """Run one test; raise WrongAnswerError when its numbers are wrong."""
    import onnx

    from tvm_fusionx.frontend import inputs_needed_as_constants

    model, data_sets = load_case(case)
    names = [info.name for info in model.graph.input]
    for inputs, expected in data_sets:
        fixed = inputs_needed_as_constants(model) if should_fix_shapes else []
        constants = {n: v for n, v in zip(names, inputs, strict=False) if n in fixed}
        if should_fix_shapes and not constants:
            raise NothingToFixError
        copy = onnx.ModelProto.FromString(model.SerializeToString())
        outputs = run_once(backend, copy, inputs, constants, target)
        reason = why_not_equal(outputs, flatten(expected), case.rtol, case.atol)
        if reason is not None:
            raise WrongAnswerError(reason)


def judge_case(case: Any, backend: str, target: str) -> dict[str, Any]:
    """Run one test both ways and return its outcome, its message and whether shapes were fixed."""
    from tvm_fusionx.errors import FusionXError

    first: dict[str, Any] = {}
    for should_fix_shapes in (False, True):
        outcome, message = "passed", ""
        try:
            run_case(case, backend, target, should_fix_shapes)
        except WrongAnswerError as error:
            outcome = "disputed" if case.name in DISPUTED else "wrong"
            message = str(error)
        except FusionXError as error:
            outcome, message = "refused", str(error)
        except NothingToFixError:
            break
        except Exception as error:
            text = str(error).strip()
            outcome = "failed"
            message = f"{type(error).__name__}: {text.splitlines()[-1] if text else ''}"
        verdict = {
            "outcome": outcome,
            "message": message[:MESSAGE_CHARACTERS],
            "fixed_shapes": should_fix_shapes,
        }
        # A wrong answer with run-time shapes stays wrong, whatever the second way gives.
        if outcome in ("passed", "wrong", "disputed"):
            return verdict
        first = first or verdict
    return first


def serve() -> None:
    """Answer test names on stdin with one JSON line each, until stdin closes."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    cases = list_cases()
    for line in sys.stdin:
        request = json.loads(line)
        began = time.perf_counter()
        verdict = judge_case(cases[request["name"]], request["backend"], request["target"])
        verdict["seconds"] = round(time.perf_counter() - began, 3)
        answers.write(json.dumps(verdict) + "\n")
        answers.flush()


class Worker:
    """A worker process, started anew after each crash or hang."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> subprocess.Popen[str]:
        """Return a new process that answers requests."""
        environment = os.environ | {"TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        root = str(Path(__file__).resolve().parent.parent)
        environment["PYTHONPATH"] = os.pathsep.join(
            part for part in (root, environment.get("PYTHONPATH")) if part
        )
        return subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def ask(self, request: dict[str, str]) -> dict[str, Any]:
        """Return the verdict of one test."""
        if self.process is None:
            self.process = self.start()
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        began = time.perf_counter()
        answer = ""
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if selector.select(self.limit_seconds):
                answer = process.stdout.readline()
                reason = "" if answer else f"process ended with {process.wait()}"
            else:
                reason = f"no answer within {self.limit_seconds:.0f} s"
        if answer:
            return json.loads(answer)
        self.close()
        seconds = round(time.perf_counter() - began, 3)
        return {"outcome": "crashed", "message": reason, "fixed_shapes": False, "seconds": seconds}

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def run_all(
    names: list[str], backend: str, target: str, workers: int, limit_seconds: float
) -> dict[str, dict[str, Any]]:
    """Run the named tests in `workers` processes and return their verdicts."""
    from tqdm import tqdm

    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        todo.put(name)
    verdicts: dict[str, dict[str, Any]] = {}
    with tqdm(total=len(names), disable=None) as progress:

        def work() -> None:
            worker = Worker(limit_seconds)
            try:
                while True:
                    name = todo.get_nowait()
                    verdicts[name] = worker.ask(
                        {"name": name, "backend": backend, "target": target}
                    )
                    progress.update()
            except queue.Empty:
                pass
            finally:
                worker.close()

        threads = [threading.Thread(target=work) for _ in range(min(workers, MAX_WORKERS))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return dict(sorted(verdicts.items()))


def parse_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=BACKENDS, default="fusionx")
    parser.add_argument(
        "--only", metavar="PATTERN", default="*", help="shell pattern of test names"
    )
    parser.add_argument("--names", metavar="FILE", help="file of test names, one a line")
    parser.add_argument("--json", metavar="OUT", help="write every verdict to this file")
    parser.add_argument("--target", default="llvm", help="TVM target (default: llvm)")
    parser.add_argument("--workers", type=int, default=MAX_WORKERS)
    parser.add_argument("--limit-seconds", type=float, default=DEFAULT_LIMIT_SECONDS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Run the chosen tests and print what is not passed, and the counts."""
    arguments = parse_arguments()
    if arguments.serve:
        serve()
        return 0
    if arguments.names:
        listed = Path(arguments.names).read_text().split("\n")
        names = [line.split()[0] for line in listed if line.strip() and not line.startswith("#")]
    else:
        names = sorted(list_cases())
    names = [name for name in names if fnmatch.fnmatch(name, arguments.only)]
    verdicts = run_all(
        names, arguments.backend, arguments.target, arguments.workers, arguments.limit_seconds
    )
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(verdicts, indent=1) + "\n")
    for name, verdict in verdicts.items():
        if verdict["outcome"] != "passed":
            print(f"{verdict['outcome']:8} {name}: {verdict['message'][:160]}")
    counts = Counter(verdict["outcome"] for verdict in verdicts.values())
    fixed = sum(v["fixed_shapes"] for v in verdicts.values() if v["outcome"] == "passed")
    line = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
    print(
        f"{arguments.backend}: {line} ({fixed} of the passed with shape-like inputs as constants)"
    )
    return 1 if counts["wrong"] or counts["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
