"""Names of a model as names of C."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tvm_fusionx.errors import ModelError

# Of C23 and C++20, and lower-case macros of C's headers.
RESERVED = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield
    decltype default delete do double dynamic_cast else enum explicit export extern false float for
    friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or
    or_eq private protected public register reinterpret_cast requires restrict return short signed
    sizeof static static_assert static_cast struct switch template this thread_local throw true try
    typedef typeid typename union unix linux unsigned using virtual void volatile wchar_t while xor
    xor_eq typeof typeof_unqual complex imaginary noreturn EOF I NULL errno""".split()
)
# Files and targets of a bundle's folder would be taken for those of others: headers of C, of POSIX
# and what C libraries include of their own, of our pool and of Java, libraries of the system, what
# CMake and Python call so.
TAKEN = frozenset(
    """assert complex ctype errno fcntl fenv float inttypes iso646 limits locale math setjmp signal
    stdalign stdarg stdatomic stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string
    strings tgmath threads time uchar unistd wchar wctype
    aio cpio dirent dlfcn fmtmsg fnmatch ftw glob grp iconv langinfo libgen libintl monetary mqueue
    ndbm netdb nl_types poll pwd regex sched search semaphore spawn stropts syslog tar termios trace
    ulimit utime utmpx wordexp
    alloca byteswap elf endian execinfo features getopt link malloc memory paths pty values wait
    cores group pool waiting fusionx_pool jni
    android atomic c crypt dl gcc log m pthread resolv rt stdc util z
    all clean depend edit_cache help install package package_source preinstall rebuild_cache test
    ctypes numpy os pathlib threading""".split()
)
# Endings with which a name would be another bundle's: the type NAME_memory_weights of a bundle
# NAME_memory is a function of NAME, and NAME_ERROR_ALIGNMENT of NAME_error a status of NAME.
ENDINGS = frozenset("builtin close error memory open set verify".split())
# Of Kotlin, less those of C.
KOTLIN_WORDS = frozenset(
    "as fun in interface is null object package super typealias val var when".split()
)
# Classes that the generated class uses by these names.
KOTLIN_CLASSES = frozenset(
    "ByteArray ByteBuffer ByteOrder Closeable Int JvmStatic Long String Synchronized System".split()
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
        It holds something else than letters, digits, hyphens and underscores, is a word of C,
        stands for a file or target of others, or for symbols of another bundle.
    """
    is_plain = _NAME.fullmatch(name) is not None and len(name) <= LONGEST
    *first, ending = identifier(name).lower().split("_")
    if is_plain and first and ending in ENDINGS:
        raise ModelError(
            "name of the bundle",
            expected="one whose symbols are no other bundle's",
            found=f"{name!r}, and {'_'.join(first)!r} has symbols that begin so",
            next_step=f"Give another (--bundle-name, name=), such as {name}-model.",
        )
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
