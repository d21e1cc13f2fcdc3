"""Time questions that DistilBERT answers by marking the passage, beside other runtimes.

    python benchmarks/span_speed.py XQUAD.json [--questions 20] [--against ort openvino]
                                    [--threads N] [--json OUT]

The model is the zoo's DistilBERT and a layer for starts and ends. Its weights are random:
what it marks means nothing, and takes the time that DistilBERT takes. A word or a sign is a token.
All sides answer each question of XQuAD (see `questions.py`) in turns, as `fusionx ask --span-model`
does, in windows of 384 tokens; the time of a question is from its text to the answer's place.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kept_rows import write_json
from questions import Question, questions_of, shuffled

import tvm_fusionx as fx
from tvm_fusionx.apps.span_programs import IDS, LENGTHS, MASK
from tvm_fusionx.apps.spans import SpanModel, load_span_model
from tvm_fusionx.report.bench.bench import describe_device
from tvm_fusionx.zoo.packages import import_zoo_package
from tvm_fusionx.zoo.recipes import WEIGHT_SEED
from tvm_fusionx.zoo.torch_export import export_module
from tvm_fusionx.zoo.transformer_models import make_distilbert
from tvm_fusionx.zoo.weights import draw_weights

Array = np.ndarray[Any, Any]

OURS = "ours"
NAMES = (IDS, MASK)
# The marks of BERT; words follow them, up to the model's vocabulary.
MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")

# Tokens of a window, which is what all sides are exported for.
SEQUENCE = LENGTHS[-1]


def marking(model: Any) -> Any:
    """Return a torch module that marks starts and ends by what a model gives each token."""
    torch = import_zoo_package("torch")
    head = draw_weights(torch.nn.Linear(model.config.dim, 2), WEIGHT_SEED)

    def forward(_: Any, ids: Any, mask: Any) -> Any:
        found = head(model(input_ids=ids, attention_mask=mask).last_hidden_state)
        return found[..., 0], found[..., 1]

    made = type("Marking", (torch.nn.Module,), {"forward": forward})()
    made.model, made.head = model, head
    return made.eval()


def write_model(folder: Path, model: Any, texts: Iterable[str], sequence: int = SEQUENCE) -> Path:
    """Write a marking model and a tokenizer of the words of some texts; return the model's path."""
    path = folder / "spans.onnx"
    given = [np.ones((1, sequence), "int64")] * len(NAMES)
    export_module(lambda: marking(model), given, path, NAMES, ("starts", "ends"), "torchscript")
    import tokenizers
    from tokenizers import models, pre_tokenizers, processors

    cutter = pre_tokenizers.BertPreTokenizer()
    words = dict.fromkeys(word for text in texts for word, _ in cutter.pre_tokenize_str(text))
    known = [*MARKS, *words][: model.config.vocab_size]
    made = tokenizers.Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(known)}, unk_token="[UNK]")
    )
    made.pre_tokenizer = cutter
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(word, MARKS.index(word)) for word in ("[CLS]", "[SEP]")],
    )
    made.save(str(folder / "tokenizer.json"))
    return path


class Peer:
    """A runtime in the place of our programs.

    Parameters
    ----------
    like
        Our programs, whose inputs it has.
    run
        Returns the results of inputs by name.
    """

    def __init__(self, like: Any, run: Callable[[Mapping[str, Array]], Sequence[Array]]) -> None:
        self.names, self.length_for = like.names, like.length_for
        self._run = run

    def prepare(self, length: int) -> None:
        """Have all ready, which it is."""

    def run(self, **inputs: Array) -> Sequence[Array]:
        """Return logits of starts and ends."""
        return self._run(inputs)


def onnx_runtime(path: Path, threads: int) -> Callable[[Mapping[str, Array]], Sequence[Array]]:
    """Return what runs a model in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, dict(inputs))


def open_vino(path: Path, threads: int) -> Callable[[Mapping[str, Array]], Sequence[Array]]:
    """Return what runs a model in OpenVINO, in float32 as all others."""
    import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = openvino.Core().compile_model(str(path), "CPU", settings).create_infer_request()

    def run(inputs: Mapping[str, Array]) -> Sequence[Array]:
        found = request.infer(dict(inputs), share_inputs=True, share_outputs=True)
        return [found[place] for place in range(2)]

    return run


PEERS = {"ort": ("onnxruntime", onnx_runtime), "openvino": ("openvino", open_vino)}


def rows_of(sides: Mapping[str, SpanModel], questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Return each side's median time, its spread, and to how many it answers as the first does."""
    took: dict[str, list[float]] = {name: [] for name in sides}
    same = dict.fromkeys(sides, 0)
    # The first run of each starts threads.
    for side in sides.values():
        side.ask(questions[0].passage, questions[0].text)
    for question in questions:
        found = {name: side.ask(question.passage, question.text) for name, side in sides.items()}
        first = next(iter(found.values()))
        for name, answer in found.items():
            took[name].append(answer.milliseconds)
            same[name] += (answer.start, answer.end) == (first.start, first.end)
    rows = []
    for name, times in took.items():
        tenth, *_, last = statistics.quantiles(times, n=10)
        rows.append(
            {
                "side": name,
                "question_ms": statistics.median(times),
                "spread": last / tenth,
                "same_answers": same[name],
            }
        )
    return rows


def main() -> int:
    """Measure, print, and write JSON where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--against", choices=PEERS, nargs="*", default=list(PEERS))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    threads = fx.threads(given.threads)
    asked = shuffled(questions_of(json.loads(given.data.read_text(encoding="utf-8"))))
    asked = asked[: given.questions]
    texts = [text for each in asked for text in (each.passage, each.text)]
    with tempfile.TemporaryDirectory(prefix="fusionx-spans-") as folder:
        path = write_model(Path(folder), make_distilbert(WEIGHT_SEED), texts)
        ours = load_span_model(path, path.with_name("tokenizer.json"))
        sides, versions = {OURS: ours}, {OURS: fx.__version__}
        for name in given.against:
            package, prepare = PEERS[name]
            peer: Any = Peer(ours.programs, prepare(path, threads))
            sides[name] = SpanModel(peer, ours.tokenizer)
            versions[name] = importlib.import_module(package).__version__
        rows = rows_of(sides, asked)
    for row in rows:
        print(
            f"{row['side']:10} {row['question_ms']:7.1f} ms a question, the answer of ours to "
            f"{row['same_answers']} of {len(asked)}"
        )
    result = {
        "model": "distilbert",
        "device": describe_device(),
        "threads": threads,
        "sides": versions,
        # Where a file of questions lies is this machine's affair.
        "command": " ".join(
            Path(word).name if Path(word).is_absolute() else word for word in sys.argv
        ),
        "window": SEQUENCE,
        "questions": len(asked),
        "spans": rows,
    }
    if given.json:
        write_json(given.json, result)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
