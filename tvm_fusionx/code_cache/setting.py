"""Where kernels are kept, in a scope or in all of a process."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from tvm_fusionx.code_cache.folder import DEFAULT_LIMIT_BYTES, KernelFolder, default_folder

logger = logging.getLogger(__name__)

# Turns the folder that nobody asked for off, or names another: an absolute path.
VARIABLE = "TVM_FUSIONX_KERNEL_CACHE"
OFF = "off"

_chosen: ContextVar[tuple[KernelFolder | None] | None] = ContextVar("fusionx_kernels", default=None)
# Folders that were complained of: once each.
_told: set[str] = set()


@contextlib.contextmanager
def kernel_cache(
    folder: str | Path | None = None, *, limit_bytes: int = DEFAULT_LIMIT_BYTES, use: bool = True
) -> Iterator[None]:
    """Say where builds of this scope keep the machine code of their kernels.

    Without such a scope they keep it in ``kernels`` in the user's cache folder, unless the
    environment has ``TVM_FUSIONX_KERNEL_CACHE=off``, or the absolute path of another folder. A
    kernel is taken from there when the scheduled block, the target with its processor, the
    configuration, the versions and the sources of our passes are the same; and a block is not even
    scheduled that an earlier build scheduled, with the same sources of the package.

    Parameters
    ----------
    folder
        A folder of its own, which only this user may enter; made where it is missing. By default
        that of the user's cache folder.
    limit_bytes
        What it may hold; the kernels that were longest unused are removed first.
    use
        False: every kernel is compiled, and none kept.
    """
    path = Path(folder) if folder is not None else default_folder()
    token = _chosen.set((KernelFolder(path, limit_bytes) if use else None,))
    try:
        yield
    finally:
        _chosen.reset(token)


def folder_in_use() -> KernelFolder | None:
    """Return where kernels are kept here and now; None where they are not, or cannot be."""
    chosen = _chosen.get()
    if chosen is None:
        said = os.environ.get(VARIABLE, "")
        path = Path(said) if Path(said).is_absolute() else default_folder()
        chosen = (None if said.lower() == OFF else KernelFolder(path),)
    (folder,) = chosen
    if folder is None:
        return None
    problem = folder.why_unusable()
    if problem is not None:
        if problem not in _told:
            _told.add(problem)
            logger.warning("kernels are not kept: %s", problem)
        return None
    return folder
