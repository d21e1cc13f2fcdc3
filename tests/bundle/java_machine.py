"""Where this machine has Java, and how its glue is compiled."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.bundle.small_bundles import STRICT, run
from tvm_fusionx.bundle.export import POOL_FOLDER


def java() -> tuple[str, list[str]]:
    """Return the program ``java`` and the options that find ``jni.h``; or skip."""
    found = shutil.which("java")
    program = Path(found or "/usr/lib/jvm/default-java/bin/java").resolve()
    headers = program.parent.parent / "include"
    if not (headers / "jni.h").is_file():
        pytest.skip("there is no Java with jni.h (Debian: openjdk-17-jdk-headless)")
    return str(program), [f"-I{headers}", f"-I{headers / 'linux'}"]


def glue(bundle: Path, output: Path, compiler: str = "gcc", more: tuple[str, ...] = ()) -> Path:
    """Compile a bundle's glue into an object."""
    _, headers = java()
    headers += [f"-I{bundle / POOL_FOLDER}"]
    words = [compiler, "-std=c11", "-D_DEFAULT_SOURCE", "-fPIC", *STRICT, *headers, *more]
    run([*words, "-c", bundle / f"{bundle.name}_jni.c", "-o", output])
    return output


def jni_library(bundle: Path, folder: Path) -> Path:
    """Link what a bundle's class loads into `folder`: glue, bundle, a pool where it has one."""
    objects = [glue(bundle, folder / "glue.o")]
    if (bundle / POOL_FOLDER).is_dir():
        objects.append(folder / "pool.o")
        run(["g++", "-O2", "-fPIC", "-c", bundle / POOL_FOLDER / "pool.cc", "-o", objects[-1]])
    library = folder / f"lib{bundle.name}_jni.so"
    run(["gcc", "-shared", *objects, bundle / f"lib{bundle.name}.a", "-lm", "-o", library])
    return library
