from __future__ import annotations

from pathlib import Path

import pytest

from tvm_fusionx.counting.trace import Block, Mapping, read_trace
from tvm_fusionx.errors import DeviceError

TEXT = """B 5500 3 d65f03c04e22cc20 64 0 128 0
M 5000 6000 1000 /lib/of a model.so
M 1000 2000 0 /bin/program
E
"""


def test_blocks_and_mappings_are_read(tmp_path: Path) -> None:
    file = tmp_path / "counts.txt"
    file.write_text(TEXT)
    trace = read_trace(file)
    assert trace.blocks == (Block(0x5500, 3, (0xD65F03C0, 0x4E22CC20), (64, 0, 128, 0)),)
    library = Mapping(0x5000, 0x6000, 0x1000, "/lib/of a model.so")
    assert trace.mapping_of(0x5500) == library
    assert trace.mapping_of(0x5FFF) == library
    assert trace.mapping_of(0x6000) is None
    assert trace.mapping_of(0x10) is None


@pytest.mark.parametrize("text", ["", TEXT[:-2], "X 1 2\nE\n", "B 1 2\nE\n"])
def test_a_file_that_is_not_whole_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "counts.txt"
    file.write_text(text)
    with pytest.raises(DeviceError, match="by hand"):
        read_trace(file)


def test_a_file_that_was_never_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="counts"):
        read_trace(tmp_path / "counts.txt")
