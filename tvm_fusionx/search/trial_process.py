"""The process of one trial: calls a user's training function, and writes what it returns.

It is run by its path, so that it imports nothing but what the training imports:

    python trial_process.py JOB.json

A job names the Python file and the function, the candidate, the core to stay on, and the file for
the result, which is JSON. The process ends with the one that started it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import math
import os
import signal
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

# Of <sys/prctl.h>: the signal that a process gets when the one that started it ends.
PR_SET_PDEATHSIG = 1
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def main(job_path: str) -> None:
    """Run the job of a file."""
    job = json.loads(Path(job_path).read_text(encoding="utf-8"))
    end_with(int(job["parent"]))
    stay_on(job.get("core"))
    began = time.perf_counter()
    train = getattr(load(job["train"]), job["function"])
    returned = train(job["candidate"], job["trial"])
    answer = {**checked(returned), "seconds": time.perf_counter() - began}
    scratch = Path(f"{job['result']}.new")
    with scratch.open("w", encoding="utf-8") as file:
        json.dump(answer, file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, job["result"])


def end_with(parent: int) -> None:
    """Let the system end this process when its parent ends; now, if that has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def stay_on(core: int | None) -> None:
    """Keep this process, and the threads of what it imports, on one core."""
    if core is None:
        return
    for name in THREAD_VARIABLES:
        os.environ[name] = "1"
    os.sched_setaffinity(0, {core})


def load(path: str) -> ModuleType:
    """Import a Python file; its folder comes first where it imports from."""
    sys.path.insert(0, str(Path(path).resolve().parent))
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def checked(returned: Any) -> dict[str, Any]:
    """Return what a training returned; ValueError where it is no accuracy between 0 and 1."""
    if not isinstance(returned, dict) or not isinstance(returned.get("accuracy"), (int, float)):
        raise ValueError(f"train: expected a dictionary with accuracy; found {returned!r}.")
    if math.isnan(returned["accuracy"]) or not 0 <= returned["accuracy"] <= 1:
        raise ValueError(f"accuracy: expected 0 to 1; found {returned['accuracy']}.")
    return returned


if __name__ == "__main__":
    # What lies beside this file is no part of what a training may import by its bare name.
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [each for each in sys.path if each != here]
    main(sys.argv[1])
