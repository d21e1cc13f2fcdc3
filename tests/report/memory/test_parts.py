from __future__ import annotations

from tests.build.test_memory import GRAPH, PARAMS
from tvm_fusionx.build.memory import memory_of
from tvm_fusionx.report.memory.parts import Part, parts_json, parts_lines
from tvm_fusionx.report.memory.table import memory_lines

PLANNED = memory_of(GRAPH, PARAMS, {})
PART = Part("main_static_0", PLANNED, written=192)


def test_the_whole_is_told_as_it_is() -> None:
    assert parts_lines([Part("net", PLANNED)], None) == memory_lines(PLANNED)
    assert parts_json([Part("net", PLANNED)], None) == PLANNED.as_json()
    assert parts_lines([PART], None)[-1] == "a run wrote 192 bytes of the arena"


def test_parts_are_told_with_the_reason() -> None:
    lines = parts_lines([PART], "the data decides")
    assert lines[0].endswith("machine runs it: the data decides")
    assert lines[2:4] == ["", "main_static_0"]
    assert lines[4:] == PART.lines
    told = parts_json([PART], "the data decides")
    assert told["virtual_machine"] == "the data decides"
    assert told["parts"][0]["name"] == "main_static_0"
    assert told["parts"][0]["written_arena_bytes"] == 192


def test_no_part_is_told_too() -> None:
    assert parts_lines([], "why")[-1].endswith("alone: none")
