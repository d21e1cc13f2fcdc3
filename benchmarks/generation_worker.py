"""One side of `generation.py`, a process of its own: a question a line, an answer a line, as JSON.

    PYTHON benchmarks/generation_worker.py ours|llama.cpp|ort|ort-float-zeros

llama.cpp's side needs no more than `llama-cpp-python` and numpy, so any Python will do; ONNX
Runtime's, with `MatMulNBits`, is run by ours (see `ort_decoder.py`). Questions:
`load` a file, `time` a prompt and the tokens behind it, `score` a text (the logarithm of each
token's chance, read one by one), `memory` of this process.
"""

from __future__ import annotations

import functools
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

OURS, LLAMA, ORT, ORT_FLOAT_ZEROS = "ours", "llama.cpp", "ort", "ort-float-zeros"

KIBI = 1024

# Reads tokens; returns the logits of what follows.
Read = Callable[[list[int]], Any]


class OurSide:
    """Our programs."""

    def __init__(self, question: dict[str, Any]) -> None:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        import tvm_fusionx as fx
        from tvm_fusionx.apps.programs import CHUNKS, TextPrograms
        from tvm_fusionx.apps.text_model import TextModel

        self.threads = fx.threads(question["threads"])
        programs = TextPrograms(
            Path(question["path"]),
            activations=question.get("activations") or "float32",
            chunks=tuple(question.get("chunks") or CHUNKS),
        )
        self.about = {"activations": programs.activations, "version": fx.__version__}
        self._model = TextModel(programs)
        self._model.reserve(question["places"])

    def restart(self) -> None:
        """Forget what was read."""
        self._model.restart()

    def read(self, tokens: list[int]) -> Any:
        """Return the logits of what follows."""
        return self._model.read(tokens)


class LlamaSide:
    """llama.cpp, by `llama-cpp-python`."""

    def __init__(self, question: dict[str, Any]) -> None:
        import llama_cpp

        self.threads = question["threads"]
        self._llama = llama_cpp
        self._model: Any = llama_cpp.Llama(
            question["path"],
            n_ctx=question["places"],
            n_threads=self.threads,
            n_threads_batch=self.threads,
            verbose=False,
        )
        self.about = {"activations": "its own", "version": llama_cpp.__version__}

    def restart(self) -> None:
        """Forget what was read."""
        self._model.reset()

    def read(self, tokens: list[int]) -> Any:
        """Return the logits of what follows: its `scores` are filled only where all are kept."""
        self._model.eval(tokens)
        found = self._llama.llama_get_logits_ith(self._model.ctx, -1)
        return np.ctypeslib.as_array(found, shape=(self._model.n_vocab(),))


class OrtSide:
    """ONNX Runtime, with the file's weights written as ONNX."""

    def __init__(self, question: dict[str, Any], *, rounds_zeros: bool = True) -> None:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        import onnxruntime
        from ort_decoder import OrtDecoder, OrtReader

        self.threads = question["threads"]
        places = question["places"]
        made = OrtDecoder(Path(question["path"]), places, rounds_zeros=rounds_zeros)
        shape = made.shape
        with tempfile.TemporaryDirectory(prefix="fusionx-ort-") as folder:
            path = Path(folder) / "decoder.onnx"
            made.write(path)
            moved = made.moved
            del made
            self._reader = OrtReader(path, shape, places, self.threads)
        self.about = {
            "activations": "int8" if rounds_zeros else "float32",
            "version": onnxruntime.__version__,
            "moved_by_zero_points": moved,
        }

    def restart(self) -> None:
        """Forget what was read."""
        self._reader.restart()

    def read(self, tokens: list[int]) -> Any:
        """Return the logits of what follows."""
        return self._reader.read(tokens)


SIDES: dict[str, Any] = {
    OURS: OurSide,
    LLAMA: LlamaSide,
    ORT: OrtSide,
    ORT_FLOAT_ZEROS: functools.partial(OrtSide, rounds_zeros=False),
}


def timed(side: Any, tokens: list[int], count: int) -> dict[str, Any]:
    """Return the seconds to the first token and of those behind it, and which they are."""
    side.restart()
    start = time.perf_counter()
    found = [int(side.read(tokens).argmax())]
    first = time.perf_counter()
    while len(found) < count:
        found.append(int(side.read(found[-1:]).argmax()))
    return {
        "first_seconds": first - start,
        "behind_seconds": time.perf_counter() - first,
        "tokens": found,
    }


def scored(side: Any, tokens: list[int]) -> dict[str, Any]:
    """Return the logarithm of the chance of each token but the first."""
    side.restart()
    chances = []
    for token, following in itertools.pairwise(tokens):
        logits = side.read([token]).astype("float64")
        most = logits.max()
        chances.append(float(logits[following] - most - np.log(np.exp(logits - most).sum())))
    return {"log_chances": chances}


def resident() -> dict[str, int]:
    """Return the bytes of this process in memory, now and at most."""
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    held = dict(line.split(":", 1) for line in status)
    names = {"resident_bytes": "VmRSS", "most_resident_bytes": "VmHWM"}
    return {name: KIBI * int(held[key].split()[0]) for name, key in names.items()}


def main(name: str) -> int:
    """Answer until the questions end."""
    side: Any = None
    for line in sys.stdin:
        question = json.loads(line)
        start = time.perf_counter()
        if question["ask"] == "load":
            side = SIDES[name](question)
            answer: dict[str, Any] = {**side.about, "load_seconds": time.perf_counter() - start}
        elif question["ask"] == "time":
            answer = timed(side, question["tokens"], question["count"])
        elif question["ask"] == "score":
            answer = scored(side, question["tokens"])
        else:
            answer = resident()
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
