"""The page of processors is what the table of rates gives."""

from __future__ import annotations

from tests.benchmarks.scripts import script
from tvm_fusionx.processors.rates import core_names, facts_of, meanings

processors = script("processors_page")


def test_the_page_is_made_from_the_table() -> None:
    written = processors.PAGE.read_text(encoding="utf-8")
    assert written == processors.page(), "run `python benchmarks/processors_page.py`"


def test_every_core_has_a_line_that_tells_inherited_numbers_from_its_own() -> None:
    lines = {line.split("`")[1]: line for line in processors.page().splitlines() if "| `" in line}
    for core in core_names():
        cells = [cell.strip() for cell in lines[core].split("|")[4:-1]]
        inherited = [cell.startswith("(") for cell in cells]
        assert inherited == [facts_of(core)[name].row != core for name in meanings()]
