"""Link for Android without its development kit: ``ld.lld`` against stubs of bionic's libraries.

A model's library needs a few functions of libm and libc and nothing else, so two stubs that offer
their names are all that is missing of the kit. What the result needs is checked afterwards against
the same names: a symbol that bionic lacks would be found out only by the phone's loader.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tvm_fusionx.devices.elf import read_elf
from tvm_fusionx.devices.run_linker import run_linker
from tvm_fusionx.errors import LinkError, MissingDependencyError

# Android 15 and later may have pages of 16 KiB; a library aligned to less does not load there.
PAGE_BYTES = 16384
LINKER = "ld.lld"
DEBIAN_PACKAGE = "lld"
EMULATION = "aarch64linux"
SYMBOLS = Path(__file__).resolve().parent / "bionic_symbols.json"


@cache
def bionic_symbols() -> dict[str, tuple[str, ...]]:
    """Return what each of bionic's libraries offers, as far as compiled models may need it."""
    table = json.loads(SYMBOLS.read_text(encoding="utf-8"))["libraries"]
    return {str(library): tuple(names) for library, names in table.items()}


def link_with_lld(output: str, objects: Sequence[str]) -> None:
    """Link objects for aarch64 into a library for Android at `output`.

    Raises
    ------
    MissingDependencyError
        There is no ``ld.lld``.
    LinkError
        It fails.
    """
    linker = shutil.which(LINKER)
    if linker is None:
        raise MissingDependencyError(
            "linking for Android",
            expected=f"{LINKER}, or an NDK that TVM_NDK_CC names",
            found="neither on the path",
            next_step=f"Install it (Debian: apt-get install {DEBIAN_PACKAGE}).",
        )
    with tempfile.TemporaryDirectory(prefix="fusionx-stubs-") as folder:
        stubs = [
            _write_stub(linker, Path(folder), library, names)
            for library, names in bionic_symbols().items()
        ]
        words = [linker, "-m", EMULATION, "-shared", f"-zmax-page-size={PAGE_BYTES}"]
        words += ["--hash-style=both", "--as-needed", "-o", output, *objects, *map(str, stubs)]
        run_linker(words, "Android")


def _write_stub(linker: str, folder: Path, library: str, names: Sequence[str]) -> Path:
    """Make a library that offers `names`; the linker wants one object beside the script."""
    empty = folder / "empty"
    empty.touch()
    script = folder / f"{library}.ld"
    script.write_text("".join(f"{name} = 0;\n" for name in names), encoding="ascii")
    stub = folder / library
    words = [linker, "-m", EMULATION, "-shared", "-soname", library, "-o", str(stub), str(script)]
    run_linker([*words, "--format=binary", str(empty)], f"a stub of {library}")
    return stub


def check_for_android(path: str | Path) -> None:
    """Make sure that Android can load the library at `path`.

    Raises
    ------
    LinkError
        It is for another processor, needs a symbol or library that bionic lacks, or is aligned for
        smaller pages.
    """
    library = read_elf(path)
    offered = {name for names in bionic_symbols().values() for name in names}
    extra = sorted(library.undefined - offered)
    strange = sorted(set(library.needed) - set(bionic_symbols()) - NDK_LIBRARIES)
    if library.machine != "aarch64":
        expected, found = "code for aarch64", f"code for {library.machine}"
    elif strange:
        expected, found = f"no libraries but {', '.join(bionic_symbols())}", ", ".join(strange)
    elif extra:
        expected, found = "only symbols that bionic offers", f"it needs {', '.join(extra)}"
    elif library.page_bytes < PAGE_BYTES:
        expected = f"segments aligned to {PAGE_BYTES} bytes, the pages of Android 15"
        found = f"{library.page_bytes} bytes"
    else:
        return
    raise LinkError(
        f"library {Path(path).name} for Android",
        expected=expected,
        found=found,
        next_step=f"Build it for Android's target; a symbol that bionic has since may be added to "
        f"{SYMBOLS.name}.",
    )


# What the NDK's compiler names without need; every Android has them.
NDK_LIBRARIES = frozenset({"libdl.so", "liblog.so"})
