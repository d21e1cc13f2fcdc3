"""Answer the questions of XQuAD, and count the right answers.

    python benchmarks/questions.py XQUAD.json --rows OUT.jsonl [--limit N] [--model FILE]
                                   [--side likely --side transformers --side free] [--threads N]
                                   [--span-model FILE.onnx --tokenizer FILE.json]

XQUAD.json is `xquad.en.json` of XQuAD (Artetxe et al., 2020; CC BY-SA 4.0): 1,190 questions with
their answers in 240 passages. Exact match and F1 are those of SQuAD (Rajpurkar et al., 2016).
Questions come in one shuffled order, so that any number of the first is a fair sample; sides answer
each in turn. Sides are `likely`, what `fusionx ask` does; `transformers`, the same algorithm with
the same file run by that package, which needs `accelerate` for it; and `free`, the model's own
words found again in the passage.

A row of OUT.jsonl is an answer: where it lies in the passage and its scores, and no text of XQuAD.
What is in the file is not asked again, so a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
SPANS = "spans"

# Of the order in which questions are asked.
SEED = 0

ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True)
class Question:
    """A question, and what is right."""

    passage: str
    text: str
    answers: tuple[str, ...]
    name: str
    """XQuAD's own."""


def questions_of(data: Any) -> Iterator[Question]:
    """Give the questions of a file in SQuAD's form."""
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            for each in paragraph["qas"]:
                answers = tuple(answer["text"] for answer in each["answers"])
                yield Question(paragraph["context"], each["question"], answers, each["id"])


def shuffled(questions: Iterable[Question]) -> list[Question]:
    """Return questions in the order in which they are asked, the same every time."""
    found = sorted(questions, key=lambda question: question.name)
    random.Random(SEED).shuffle(found)
    return found


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


def row_of(question: Question, side: str, found: Answer) -> dict[str, Any]:
    """Return an answer as a row, without any text of the passage."""
    return {
        "question": question.name,
        "side": side,
        "start": found.start,
        "end": found.end,
        "exact": any(is_exact(found.text, right) for right in question.answers),
        "f1": round(max(f1(found.text, right) for right in question.answers), 4),
        "ms": round(found.milliseconds, 1),
    }


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file; the last line of a run that was killed may be a part of one."""
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def answer_all(
    questions: Sequence[Question],
    askers: Mapping[str, Callable[[str, str], Answer]],
    path: Path,
) -> list[dict[str, Any]]:
    """Ask each side what it was not asked yet, question by question; return all rows."""
    rows = read_rows(path)
    known = {(row["question"], row["side"]) for row in rows}
    # Without what a killed run left of a line.
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with path.open("a", encoding="utf-8") as file:
        for number, question in enumerate(questions, 1):
            for side, answer in askers.items():
                if (question.name, side) in known:
                    continue
                rows.append(row_of(question, side, answer(question.passage, question.text)))
                print(json.dumps(rows[-1]), file=file, flush=True)
            if sys.stderr.isatty():
                print(f"\r{number} of {len(questions)}", end="", file=sys.stderr)
    return rows


def scores(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the scores of one side's rows, in percent, and the median time."""
    found = list(rows)
    count = len(found)
    return {
        "questions": count,
        "exact_match": 100 * sum(row["exact"] for row in found) / count,
        "f1": 100 * sum(row["f1"] for row in found) / count,
        "in_the_passage": 100 * sum(row["start"] is not None for row in found) / count,
        "median_ms": sorted(row["ms"] for row in found)[count // 2],
    }


def same_answers(rows: Iterable[Mapping[str, Any]], one: str, other: str) -> tuple[int, int]:
    """Return to how many questions two sides gave the same span, and how many both answered."""
    places: dict[str, dict[str, tuple[Any, Any]]] = {one: {}, other: {}}
    for row in rows:
        if row["side"] in places:
            places[row["side"]][row["question"]] = (row["start"], row["end"])
    both = places[one].keys() & places[other].keys()
    return sum(places[one][name] == places[other][name] for name in both), len(both)


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
    """Answer, keep the rows, and print the scores of each side."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--side", choices=(LIKELY, FREE, TRANSFORMERS), action="append")
    parser.add_argument("--span-model", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    questions = shuffled(questions_of(json.loads(given.data.read_text(encoding="utf-8"))))
    questions = questions[: given.limit]
    threads = fx.threads(given.threads)
    if given.span_model:
        path = given.span_model
        spans = load_span_model(path, given.tokenizer or path.parent / "tokenizer.json")
        askers = {SPANS: spans.ask}
    else:
        path = given.model or default_language_model()
        askers = {side: asker(side, path, threads) for side in given.side or [LIKELY]}
    asked = {question.name for question in questions}
    rows = [row for row in answer_all(questions, askers, given.rows) if row["question"] in asked]
    print(f"{path.name}, {threads} threads")
    for side in askers:
        print(side, json.dumps(scores(row for row in rows if row["side"] == side)))
    for other in [side for side in askers if side != LIKELY and LIKELY in askers]:
        same, both = same_answers(rows, LIKELY, other)
        print(f"{LIKELY} and {other}: the same span for {same} of {both} questions")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
