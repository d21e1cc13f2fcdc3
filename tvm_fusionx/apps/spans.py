"""Questions answered by a model that marks where a passage has the answer, such as BERT's on SQuAD.

The model is an ONNX file with its ``tokenizer.json``. A passage longer than the model's sequence is
read through a window that slides over it (Devlin et al., 2019); the best span of all windows wins.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx._tvm.presence import missing_package
from tvm_fusionx.apps.answers import Answer, check_asked
from tvm_fusionx.build.build import build
from tvm_fusionx.build.programs import Programs
from tvm_fusionx.errors import InputError, ModelError
from tvm_fusionx.processors.targets import TargetLike

Array = np.ndarray[Any, Any]

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
KNOWN_INPUTS = (IDS, MASK, TYPES)

# Tokens that follow each other, that two windows share, and of an answer: as for SQuAD.
SEQUENCE = 384
STRIDE = 128
MOST_TOKENS = 30

# The second sequence, in the tokenizer's numbering.
PASSAGE = 1


@dataclass(frozen=True)
class SpanModel:
    """A model that marks answers."""

    programs: Programs
    tokenizer: Any
    """Of the ``tokenizers`` package, which cuts and pads."""

    def ask(self, passage: str, question: str) -> Answer:
        """Answer a question from a passage.

        Raises
        ------
        InputError
            Either is empty, or the question leaves no room for the passage.
        """
        check_asked(passage, question)
        start = time.perf_counter()
        best: tuple[float, int, int] | None = None
        for score, first, last in self._spans(passage, question):
            if best is None or score > best[0]:
                best = score, first, last
        took = 1e3 * (time.perf_counter() - start)
        if best is None:
            return Answer("", None, None, took)
        _, first, last = best
        return Answer(passage[first:last], first, last, took)

    def _spans(self, passage: str, question: str) -> Iterator[tuple[float, int, int]]:
        """Give score, first character and end of the best span of each window."""
        try:
            whole = self.tokenizer.encode(question, passage)
        except Exception as error:  # the package's own errors have no common class
            raise InputError(
                "question",
                expected=f"one that leaves {STRIDE} tokens for the passage",
                found=str(error),
                next_step="Shorten the question.",
            ) from error
        names = {spec.name for spec in self.programs.programs[0].inputs}
        for window in (whole, *whole.overflowing):
            given = {IDS: window.ids, MASK: window.attention_mask, TYPES: window.type_ids}
            rows = {name: np.asarray([given[name]], "int64") for name in names}
            starts, ends = (found[0] for found in self.programs.run(**rows)[:2])
            found = best_span(starts, ends, [each == PASSAGE for each in window.sequence_ids])
            if found is not None:
                score, first, last = found
                yield score, window.offsets[first][0], window.offsets[last][1]


def best_span(starts: Array, ends: Array, is_passage: list[bool]) -> tuple[float, int, int] | None:
    """Return score, first and last token of the best span; None without a passage."""
    inside = np.asarray(is_passage)
    if not inside.any():
        return None
    scores = starts.astype("float64")[:, None] + ends.astype("float64")[None, :]
    places = np.arange(len(inside))
    length = places[None, :] - places[:, None]
    allowed = (length >= 0) & (length < MOST_TOKENS) & inside[:, None] & inside[None, :]
    scores = np.where(allowed, scores, -np.inf)
    first, last = np.unravel_index(int(scores.argmax()), scores.shape)
    return float(scores[first, last]), int(first), int(last)


def load_span_model(
    model: str | Path,
    tokenizer: str | Path,
    target: TargetLike = "llvm -mcpu=native",
    sequence: int = SEQUENCE,
) -> SpanModel:
    """Compile a model that marks answers, and read its tokenizer.

    Parameters
    ----------
    model
        ONNX file whose inputs are ``input_ids``, ``attention_mask`` and ``token_type_ids`` or some
        of these, ``[1, sequence]``, and whose first two results are the logits of starts and ends.
    tokenizer
        ``tokenizer.json`` of the ``tokenizers`` package.
    target
        What it is compiled for.
    sequence
        Tokens of a window.

    Raises
    ------
    ModelError
        A file cannot be read, or the model takes or returns something else.
    """
    try:
        import onnx
        import tokenizers
    except ModuleNotFoundError as error:
        raise missing_package(error) from error
    if not Path(model).is_file():
        raise ModelError(
            f"model {model}", expected="an ONNX file", found="none", next_step="Check the path."
        )
    try:
        cutter = tokenizers.Tokenizer.from_file(str(tokenizer))
    except Exception as error:  # the package's own errors have no common class
        raise ModelError(
            f"tokenizer {tokenizer}",
            expected="a tokenizer.json",
            found=str(error),
            next_step="Give the file that lies beside the model.",
        ) from error
    stride = min(STRIDE, sequence // 4)
    cutter.enable_truncation(sequence, stride=stride, strategy="only_second")
    cutter.enable_padding(length=sequence)
    names = [each.name for each in onnx.load(str(model), load_external_data=False).graph.input]
    unknown = [name for name in names if name not in KNOWN_INPUTS]
    if unknown or IDS not in names:
        raise ModelError(
            f"model {model}",
            expected=f"inputs of {', '.join(KNOWN_INPUTS)}",
            found=", ".join(names),
            next_step="Export one that answers questions by spans.",
        )
    programs = build(str(model), target, shapes=[{name: (1, sequence) for name in names}])
    if not isinstance(programs, Programs) or len(programs.programs[0].outputs) < 2:
        raise ModelError(
            f"model {model}",
            expected="logits of starts and of ends, of a fixed shape",
            found="other results",
            next_step="Export one that answers questions by spans.",
        )
    return SpanModel(programs, cutter)
