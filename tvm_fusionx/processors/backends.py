"""Finding backends of other packages: what they name among their entry points is called once."""

from __future__ import annotations

import functools
import importlib.metadata

from tvm_fusionx.errors import BackendError

ENTRY_POINTS = "tvm_fusionx.backends"


@functools.cache
def load_backends() -> tuple[str, ...]:
    """Call what installed packages name in the group ``tvm_fusionx.backends``, once a process.

    Each is a function without arguments that registers its backends
    (:func:`tvm_fusionx.build.backends.register_backend`).

    Returns
    -------
    names
        Of the entry points.

    Raises
    ------
    BackendError
        One of them cannot be imported, or fails.
    """
    names = []
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            entry.load()()
        except BackendError:
            raise
        except Exception as error:  # Whatever a package raises while it is imported and called.
            raise BackendError(
                f"backend {entry.name!r} of {entry.value}",
                expected="a function that registers it",
                found=f"{type(error).__name__}: {error}",
                next_step="Mend or remove the package that brings it.",
            ) from error
        names.append(entry.name)
    return tuple(names)
