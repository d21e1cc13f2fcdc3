from __future__ import annotations

from pathlib import Path

import pytest

from tests.bundle.small_bundles import need, run
from tvm_fusionx.bundle.toolchain import Toolchain
from tvm_fusionx.errors import LinkError, MissingDependencyError


def test_a_compiler_that_is_not_there_is_named() -> None:
    with pytest.raises(MissingDependencyError, match="expected no-such-gcc; found none"):
        Toolchain.find("no-such-gcc")


def test_a_tool_that_is_not_there_is_named() -> None:
    need("gcc")
    with pytest.raises(MissingDependencyError, match="no-such-tool"):
        Toolchain.find("gcc").tool("no-such-tool")


def test_names_that_are_not_kept_are_hidden(tmp_path: Path) -> None:
    need("gcc")
    tools = Toolchain.find("gcc")
    source = tmp_path / "a.c"
    source.write_text("int inner(void) { return 1; }\nint outer(void) { return inner(); }\n")
    made = tools.together([tools.compile(source, tmp_path / "a1.o")], tmp_path / "a.o", ["outer"])
    named = run(["nm", "-g", "--defined-only", "--format=posix", made])
    assert [line.split()[0] for line in named.splitlines()] == ["outer"]


def test_what_libc_lacks_is_an_error(tmp_path: Path) -> None:
    need("gcc")
    tools = Toolchain.find("gcc")
    source = tmp_path / "a.c"
    source.write_text("int missing(void);\nint outer(void) { return missing(); }\n")
    made = tools.compile(source, tmp_path / "a.o")
    with pytest.raises(LinkError, match=r"linking for a\.so by gcc.*outer"):
        tools.share(made, tmp_path / "a.so")
