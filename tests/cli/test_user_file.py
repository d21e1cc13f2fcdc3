from __future__ import annotations

from pathlib import Path

import pytest

from tvm_fusionx.cli.user_file import run_file


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
