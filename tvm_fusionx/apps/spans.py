"""Questions answered by a model that marks where a passage has the answer, such as BERT's on SQuAD.

The model is an ONNX file with its ``tokenizer.json``. A text goes to the program of the least
length that holds it. A passage longer than the longest is read through a window that slides over it
(Devlin et al., 2019); the best span of all windows wins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tvm_fusionx._tvm.presence import missing_package
from tvm_fusionx.apps.answers import Answer, check_asked
from tvm_fusionx.apps.span_programs import IDS, LENGTHS, MASK, TYPES, SpanPrograms
from tvm_fusionx.build.pipeline import check_runs_here
from tvm_fusionx.errors import InputError, ModelError
from tvm_fusionx.processors.targets import TargetLike

Array = np.ndarray[Any, Any]

# Tokens that two windows share, and of an answer: as for SQuAD.
STRIDE = 128
MOST_TOKENS = 30

# What a tokenizer's file may say of the tokens that fill a text up.
PADDING = ("direction", "pad_id", "pad_type_id", "pad_token")

# The second sequence, in the tokenizer's numbering.
PASSAGE = 1


class Marker(Protocol):
    """What gives logits of starts and ends, such as :class:`SpanPrograms`."""

    names: tuple[str, ...]

    def length_for(self, tokens: int) -> int:
        """Return how many tokens a text is padded to."""

    def prepare(self, length: int) -> None:
        """Have what runs texts of a length ready."""

    def run(self, **inputs: Array) -> Sequence[Array]:
        """Return logits."""


@dataclass(frozen=True)
class SpanModel:
    """A model that marks answers."""

    programs: Marker
    tokenizer: Any
    """Of the ``tokenizers`` package, which cuts a text into windows and fills none up."""
    padding: Mapping[str, Any] = field(default_factory=dict)
    """With what a window is filled up, as the package's ``Encoding.pad`` takes it."""

    def prepare(self, passage: str, question: str) -> None:
        """Have the program ready that answers, which may have to be compiled.

        Raises
        ------
        InputError
            Either is empty, or the question leaves no room for the passage.
        ModelError
            The file is damaged, was replaced, or the model marks nothing.
        """
        check_asked(passage, question)
        whole = self._cut(passage, question)
        self.programs.prepare(self.programs.length_for(len(whole.ids)))

    def ask(self, passage: str, question: str) -> Answer:
        """Answer a question from a passage; errors as of :meth:`prepare`."""
        self.prepare(passage, question)
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

    def _cut(self, passage: str, question: str) -> Any:
        """Return the first window's tokens; it knows the others."""
        try:
            return self.tokenizer.encode(question, passage)
        except Exception as error:  # the package's own errors have no common class
            raise InputError(
                "question",
                expected=f"one that leaves {STRIDE} tokens for the passage",
                found=str(error),
                next_step="Shorten the question.",
            ) from error

    def _spans(self, passage: str, question: str) -> Iterator[tuple[float, int, int]]:
        """Give score, first character and end of the best span of each window."""
        whole = self._cut(passage, question)
        length = self.programs.length_for(len(whole.ids))
        for window in (whole, *whole.overflowing):
            window.pad(length, **self.padding)
            given = {IDS: window.ids, MASK: window.attention_mask, TYPES: window.type_ids}
            rows = {name: np.asarray([given[name]], "int64") for name in self.programs.names}
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
    folder: Path | None = None,
    lengths: tuple[int, ...] = LENGTHS,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> SpanModel:
    """Return a model that marks answers; it is compiled when a question first needs it, and kept.

    Parameters
    ----------
    model
        ONNX file whose inputs are ``input_ids``, ``attention_mask`` and ``token_type_ids`` or some
        of these, ``[1, tokens]``, and whose first two results are the logits of starts and ends,
        ``[1, tokens]``.
    tokenizer
        ``tokenizer.json`` of the ``tokenizers`` package.
    target
        What it is compiled for: this machine's CPU.
    folder
        Of all compiled models; the user's own by default.
    lengths
        Tokens that texts are padded to, the fewest first; longer ones are read through windows of
        the last. A model of a fixed length has that one.
    on_stage
        Told what is being done, in words.

    Raises
    ------
    ModelError
        A file cannot be read, or the model takes something else.
    TargetError
        The target is another machine.
    """
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise missing_package(error) from error
    check_runs_here(target, "span model", "Give the CPU of this machine as target.")
    programs = SpanPrograms(Path(model), target, folder, lengths, on_stage)
    try:
        cutter = tokenizers.Tokenizer.from_file(str(tokenizer))
    except Exception as error:  # the package's own errors have no common class
        raise ModelError(
            f"tokenizer {tokenizer}",
            expected="a tokenizer.json",
            found=str(error),
            next_step="Give the file that lies beside the model.",
        ) from error
    longest = programs.lengths[-1]
    stride = min(STRIDE, longest // 4)
    cutter.enable_truncation(longest, stride=stride, strategy="only_second")
    filled = cutter.padding or {}
    cutter.no_padding()
    return SpanModel(programs, cutter, {name: filled[name] for name in PADDING if name in filled})
