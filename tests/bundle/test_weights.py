from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import tvm

from tvm_fusionx.bundle.weights import FORMAT, HEAD, MAGIC, laid_out


def _arrays() -> dict[str, tvm.nd.NDArray]:
    rows = np.arange(5, dtype="float32")
    return {"a": tvm.nd.array(rows), "b": tvm.nd.array(rows + 1), "again": tvm.nd.array(rows)}


def test_constants_are_aligned_and_equal_ones_lie_there_once() -> None:
    stored = laid_out(_arrays())
    assert stored.offsets == {"a": 0, "b": 64, "again": 0}
    assert len(stored.data) == 128
    assert stored.data[64:84] == (np.arange(5, dtype="float32") + 1).tobytes()


def test_a_file_begins_with_its_version(tmp_path: Path) -> None:
    stored = laid_out(_arrays())
    stored.write(tmp_path / "w")
    content = (tmp_path / "w").read_bytes()
    digest = hashlib.sha256(stored.data).digest()
    assert HEAD.unpack(content[:64]) == (MAGIC, FORMAT, 128, stored.checksum, digest)
    assert content[64:] == stored.data
    assert stored.file_bytes == len(content)


def test_the_checksum_tells_places() -> None:
    rows = np.arange(16, dtype="uint64")
    turned = {"a": tvm.nd.array(rows[::-1].copy())}
    assert laid_out({"a": tvm.nd.array(rows)}).checksum == sum(n * (2 * n + 1) for n in range(16))
    assert laid_out(turned).checksum != laid_out({"a": tvm.nd.array(rows)}).checksum
    assert laid_out({}).checksum == 0
