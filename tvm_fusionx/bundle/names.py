"""Names of a model as names of C."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tvm_fusionx.errors import ModelError

# Of C17 and C++20, and macros of the headers that a bundle includes.
RESERVED = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield
    decltype default delete do double dynamic_cast else enum explicit export extern false float for
    friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or
    or_eq private protected public register reinterpret_cast requires restrict return short signed
    sizeof static static_assert static_cast struct switch template this thread_local throw true try
    typedef typeid typename union unix linux unsigned using virtual void volatile wchar_t while xor
    xor_eq EOF I NULL errno""".split()
)
# Files and targets of a bundle's folder would be taken for those of others: headers of C, of our
# pool and of Java, libraries of the system, what CMake and Python call so.
TAKEN = frozenset(
    """assert complex ctype errno fcntl fenv float inttypes iso646 limits locale math setjmp signal
    stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings tgmath
    threads time uchar unistd wchar wctype cores group pool waiting fusionx_pool jni c dl m pthread
    rt all clean help install package test ctypes numpy pathlib""".split()
)
# Of Kotlin, less those of C.
KOTLIN_WORDS = frozenset(
    "as fun in interface is null object package super typealias val when".split()
)
# Classes that the generated class uses by these names.
KOTLIN_CLASSES = frozenset(
    "Closeable ByteBuffer ByteOrder Int JvmStatic Long String System".split()
)
LONGEST = 48
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def identifier(text: str) -> str:
    """Return `text` as an identifier of C and C++: what none may hold becomes an underscore."""
    found = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:LONGEST]
    if not found or found[0].isdigit():
        found = f"t{found}"
    return f"{found}_" if found in RESERVED else found


def class_name(name: str) -> str:
    """Return the name of a bundle's class in Java and Kotlin: ``mobilenet-v2`` is MobilenetV2."""
    found = "".join(word[:1].upper() + word[1:] for word in identifier(name).split("_"))
    return f"{found}Model" if found in KOTLIN_CLASSES else found


def kotlin_name(field: str) -> str:
    """Return a name of C as one of a property in Kotlin."""
    if field == "Class":
        return "Class_"  # getClass() is every object's own
    return f"`{field}`" if field in KOTLIN_WORDS else field


def distinct_identifiers(texts: Iterable[str]) -> list[str]:
    """Return an identifier for each text, no two the same, not even in capitals."""
    taken: set[str] = set()
    found = []
    for text in texts:
        name = base = identifier(text)
        number = 2
        while name.upper() in taken:
            name = f"{base}_{number}"
            number += 1
        taken.add(name.upper())
        found.append(name)
    return found


def check_bundle_name(name: str) -> str:
    """Return `name` where files and symbols may begin with it.

    Raises
    ------
    ModelError
        It holds something else than letters, digits, hyphens and underscores, is a word of C, or
        stands for a file or target of others.
    """
    is_plain = _NAME.fullmatch(name) is not None and len(name) <= LONGEST
    if is_plain and identifier(name).lower() in TAKEN:
        raise ModelError(
            "name of the bundle",
            expected="one that no header, library or target of others has",
            found=repr(name),
            next_step=f"Give another (--bundle-name, name=), such as {name}-model.",
        )
    if not is_plain or name in RESERVED:
        raise ModelError(
            "name of the bundle",
            expected=f"a letter, then letters, digits, hyphens and underscores, {LONGEST} at most",
            found=repr(name),
            next_step="Give another (--bundle-name, name=).",
        )
    return name
