"""A run's state on the disk: tensors and plain values, read without unpickling anything else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tvm_fusionx.compress.prune.torch_layers import torch
from tvm_fusionx.errors import RecordError
from tvm_fusionx.output_file import new_file

FORMAT_VERSION = 1
FORMAT = "fusionx_prune_checkpoint"


def save_checkpoint(path: Path, fingerprint: str, state: dict[str, Any]) -> None:
    """Write a state: the old file or the whole new one is there, whatever ends the process.

    Parameters
    ----------
    path
        The file.
    fingerprint
        Of the model and configuration that the state belongs to.
    state
        Tensors, numbers, strings, and lists and dictionaries of them.

    Raises
    ------
    OutputFileError
        It cannot be written.
    """
    with new_file(path) as scratch:
        torch.save({FORMAT: FORMAT_VERSION, "fingerprint": fingerprint, **state}, scratch)
        with scratch.open("rb") as file:
            os.fsync(file.fileno())


def load_checkpoint(path: Path, fingerprint: str) -> dict[str, Any] | None:
    """Return the state in a file, or None where there is no file.

    Raises
    ------
    RecordError
        The file is damaged, no checkpoint, or of another model or configuration.
    """
    if not path.exists():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise _refusal(
            path, f"a file that cannot be read ({type(error).__name__}: {said})"
        ) from error
    if not isinstance(state, dict) or state.get(FORMAT) != FORMAT_VERSION:
        raise _refusal(path, "a file of another kind or version")
    if state.get("fingerprint") != fingerprint:
        raise _refusal(path, "one of another model, other weights, or another configuration")
    return dict(state)


def _refusal(path: Path, found: str) -> RecordError:
    return RecordError(
        f"checkpoint {path}",
        expected="the state of a run of this model with this configuration",
        found=found,
        next_step="Give the same model and configuration as before, or begin anew without resume.",
    )
