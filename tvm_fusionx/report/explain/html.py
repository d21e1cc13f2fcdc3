"""One page, one file, no network: how a report looks in a browser."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from tvm_fusionx.output_file import new_file
from tvm_fusionx.report.explain.legend import (
    FREE_RESHAPE,
    mapping_type_sentences,
    reason_sentences,
)

# Names of nodes are paths without a space; lines may end behind these.
MAY_BREAK_BEHIND = re.compile(r"(?<=[/_.#:])(?=[^/_.#:\s])")


@dataclass(frozen=True)
class Section:
    """A titled part of a page: a table, a PNG picture, or both.

    Attributes
    ----------
    title
        Heading.
    header, rows
        The table's column names and its cells, as text.
    picture
        The bytes of a PNG file.
    note
        A sentence below.
    """

    title: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    picture: bytes = b""
    note: str = ""

    @property
    def picture_address(self) -> str:
        """The picture as a ``data:`` address, or nothing."""
        if not self.picture:
            return ""
        return "data:image/png;base64," + base64.b64encode(self.picture).decode("ascii")


def render_page(
    report: Mapping[str, Any], drawing: Mapping[str, Any], sections: Sequence[Section] = ()
) -> str:
    """Return the page of a fusion report.

    Parameters
    ----------
    report
        ``Report.to_json()``.
    drawing
        What is drawn of it: ``drawing_of(blocks, edges)``.
    sections
        More to show above the blocks.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tvm_fusionx.report.explain", "templates"),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    sentences = {"types": mapping_type_sentences(), "reasons": reason_sentences()}
    template = environment.get_template("explain.html")
    return template.render(
        report=report,
        sections=sections,
        sentences=sentences,
        free_reshape=FREE_RESHAPE,
        data=_for_script({"report": report, "drawing": drawing, "sentences": sentences}),
    )


def breakable(text: str) -> Markup:
    """Return a text whose lines may end inside of long names, where a part of the name ends."""
    return Markup("<wbr>").join(escape(part) for part in MAY_BREAK_BEHIND.split(text))


def save_page(
    path: str | Path,
    report: Mapping[str, Any],
    drawing: Mapping[str, Any],
    sections: Sequence[Section] = (),
) -> None:
    """Write :func:`render_page`'s page to `path`; a reader sees the old page or the whole new one.

    Raises
    ------
    OutputFileError
        The file cannot be written.
    """
    text = render_page(report, drawing, sections)
    with new_file(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def _for_script(data: Any) -> str:
    """Return JSON that no name inside it can use to end the ``script`` element it stands in."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
