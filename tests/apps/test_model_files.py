"""A model's file is known by its bytes, and by those of the files that belong to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_fusionx.apps.model_files import check_same, digest_of
from tvm_fusionx.errors import ModelError


def test_a_digest_is_of_all_bytes(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(bytes(3 << 20))
    (tmp_path / "other").write_bytes(b"weights")
    alone = digest_of(tmp_path / "one")
    assert digest_of(str(tmp_path / "one")) == alone
    together = digest_of(tmp_path / "one", others=[tmp_path / "other"])
    assert together != alone
    (tmp_path / "other").write_bytes(b"Weights")
    assert digest_of(tmp_path / "one", others=[tmp_path / "other"]) != together


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="expected a GGUF file; found no such file"):
        digest_of(tmp_path / "none")
    with pytest.raises(ModelError, match="expected an ONNX file; found something else"):
        digest_of(tmp_path, "an ONNX file", "Check the path.")


def test_a_file_that_was_replaced_is_told(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"one")
    digest = digest_of(tmp_path / "one")
    check_same(tmp_path / "one", digest)
    (tmp_path / "one").write_bytes(b"two")
    with pytest.raises(ModelError, match="the file was replaced meanwhile"):
        check_same(tmp_path / "one", digest)
