"""Answers in a language model's own words, found again in the passage: what likely spans replaced.

`questions.py --side free` measures it beside them.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter

from tvm_fusionx.apps.answers import REQUEST, Answer, check_asked
from tvm_fusionx.apps.generate import GenerationStats, generate
from tvm_fusionx.apps.text_model import TextModel

# Longer answers to such questions are stories.
MOST_TOKENS = 32

WORD = re.compile(r"\w+")

# Share of an answer's words that the place in the passage must have.
LEAST_OVERLAP = 0.5

# More words than these are a sentence around the few words of an answer.
FEW_WORDS = 4


def ask_freely(model: TextModel, passage: str, question: str) -> Answer:
    """Answer a question from a passage."""
    check_asked(passage, question)
    content = REQUEST.format(passage=passage.strip(), question=question.strip())
    prompt = model.tokenizer.chat([{"role": "user", "content": content}])
    stats = GenerationStats()
    pieces = generate(model, prompt, max_tokens=MOST_TOKENS, stops=["\n"], stats=stats)
    said = "".join(pieces).strip()
    place = align(said, passage)
    start, end = place if place is not None else (None, None)
    took = 1e3 * (stats.prompt_seconds + stats.decode_seconds)
    return Answer(passage[start:end] if place is not None else said, start, end, took)


def align(said: str, passage: str) -> tuple[int, int] | None:
    """Return where a passage says what was said, or None where it does not.

    The words themselves where they are there; else the longest run of them that both have, and the
    words of the answer around it. At least half of the answer's words must be there.
    """
    words = [(match.group().casefold(), match.span()) for match in WORD.finditer(passage)]
    wanted = [match.group().casefold() for match in WORD.finditer(said)]
    if not wanted or not words:
        return None
    held = [word for word, _ in words]
    matcher = difflib.SequenceMatcher(None, held, wanted, autojunk=False)
    match = matcher.find_longest_match()
    if not match.size:
        return None
    first, last = match.a, match.a + match.size
    # What of the answer's other words stands right beside.
    others = Counter(wanted) - Counter(held[first:last])
    while first > 0 and others[held[first - 1]]:
        first -= 1
        others[held[first]] -= 1
    while last < len(held) and others[held[last]]:
        others[held[last]] -= 1
        last += 1
    if match.size < LEAST_OVERLAP * min(len(wanted), FEW_WORDS):
        return None
    return words[first][1][0], words[last - 1][1][1]
