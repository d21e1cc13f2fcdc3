"""What ``fusionx prune TRAIN.py`` asks of the user's script.

===================  ==============================================================================
name                 what it is
===================  ==============================================================================
``model()``          the trained torch module
``example()``        its inputs as a sequence of tensors: the model is exported with them
``train_step``       with ``loaders``: ``train_step(model, batch)``; otherwise
                     ``train_step(model, step)``. Returns the loss, or the loss and the outputs.
``loaders()``        the loader of an epoch's batches; may be left out
``evaluate(model)``  a number, larger for better; may be left out
``latency_of_rate``  ``latency_of_rate(sparsity)``: milliseconds, for ``target_latency_ms``
``export()``         words for ``torch.onnx.export``; may be left out
===================  ==============================================================================

They are functions of the file; or, for ``TRAIN.py:FUNCTION``, of what that function returns: an
object, or a dictionary by these names.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.cli.user_file import reporting, run_file
from tvm_fusionx.errors import InputError

NEEDED = ("model", "example")
OPTIONAL = ("train_step", "loaders", "evaluate", "latency_of_rate", "export")


@dataclass(frozen=True)
class TrainScript:
    """A script's functions, by the names of the protocol; those that it leaves out are None."""

    words: str
    model: Callable[[], Any]
    example: Callable[[], Any]
    train_step: Callable[[Any, Any], Any] | None = None
    loaders: Callable[[], Any] | None = None
    evaluate: Callable[[Any], float] | None = None
    latency_of_rate: Callable[[float], float] | None = None
    export: Callable[[], Mapping[str, Any]] | None = None

    def train(self, seed: int) -> Callable[[Any, int], Any] | None:
        """Return ``train(model, step)`` as pruning asks for it."""
        if self.loaders is None or self.train_step is None:
            return self.train_step
        from tvm_fusionx.compress.prune.batches import LoaderSteps

        return LoaderSteps(self.loaders(), self.train_step, seed)


def load_script(words: str) -> TrainScript:
    """Return the functions of ``TRAIN.py`` or ``TRAIN.py:FUNCTION``; the file is run.

    Raises
    ------
    InputError
        There is no such file or function, it fails, or what it gives lacks a part.
    """
    path, has_function, name = words.rpartition(":")
    try:
        holder: Any = run_file(path if has_function else words)
    except ValueError as error:
        raise _refused(words, str(error)) from error
    if has_function:
        function = getattr(holder, name, None)
        if not callable(function):
            raise _refused(words, f"no function {name} in {path}")
        holder = reporting(function, f"{name} of {path}")()
    is_table = isinstance(holder, Mapping)
    functions: dict[str, Any] = {
        each: holder.get(each) if is_table else getattr(holder, each, None)
        for each in (*NEEDED, *OPTIONAL)
    }
    for each, given in functions.items():
        if (given is None and each in NEEDED) or (given is not None and not callable(given)):
            others = [*holder] if is_table else dir(holder)
            near = difflib.get_close_matches(each, others)
            hint = f", but {near[0]}" if near and given is None else ""
            found = f"no {each}{hint}" if given is None else f"{each}, which is no function"
            raise _refused(words, found)
    own: dict[str, Any] = {
        each: None if given is None else reporting(given, f"{each} of {words}")
        for each, given in functions.items()
    }
    return TrainScript(words, **own)


def _refused(words: str, found: str) -> InputError:
    return InputError(
        f"script {words}",
        expected=f"TRAIN.py or TRAIN.py:FUNCTION with the functions {' and '.join(NEEDED)}",
        found=found,
        next_step="docs/how-to/prune-a-model.md has a whole script.",
    )
