"""Text on an emulated Arm board: the tokens that numpy would choose, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_fusionx as fx
from tests.devices.emulated_board import emulated_boards
from tests.schedules.arm_board import Board
from tests.tiny_gpt2 import TINY_GPT2, gpt2_logits, write_tiny_gpt2
from tests.tiny_llama import Array, Tiny, logits_of, write_tiny
from tvm_fusionx.devices import export_kernel
from tvm_fusionx.report.bench.plain_tvm import load

PROMPT, NEW_TOKENS, CACHE = [3, 17], 4, 16
TOLERANCE = 1e-5
TINY_LLAMA = Tiny(layers=1)


@pytest.fixture(name="board", scope="module")
def fixture_board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    """Start a board."""
    with emulated_boards() as emulation:
        board = Board(emulation.device, tmp_path_factory.mktemp("board"))
        with board.bench:
            yield board


def _write_llama(path: Path) -> dict[str, Array]:
    return write_tiny(path, tiny=TINY_LLAMA)


def _llama_logits(held: dict[str, Array], tokens: list[int]) -> Array:
    return logits_of(held, tokens, TINY_LLAMA)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "logits", "tiny"),
    [(_write_llama, _llama_logits, TINY_LLAMA), (write_tiny_gpt2, gpt2_logits, TINY_GPT2)],
    ids=["llama", "gpt2"],
)
def test_a_board_writes_what_numpy_would(
    board: Board,
    tmp_path: Path,
    write: Callable[[Path], dict[str, Array]],
    logits: Callable[[dict[str, Array], list[int]], Array],
    tiny: Tiny,
) -> None:
    held = write(tmp_path / "tiny.gguf")
    mod, params = fx.from_gguf(tmp_path / "tiny.gguf", cache=CACHE, all_logits=True)
    library = fx.build(mod, board.bench.device.tvm_target(), params=params)
    session = board.bench.session()
    path = export_kernel(library, board.path(), board.bench.device)
    executor: Any = load(session.load(path), session.context)
    keys = np.zeros((tiny.groups, tiny.size, CACHE), "float32")
    values = np.zeros((tiny.groups, CACHE, tiny.size), "float32")
    text: list[int] = []
    found = np.empty(0)
    while len(text) < len(PROMPT) + NEW_TOKENS:
        at = len(text)
        text.append(PROMPT[at] if at < len(PROMPT) else int(found.argmax()))
        given = {"tokens": text[-1:], "position": [at], "keys_0": keys, "values_0": values}
        for name, value in given.items():
            kind = "int32" if isinstance(value, list) else "float32"
            executor.set_input(name, np.asarray(value, kind))
        executor.run()
        found, key, value = (executor.get_output(place).numpy() for place in range(3))
        keys[..., at : at + 1], values[:, at : at + 1] = key, value
        expected = logits(held, text)[-1]
        assert np.abs(found[0] - expected).max() <= TOLERANCE * np.abs(expected).max()
        assert found.argmax() == expected.argmax()
