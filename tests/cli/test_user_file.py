from __future__ import annotations

from pathlib import Path

import pytest

from tvm_fusionx.cli.user_file import reporting, run_file
from tvm_fusionx.errors import InputError, SpaceError


def test_a_file_is_run(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def twice(x):\n    return 2 * x\n")
    assert run_file(tmp_path / "f.py").twice(3) == 6


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [("f.py", None, "no file"), ("f.py", "1 / 0", "ZeroDivisionError"), ("f.txt", "", "no Python")],
)
def test_a_file_that_is_none_is_told(
    tmp_path: Path, name: str, text: str | None, words: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=words):
        run_file(tmp_path / name)


def test_a_file_that_ends_the_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("import sys\nsys.exit(7)\n")
    with pytest.raises(ValueError, match="SystemExit: 7"):
        run_file(tmp_path / "f.py")


def test_errors_of_a_function_are_its_own() -> None:
    def fails(error: BaseException) -> None:
        raise error

    call = reporting(fails, "train_step of t.py")
    for error in (KeyError("name"), SystemExit(3), ValueError("two\nlines")):
        with pytest.raises(InputError, match=r"train_step of t\.py.*" + type(error).__name__):
            call(error)
    for error in (KeyboardInterrupt(), SpaceError("a space", expected="", found="", next_step="")):
        with pytest.raises(type(error)):
            call(error)
    assert reporting(max, "max")(1, 2) == 2
