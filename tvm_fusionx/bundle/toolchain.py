"""From objects and generated C to one object whose other names are hidden, and to libraries.

What is needed is a C compiler and the binary tools that it names. Kernels reach the few functions
that they call through pointers that TVM leaves weak; the generated code defines them. Everything is
linked into one object, in which all but the interface becomes local: several bundles link into one
program, whatever their kernels are called.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_fusionx.devices import Device
from tvm_fusionx.devices.android_link import check_for_android, link_with_lld
from tvm_fusionx.devices.linking import ANDROID_OPTIONS, NDK_VARIABLE
from tvm_fusionx.devices.run_linker import run_linker
from tvm_fusionx.errors import LinkError, MissingDependencyError

# The pointers that the generated code defines.
OFFERED = frozenset(
    {
        "__TVMAPISetLastError",
        "__TVMBackendParallelLaunch",
        "__TVMBackendAllocWorkspace",
        "__TVMBackendFreeWorkspace",
    }
)
TVM_PREFIXES = ("__TVM", "TVM")
COMPILERS = ("cc", "gcc", "clang")
# Of which a library names those that it needs.
LIBRARIES = ("-lm", "-ldl", "-lpthread")
C_OPTIONS = ("-O2", "-fPIC", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-Wall")


@dataclass(frozen=True)
class Toolchain:
    """A C compiler, for this machine or another, and the tools that go with it."""

    compiler: str

    @classmethod
    def find(cls, compiler: str | None = None) -> Toolchain:
        """Return the tools of `compiler`, or of the first that this machine has.

        Raises
        ------
        MissingDependencyError
            There is none.
        """
        for name in (compiler,) if compiler else COMPILERS:
            found = shutil.which(name)
            if found is not None:
                return cls(found)
        raise MissingDependencyError(
            "C compiler",
            expected=compiler or f"one of {', '.join(COMPILERS)}",
            found="none on the path",
            next_step="Install one (Debian: apt-get install gcc), or name another.",
        )

    def tool(self, name: str) -> str:
        """Return the path of a binary tool, ``objcopy`` or another, of this compiler's target."""
        asked = subprocess.run(
            [self.compiler, f"-print-prog-name={name}"], capture_output=True, text=True, check=False
        )
        beside = Path(self.compiler).with_name(f"llvm-{name}")
        for each in (asked.stdout.strip(), str(beside)):
            found = shutil.which(each) if each else None
            if found is not None:
                return found
        raise MissingDependencyError(
            f"{name} of {Path(self.compiler).name}",
            expected="the binary tools of the compiler's target",
            found=f"no {name}",
            next_step="Install them (Debian: apt-get install binutils), or name another compiler.",
        )

    def compile(self, source: Path, output: Path, headers: Sequence[Path] = ()) -> Path:
        """Compile C or assembly, by its suffix, into an object."""
        is_assembly = source.suffix == ".s"
        language = ["assembler"] if is_assembly else ["c", "-std=gnu11", *C_OPTIONS]
        language += [f"-I{folder}" for folder in headers]
        words = [self.compiler, "-x", *language, "-c", str(source), "-o", str(output)]
        run_linker(words, source.name)
        return output

    def together(self, objects: Sequence[Path], output: Path, kept: Sequence[str]) -> Path:
        """Link objects into one of which only the symbols `kept` can be seen."""
        whole = output.with_suffix(".whole.o")
        words = [self.compiler, "-r", "-nostdlib", "-o", str(whole), *map(str, objects)]
        run_linker(words, output.name)
        listed = output.with_suffix(".symbols")
        listed.write_text("".join(f"{name}\n" for name in kept), encoding="ascii")
        words = [self.tool("objcopy"), f"--keep-global-symbols={listed}", str(whole), str(output)]
        run_linker(words, output.name)
        return output

    def archive(self, member: Path, output: Path) -> Path:
        """Make a static library; equal objects give equal bytes."""
        run_linker([self.tool("ar"), "rcsD", str(output), str(member)], output.name)
        return output

    def share(self, member: Path, output: Path) -> Path:
        """Make a shared library that needs nothing but libc and libm."""
        words = [self.compiler, "-shared", "-o", str(output), str(member)]
        # Its calls of itself must not end in another bundle of its name that a program has loaded.
        words += ["-Wl,-Bsymbolic", "-Wl,--as-needed", "-Wl,-z,defs", "-Wl,-z,noexecstack"]
        words += LIBRARIES
        run_linker([*words, f"-Wl,-soname,{output.name}"], output.name)
        return output

    def check_kernels(self, kernels: Sequence[Path]) -> None:
        """Make sure that kernels call nothing of TVM but what the generated code defines.

        Raises
        ------
        LinkError
            They call more, as kernels of extern operators do.
        """
        for path in kernels:
            listed = subprocess.run(
                [self.tool("nm"), "--format=posix", str(path)],
                capture_output=True,
                text=True,
                check=False,
            )
            names = {line.split()[0] for line in listed.stdout.splitlines() if line.split()}
            missing = sorted(
                name for name in names if name.startswith(TVM_PREFIXES) and name not in OFFERED
            )
            if missing:
                raise LinkError(
                    "kernels of the bundle",
                    expected="code that needs nothing of TVM's runtime",
                    found=f"calls of {', '.join(missing)}",
                    next_step="The model has an operator that TVM serves by a function of its own "
                    "runtime, such as a sort; run it by TVM's executor.",
                )


class AndroidToolchain(Toolchain):
    """For Android: the NDK's compiler, or one for Linux on the same processor and ``ld.lld``.

    What is compiled uses a few calls of the system whose numbers Linux and Android share; what the
    library needs is compared with what bionic offers.
    """

    def share(self, member: Path, output: Path) -> Path:
        """Make a shared library that Android loads."""
        if os.environ.get(NDK_VARIABLE):
            words = [self.compiler, "-o", str(output), str(member), *ANDROID_OPTIONS]
            run_linker([*words, f"-Wl,-soname,{output.name}"], output.name)
        else:
            link_with_lld(str(output), [str(member)])
        check_for_android(output)
        return output


# Of Debian's package, for Android where there is no NDK.
LINUX_ON_ARM = "aarch64-linux-gnu-gcc"


def find_toolchain(compiler: str | None = None, device: Device | None = None) -> Toolchain:
    """Return the tools for a device, or for this machine.

    Parameters
    ----------
    compiler
        Command of the C compiler; what the device names, or this machine's, by default.

    Raises
    ------
    MissingDependencyError
        There is no such compiler.
    """
    if device is None or device.linker == "host":
        return Toolchain.find(compiler)
    if device.linker == "gnu":
        return Toolchain.find(compiler or device.compiler)
    return AndroidToolchain.find(compiler or os.environ.get(NDK_VARIABLE) or LINUX_ON_ARM)
