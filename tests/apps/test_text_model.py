"""Reading in any chunks, over a growing cache: the same logits as in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tiny_llama import Array, Tiny, logits_of, write_tiny
from tvm_fusionx.apps.generate import GenerationStats, generate
from tvm_fusionx.apps.programs import TextPrograms
from tvm_fusionx.apps.sampling import Sampling
from tvm_fusionx.apps.text_model import TextModel
from tvm_fusionx.errors import InputError

pytest.importorskip("tokenizers")

TINY = Tiny(layers=1)
TOLERANCE = 1e-5
TOKENS = [3, 17, 5, 60, 8, 8, 2, 41, 33, 7, 9, 11, 30]


@pytest.fixture(name="made", scope="module")
def fixture_made(tmp_path_factory: pytest.TempPathFactory) -> tuple[TextModel, dict[str, Array]]:
    """Return a tiny model, and its weights."""
    folder = tmp_path_factory.mktemp("text")
    held = write_tiny(folder / "tiny.gguf", tiny=TINY)
    programs = TextPrograms(
        folder / "tiny.gguf",
        folder=folder / "kept",
        chunks=(1, 4),
        buckets=(16, 32),
        activations="float32",
    )
    return TextModel(programs), held


def _assert_reads(model: TextModel, held: dict[str, Array], parts: list[list[int]]) -> None:
    model.restart()
    tokens: list[int] = []
    for part in parts:
        tokens += part
        expected = logits_of(held, tokens, TINY)[-1]
        found = model.read(part)
        assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()
        assert model.position == len(tokens)


@pytest.mark.slow
def test_whatever_the_parts(made: tuple[TextModel, dict[str, Array]]) -> None:
    _assert_reads(*made, [TOKENS[:7], TOKENS[7:8], TOKENS[8:10]])
    _assert_reads(*made, [[token] for token in TOKENS[:5]])
    # Over the end of the smaller cache.
    _assert_reads(*made, [TOKENS, TOKENS[:5]])
    _assert_reads(*made, [TOKENS[:4]])


@pytest.mark.slow
def test_what_is_rewound_is_forgotten(made: tuple[TextModel, dict[str, Array]]) -> None:
    model, held = made
    model.restart()
    model.read(TOKENS[:9])
    model.rewind(4)
    expected = logits_of(held, [*TOKENS[:4], 11, 12], TINY)[-1]
    found = model.read([11, 12])
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()
    for position in (-1, 7):
        with pytest.raises(InputError, match="expected a number from 0 to 6"):
            model.rewind(position)


@pytest.mark.slow
def test_text_goes_on_as_the_model_says(made: tuple[TextModel, dict[str, Array]]) -> None:
    model, held = made
    stats = GenerationStats()
    pieces = list(generate(model, "once up", max_tokens=6, stats=stats))
    tokens = model.tokenizer.encode("once up")
    expected: list[int] = []
    while len(expected) < 6 and 2 not in expected:
        expected.append(int(logits_of(held, tokens + expected, TINY)[-1].argmax()))
    assert "".join(pieces) == model.tokenizer.decode(expected)
    assert (stats.prompt_tokens, stats.new_tokens) == (len(tokens), len(expected))
    assert stats.prompt_rate > 0
    assert stats.decode_rate > 0
    stop = pieces[2]
    stats = GenerationStats()
    cut = "".join(generate(model, "once up", max_tokens=6, stops=[stop], stats=stats))
    assert cut == "".join(pieces).partition(stop)[0]
    assert stats.ended_by == "stop"
    warm = Sampling(temperature=1.0, seed=1)
    texts = ["".join(generate(model, "ab", max_tokens=8, sampling=warm)) for _ in range(2)]
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_too_long_or_empty_is_refused(made: tuple[TextModel, dict[str, Array]]) -> None:
    model, _ = made
    model.restart()
    with pytest.raises(InputError, match=r"at most 32 tokens.*; found 33"):
        model.read([3] * 33)
    with pytest.raises(InputError, match="at least one token; found none"):
        model.read([])
