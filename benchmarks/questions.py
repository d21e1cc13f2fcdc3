"""Answer the questions of XQuAD, and count the right answers.

    python benchmarks/questions.py XQUAD.json [--limit N] [--model FILE] [--json OUT]
                                   [--side likely|free|transformers] [--threads N]
                                   [--span-model FILE.onnx --tokenizer FILE.json]

XQUAD.json is `xquad.en.json` of XQuAD (Artetxe et al., 2020; CC BY-SA 4.0): 1,190 questions with
their answers in 240 passages. Exact match and F1 are those of SQuAD (Rajpurkar et al., 2016).
With --limit the questions are every so manieth, so that all passages have their share. Sides are
`likely`, what `fusionx ask` does; `transformers`, the same algorithm with the same file run by that
package; and `free`, the model's own words found again in the passage. JSON has each answer.
"""

from __future__ import annotations

import argparse
import json
import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from free_answers import ask_freely
from transformers_reader import TransformersReader

import tvm_fusionx as fx
from tvm_fusionx.apps.answers import Answer, ask
from tvm_fusionx.apps.programs import TextPrograms
from tvm_fusionx.apps.spans import load_span_model
from tvm_fusionx.apps.text_model import TextModel
from tvm_fusionx.zoo.language_models import default_language_model

LIKELY, FREE, TRANSFORMERS = "likely", "free", "transformers"

ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True)
class Question:
    """A question, and what is right."""

    passage: str
    text: str
    answers: tuple[str, ...]


def questions_of(data: Any) -> Iterator[Question]:
    """Give the questions of a file in SQuAD's form."""
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            for each in paragraph["qas"]:
                answers = tuple(answer["text"] for answer in each["answers"])
                yield Question(paragraph["context"], each["question"], answers)


def normal(text: str) -> list[str]:
    """Return the words of an answer as SQuAD compares them."""
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return ARTICLES.sub(" ", text).split()


def is_exact(found: str, right: str) -> bool:
    """Tell whether two answers have the same words."""
    return normal(found) == normal(right)


def f1(found: str, right: str) -> float:
    """Return the harmonic mean of the shares of words that two answers have in common."""
    one, other = normal(found), normal(right)
    common = sum((Counter(one) & Counter(other)).values())
    if not common:
        return float(one == other)
    precision, recall = common / len(one), common / len(other)
    return 2 * precision * recall / (precision + recall)


def scored(questions: list[Question], answer: Callable[[str, str], Answer]) -> dict[str, Any]:
    """Return the scores of some questions, in percent, and the median time."""
    exact = total = 0.0
    times = []
    rows = []
    aligned = 0
    for number, question in enumerate(questions, 1):
        found = answer(question.passage, question.text)
        exact += max(is_exact(found.text, right) for right in question.answers)
        total += max(f1(found.text, right) for right in question.answers)
        aligned += found.start is not None
        times.append(found.milliseconds)
        rows.append({"question": question.text, "answer": found.text, "start": found.start})
        if sys.stderr.isatty():
            print(f"\r{number} of {len(questions)}", end="", file=sys.stderr)
    count = len(questions)
    return {
        "questions": count,
        "exact_match": 100 * exact / count,
        "f1": 100 * total / count,
        "in_the_passage": 100 * aligned / count,
        "median_ms": sorted(times)[count // 2],
        "answers": rows,
    }


def asker(side: str, path: Path, threads: int) -> Callable[[str, str], Answer]:
    """Return what answers: one of our sides, or `transformers`."""
    programs = TextPrograms(path)
    if side == TRANSFORMERS:
        reader = TransformersReader(path, programs.tokenizer(), threads)
        return lambda passage, question: ask(reader, passage, question)
    model = TextModel(programs)
    if side == FREE:
        return lambda passage, question: ask_freely(model, passage, question)
    return lambda passage, question: ask(model, passage, question)


def main() -> int:
    """Answer, print the scores, and write them as JSON where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--side", choices=(LIKELY, FREE, TRANSFORMERS), default=LIKELY)
    parser.add_argument("--span-model", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    questions = list(questions_of(json.loads(given.data.read_text(encoding="utf-8"))))
    if given.limit:
        questions = questions[:: max(1, len(questions) // given.limit)][: given.limit]
    threads = fx.threads(given.threads)
    if given.span_model:
        path = given.span_model
        spans = load_span_model(path, given.tokenizer or path.parent / "tokenizer.json")
        found = scored(questions, spans.ask)
    else:
        path = given.model or default_language_model()
        found = scored(questions, asker(given.side, path, threads))
    result = {
        "model": path.name,
        "side": "spans" if given.span_model else given.side,
        "threads": threads,
        **found,
        "command": " ".join(sys.argv),
    }
    print(json.dumps({key: value for key, value in result.items() if key != "answers"}, indent=1))
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
