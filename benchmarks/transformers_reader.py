"""A GGUF file's language model, run by `transformers`: the other side of our benchmarks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.apps.tokenizer import Tokenizer


class TransformersReader:
    """Reads tokens in float32, with the weights that `transformers` unpacks of the file.

    Parameters
    ----------
    path
        A GGUF file; the package `accelerate` is needed beside `transformers`.
    tokenizer
        Ours: both sides read the same tokens.
    threads
        Of torch.
    """

    def __init__(self, path: Path, tokenizer: Tokenizer, threads: int) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(threads)
        self._torch: Any = torch
        self._model: Any = AutoModelForCausalLM.from_pretrained(
            str(path.parent), gguf_file=path.name, dtype=torch.float32
        ).eval()
        self.tokenizer = tokenizer
        self._cache: Any = None
        self._position = 0

    def restart(self) -> None:
        """Forget what was read."""
        self._cache, self._position = None, 0

    def rewind(self, position: int) -> None:
        """Forget all but some tokens."""
        if position < self._position:
            # How many go, as a negative number.
            self._cache.crop(position - self._position)
            self._position = position

    def round_data(self, block: int, most: int) -> None:
        """Round what each product multiplies to levels on each side of 0, from now on.

        Parameters
        ----------
        block
            Numbers that share a step.
        most
            Levels on each side.
        """
        torch = self._torch

        def rounded(_: Any, operands: tuple[Any, ...]) -> tuple[Any, ...]:
            x, *others = operands
            blocks = x.unflatten(-1, (-1, block))
            step = blocks.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny) / most
            return ((blocks / step).round() * step).flatten(-2), *others

        for module in self._model.modules():
            if isinstance(module, torch.nn.Linear):
                module.register_forward_pre_hook(rounded)

    def score(self, tokens: Sequence[int]) -> list[float]:
        """Return the logarithm of the chance of each token but the first, read at once."""
        with self._torch.no_grad():
            logits = self._model(self._torch.tensor([list(tokens)])).logits[0, :-1].double()
            chances = self._torch.log_softmax(logits, -1)
        following = self._torch.tensor(list(tokens[1:]))[:, None]
        found: list[float] = chances.gather(1, following)[:, 0].tolist()
        return found

    def read(self, tokens: Sequence[int]) -> np.ndarray[Any, Any]:
        """Return the logits of what follows."""
        with self._torch.no_grad():
            found = self._model(
                self._torch.tensor([list(tokens)]),
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
            )
        self._cache = found.past_key_values
        self._position += len(tokens)
        logits: np.ndarray[Any, Any] = found.logits[0, -1].numpy()
        return logits
