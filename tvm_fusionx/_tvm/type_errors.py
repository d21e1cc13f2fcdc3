"""What TVM says about an expression whose types do not fit, in words for a person.

Some of TVM's checks print to standard error and raise an error that says only that; the others
raise a stack of C++ frames with the reason in the last line.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator

import tvm
from tvm.ir import diagnostics

# What stands before the words in the last line of TVM's errors.
_KIND = re.compile(r"^(?:\w*(?:Error|Exception): )*")
_COMPARISON = re.compile(r".+ \((?P<sides>[^()]* vs\. [^()]*)\) : ?(?P<words>.*)$")
_FRAME = re.compile(r"^\s*(?:\d+: |File \"|Stack trace|Traceback|\[bt\])")
# TVM's second remark on a call, which says nothing about it.
_NO_HINT = "The type inference pass was unable to infer a type"
_POINTS_ELSEWHERE = "please check diagnostic render"
# How TVM's type checker tells of two types; `Tensor[(4, 2), float32]` is one.
_TWO_TYPES = re.compile(r"In particular `(?P<one>[^`]+)` does not match `(?P<other>[^`]+)`")

_lock = threading.RLock()
_heard: list[list[str]] = []


def _render(context: diagnostics.DiagnosticContext) -> None:
    messages = [str(diagnostic.message) for diagnostic in context.diagnostics]
    with _lock:
        for listener in _heard:
            listener.extend(text for text in messages if not text.startswith(_NO_HINT))


@contextlib.contextmanager
def heard_diagnostics() -> Iterator[list[str]]:
    """Collect what TVM would print about types in this scope; scopes nest, from any thread."""
    messages: list[str] = []
    with _lock:
        if not _heard:
            diagnostics.override_renderer(_render)
        _heard.append(messages)
    try:
        yield messages
    finally:
        with _lock:
            # By identity: two empty lists are equal.
            _heard[:] = [each for each in _heard if each is not messages]
            if not _heard:
                diagnostics.override_renderer(None)


def plain_message(error: BaseException, heard: list[str] | None = None) -> str:
    """Return in one line what `error` says, without frames, paths and the check's source.

    Parameters
    ----------
    heard
        What :func:`heard_diagnostics` collected.
    """
    if not isinstance(error, tvm.TVMError):
        return " ".join(str(error).split()) or type(error).__name__
    lines = [line for line in str(error).splitlines() if line.strip() and not _FRAME.match(line)]
    last = lines[-1].strip() if lines else type(error).__name__
    if _POINTS_ELSEWHERE in last:
        return _of_two_types(" ".join(heard[-1].split())) if heard else "types that do not fit"
    return " ".join(_words(last).split()) or type(error).__name__


def _of_two_types(message: str) -> str:
    found = _TWO_TYPES.search(message)
    return f"{found['one']} where {found['other']} would fit" if found else message


def _words(line: str) -> str:
    """Return what a line says behind the kind of error and the source of the check."""
    words = line.rpartition("Check failed: ")[2]
    compared = _COMPARISON.match(words)
    if compared is not None:
        # A check without words of its own still tells the two numbers.
        words = compared["words"] or compared["sides"]
    elif "Check failed: " in line:
        words = words.partition(" is false: ")[2] or words
    return _KIND.sub("", words)
