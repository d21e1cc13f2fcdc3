"""A language model that reads tokens and says what comes next: its cache of keys and values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import tvm

from tvm_fusionx.apps.programs import TextPrograms, tokens_of
from tvm_fusionx.apps.tokenizer import Tokenizer
from tvm_fusionx.build.library import Library
from tvm_fusionx.build.pipeline import check_runs_here
from tvm_fusionx.errors import InputError, ModelError
from tvm_fusionx.gguf.decoder_relay import KEYS, LAST, POSITION, TOKENS, VALUES
from tvm_fusionx.inputs import InputSpec

Array = np.ndarray[Any, Any]

# TVM takes no array as an input where it lies that begins elsewhere.
ALIGNMENT = 64

# A step of one token for each of so few left, and not a chunk for all.
FEW = 2


class TextModel:
    """Reads tokens one after the other, or in chunks.

    Programs read keys and values where they lie, and the rows they return are written behind the
    earlier ones: the cache is never copied, but for a text that outgrows it.

    Parameters
    ----------
    programs
        The model.
    growing
        A scope in which a larger cache is taken, which may have to be compiled for.

    Raises
    ------
    TargetError
        It is for another machine.
    """

    def __init__(
        self,
        programs: TextPrograms,
        growing: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        check_runs_here(programs.target, "text model", "Give the CPU of this machine as target.")
        self.programs = programs
        self._growing = growing
        self.tokenizer: Tokenizer = programs.tokenizer()
        self.position = 0
        """Tokens read so far."""
        self._bucket = 0
        # Of the cache: a model that knows fewer than the bucket has all that it knows.
        self._places = 0
        self._steps: dict[int, _Step] = {}
        self._keys: list[Array] = []
        self._values: list[Array] = []

    def reserve(self, tokens: int) -> None:
        """Make room for a text, prompt and answer together.

        Raises
        ------
        InputError
            It is longer than the largest cache, or than what the model knows.
        """
        bucket = self.programs.bucket_for(tokens)
        if bucket > self._bucket:
            with self._growing():
                self._grow(bucket)
        if tokens > self._places:
            raise InputError(
                "text",
                expected=f"at most {self._places} tokens, prompt and answer together: the model "
                "knows no more",
                found=str(tokens),
                next_step="Shorten the prompt, or ask for fewer tokens.",
            )

    def restart(self) -> None:
        """Forget what was read."""
        self.position = 0

    def rewind(self, position: int) -> None:
        """Forget all but the first `position` tokens.

        Raises
        ------
        InputError
            So many were not read.
        """
        if not 0 <= position <= self.position:
            raise InputError(
                "position",
                expected=f"a number from 0 to {self.position}, the tokens read",
                found=str(position),
                next_step="Give one of them.",
            )
        self.position = position

    def read(self, tokens: Sequence[int]) -> Array:
        """Read some tokens; return the logits ``[vocabulary]`` of what follows the last.

        They are those of the program, until the next call.

        Raises
        ------
        InputError
            There is none, or they do not fit the largest cache.
        ModelError
            The logits are no numbers.
        """
        if not tokens:
            raise InputError(
                "text",
                expected="at least one token",
                found="none",
                next_step="Give a prompt that is not empty.",
            )
        self.reserve(self.position + len(tokens))
        logits = np.empty(0)
        while tokens:
            chunk = self._chunk(len(tokens))
            part, tokens = tokens[:chunk], tokens[chunk:]
            logits = self._steps[chunk].run(part, self.position, self._keys, self._values)
            self.position += len(part)
        if not np.isfinite(logits).all():
            raise ModelError(
                f"model {self.programs.path}",
                expected="finite logits",
                found="others",
                next_step="Copy or download the model again: its weights are damaged.",
            )
        return logits

    def _chunk(self, left: int) -> int:
        """Return the tokens of the next step: a whole chunk, or one that holds the rest."""
        whole = max(chunk for chunk in self._steps if chunk <= left)
        if whole == 1 and left > FEW:
            return min((chunk for chunk in self._steps if chunk > 1), default=1)
        return whole

    def _grow(self, bucket: int) -> None:
        libraries = self.programs.libraries(bucket)
        keys = _shapes(libraries[0], KEYS)
        values = _shapes(libraries[0], VALUES)
        grown = [_aligned(keys), _aligned(values)]
        if self.position:
            for layer, kept in enumerate(self._keys):
                grown[0][layer][..., : self._places] = kept
            for layer, kept in enumerate(self._values):
                grown[1][layer][:, : self._places] = kept
        self._keys, self._values = grown
        self._bucket, self._places = bucket, keys[0][-1]
        self._steps = {tokens_of(each): _Step(each, *grown) for each in libraries}


class _Step:
    """One program with its executor, which reads the cache where it lies."""

    def __init__(self, library: Library, keys: list[Array], values: list[Array]) -> None:
        self.library = library
        self.tokens = tokens_of(library)
        self.executor = library.executor(shares_weights=True)
        lend = self.executor.module["set_input_zero_copy"]
        self._lent = []
        for form, arrays in ((KEYS, keys), (VALUES, values)):
            for layer, array in enumerate(arrays):
                held = tvm.nd.from_dlpack(array)
                self._lent.append(held)
                lend(form.format(layer), held)
        count = self.executor.get_num_outputs()
        self._results = [np.from_dlpack(self.executor.get_output(at)) for at in range(count)]

    def run(
        self, tokens: Sequence[int], position: int, keys: list[Array], values: list[Array]
    ) -> Array:
        count = len(tokens)
        ids = np.zeros(self.tokens, "int32")
        ids[:count] = tokens
        for name, value in ((TOKENS, ids), (POSITION, [position]), (LAST, [count - 1])):
            self.executor.set_input(name, np.asarray(value, "int32"))
        self.executor.run()
        logits, *rows = self._results
        for layer, (key, value) in enumerate(zip(rows[::2], rows[1::2], strict=True)):
            keys[layer][..., position : position + count] = key[..., :count]
            values[layer][:, position : position + count] = value[:, :count]
        return logits[0]


def _shapes(library: Library, form: str) -> list[tuple[int, ...]]:
    specs: dict[str, InputSpec] = {spec.name: spec for spec in library.inputs}
    layers = sum(name.startswith(form.format("")) for name in specs)
    return [specs[form.format(layer)].shape for layer in range(layers)]


def _aligned(shapes: list[tuple[int, ...]]) -> list[Array]:
    """Return zeros of each shape, which begin where TVM takes them as they lie."""
    found = []
    for shape in shapes:
        held = np.zeros(int(np.prod(shape)) * 4 + ALIGNMENT, "uint8")
        start = -held.ctypes.data % ALIGNMENT
        found.append(held[start : len(held) - ALIGNMENT + start].view("float32").reshape(shape))
    return found
