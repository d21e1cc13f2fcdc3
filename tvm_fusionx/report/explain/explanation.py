"""What the planner decided about a model, as plain data: blocks, edges, rewrites and findings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tvm_fusionx.fusion import Plan
from tvm_fusionx.output_file import new_file
from tvm_fusionx.report.explain.answers import Answer, between
from tvm_fusionx.report.explain.entries import BlockEntry, EdgeEntry, Finding, Summary
from tvm_fusionx.report.explain.html import Section, save_page
from tvm_fusionx.report.explain.layered_drawing import folded, layered_positions

SCHEMA = "tvm_fusionx.explain/1"

# A table of this many reasons or findings still fits on a screen.
ROWS_IN_TEXT = 12
BLOCKS_IN_TEXT = 20

# A block is drawn 214 pixels wide and 74 high, in a window about as wide as it is high.
ROWS_PER_COLUMN = 214 / 74

KIBI = 1024
BYTE_UNITS = ("B", "KiB", "MiB", "GiB")


@dataclass(frozen=True)
class Report:
    """Why a model was fused the way it was: returned by :func:`tvm_fusionx.explain`."""

    target: str
    summary: Summary
    blocks: tuple[BlockEntry, ...]
    edges: tuple[EdgeEntry, ...] = ()
    rewrites: tuple[tuple[str, int], ...] = ()
    findings: tuple[Finding, ...] = ()
    plan: str = ""
    title: str = "Fusion report"
    versions: dict[str, str] = field(default_factory=dict)
    tir: tuple[str, ...] = field(default=(), repr=False)
    source: Plan | None = field(default=None, repr=False, compare=False)
    """The plan itself, for exports; not part of the JSON."""

    def reasons(self) -> list[dict[str, Any]]:
        """Return every reason an edge was refused for, most bytes first.

        Returns
        -------
        list of dict
            With ``reason``, ``edges`` (how many), ``bytes`` (of their values) and ``example``.
        """
        edges = Counter[str]()
        sizes = Counter[str]()
        examples: dict[str, str] = {}
        for edge in self.edges:
            if edge.fused:
                continue
            edges[edge.reason] += 1
            sizes[edge.reason] += edge.bytes
            examples.setdefault(edge.reason, f"{edge.producer} -> {edge.consumer}: {edge.detail}")
        return [
            {"reason": reason, "edges": edges[reason], "bytes": size, "example": examples[reason]}
            for reason, size in sizes.most_common()
        ]

    def between(self, first: str, second: str) -> Answer:
        """Tell whether two nodes are in one block, and otherwise what keeps them apart.

        Parameters
        ----------
        first, second
            Names of nodes of the model, of calls as on the edges, or of blocks.

        Raises
        ------
        InputError
            There is no such name.
        """
        # Answers are read from reports, so their module imports this one.
        return between(self.blocks, self.edges, first, second)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data; the keys are those of the dataclasses of this module."""
        return {
            "schema": SCHEMA,
            "title": self.title,
            "target": self.target,
            "versions": dict(self.versions),
            "summary": asdict(self.summary),
            "plan": self.plan,
            "blocks": [_plain(block) for block in self.blocks],
            "edges": [_plain(edge) for edge in self.edges],
            "reasons": self.reasons(),
            "rewrites": [{"rule": rule, "times": times} for rule, times in self.rewrites],
            "findings": [_plain(finding) for finding in self.findings],
            "tir": list(self.tir),
        }

    def with_title(self, title: str) -> Report:
        """Return the same report under another title, such as the model's name."""
        return replace(self, title=title)

    def text(self) -> str:
        """Return the report as plain text: numbers, reasons, findings and the largest blocks."""
        summary = self.summary
        lines = [
            f"{self.title} for {self.target}",
            f"  operators           {summary.operators}",
            f"  kernels             {summary.kernels} (unfused {summary.kernels_unfused})",
            f"  intermediate bytes  {readable_bytes(summary.intermediate_bytes)}"
            f" (unfused {readable_bytes(summary.intermediate_bytes_unfused)}, saved"
            f" {readable_bytes(summary.bytes_saved)})",
        ]
        if self.plan:
            lines.append(f"  optimal plan        {self.plan}")
        if self.rewrites:
            lines += ["", "Rewritten"]
            lines += [f"  {times:5}  {rule}" for rule, times in self.rewrites]
        reasons = self.reasons()
        if reasons:
            lines += ["", "Edges not fused, by reason"]
            lines += [
                f"  {row['edges']:5}  {readable_bytes(row['bytes']):>10}  {row['reason']}"
                for row in reasons[:ROWS_IN_TEXT]
            ]
        if self.findings:
            lines += ["", "Findings"]
            lines += [f"  {finding.kind}: {finding.message}" for finding in self.findings]
        largest = sorted(self.blocks, key=lambda block: -len(block.operators))[:BLOCKS_IN_TEXT]
        lines += ["", f"Largest blocks ({len(largest)} of {len(self.blocks)})"]
        lines += [
            f"  {len(block.operators):4} ops  {block.mapping_type:13}"
            f"  saves {readable_bytes(block.bytes_saved):>9}  {block.name}"
            for block in largest
        ]
        return "\n".join(lines)

    def save_json(self, path: str | Path) -> None:
        """Write :meth:`to_json` to a file.

        Raises
        ------
        OutputFileError
            The file cannot be written.
        """
        with new_file(path) as scratch:
            scratch.write_text(json.dumps(self.to_json(), indent=1), encoding="utf-8")

    def save_html(self, path: str | Path, sections: tuple[Section, ...] = ()) -> None:
        """Write the report as one page that needs no network and no other file.

        Parameters
        ----------
        path
            The page.
        sections
            Tables and pictures to show between the numbers and the blocks.

        Raises
        ------
        OutputFileError
            The file cannot be written.
        """
        save_page(path, self.to_json(), self._drawing(), sections)

    def _drawing(self) -> dict[str, Any]:
        """Return where blocks and operators are drawn and what links them, by index."""
        names = {block.name: number for number, block in enumerate(self.blocks)}
        border = ((edge.producer_block, edge.consumer_block) for edge in self.edges)
        calls: dict[str, int] = {}
        owners: list[int] = []
        for number, block in enumerate(self.blocks):
            for label in block.labels:
                calls[label] = len(owners)
                owners.append(number)
        inner = ((edge.producer, edge.consumer) for edge in self.edges)
        return {
            **_placed(len(self.blocks), names, border),
            "operators": {**_placed(len(owners), calls, inner), "owners": owners},
        }


def _placed(
    count: int, index: Mapping[str, int], pairs: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    links = sorted(
        {
            (index[producer], index[consumer])
            for producer, consumer in pairs
            if producer != consumer and producer in index and consumer in index
        }
    )
    return {"positions": folded(layered_positions(count, links), ROWS_PER_COLUMN), "links": links}


def readable_bytes(size: int) -> str:
    """Return a size such as ``"1.5 MiB"``."""
    value = float(size)
    for unit in BYTE_UNITS[:-1]:
        if value < KIBI:
            return f"{value:.0f} {unit}" if unit == BYTE_UNITS[0] else f"{value:.1f} {unit}"
        value /= KIBI
    return f"{value:.1f} {BYTE_UNITS[-1]}"


def _plain(entry: BlockEntry | EdgeEntry | Finding) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(entry).items()
    }
