"""What the planner decided about a model, as plain data: blocks, edges, rewrites and findings."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tvm_fusionx.errors import InputError
from tvm_fusionx.fusion import Plan
from tvm_fusionx.output_file import new_file
from tvm_fusionx.report.explain.answers import Answer, between
from tvm_fusionx.report.explain.drawing import drawing_of, grouped, kernels_of
from tvm_fusionx.report.explain.entries import (
    BlockEntry,
    EdgeEntry,
    Finding,
    ProductEntry,
    Summary,
)
from tvm_fusionx.report.explain.html import Section, save_page
from tvm_fusionx.report.explain.legend import FREE_RESHAPE
from tvm_fusionx.report.profile.profile import ProfileReport

SCHEMA = "tvm_fusionx.explain/1"

# A table of this many reasons or findings still fits on a screen.
ROWS_IN_TEXT = 12
BLOCKS_IN_TEXT = 20

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
    run_seconds: float | None = None
    """Time of a whole run, where it was measured."""
    products: tuple[ProductEntry, ...] = ()
    """Products of quantized numbers, and why some are computed in floats."""

    @property
    def steps(self) -> tuple[tuple[str, ...], ...]:
        """Every block that there was on the way, in order, as labels of its calls.

        Growth joins two neighbours at a time: each step is what one such join made. Nothing where
        no static graph was planned.
        """
        return () if self.source is None else self.source.steps

    def reasons(self) -> list[dict[str, Any]]:
        """Return every reason an edge was refused for, most bytes first; free reshapes last.

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
            for reason, size in sorted(
                sizes.items(), key=lambda item: (item[0] == FREE_RESHAPE, -item[1])
            )
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
            "run_seconds": self.run_seconds,
            "products": [_plain(product) for product in self.products],
        }

    def with_title(self, title: str) -> Report:
        """Return the same report under another title, such as the model's name."""
        return replace(self, title=title)

    def with_profile(self, profile: ProfileReport) -> Report:
        """Return the report with the time of each block.

        Parameters
        ----------
        profile
            What :func:`tvm_fusionx.profile` returned for a build of the same module with the same
            options.

        Raises
        ------
        InputError
            It has other kernels than this plan has blocks.
        """
        times = {kernel.name: kernel for kernel in profile.kernels}
        wanted = [block.name for block in kernels_of(self.blocks)]
        strange = sorted(set(times) ^ set(wanted))
        if strange:
            raise InputError(
                "profile",
                expected=f"a time for each of the plan's {len(wanted)} kernels",
                found=f"{len(times)}, and {strange[0]} is in one of both only",
                next_step="Profile a build of the same module, with the same options and target.",
            )
        blocks = tuple(
            replace(block, seconds=times[block.name].seconds, share=times[block.name].share)
            if block.name in times
            else block
            for block in self.blocks
        )
        return replace(self, blocks=blocks, run_seconds=profile.end_to_end_seconds)

    def text(self) -> str:
        """Return the report as plain text: numbers, reasons, findings, the heaviest blocks."""
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
        lines += self._products_in_text()
        reasons = [row for row in self.reasons() if row["reason"] != FREE_RESHAPE]
        if reasons:
            lines += ["", "Edges not fused, by reason"]
            lines += [
                f"  {row['edges']:5}  {readable_bytes(row['bytes']):>10}  {row['reason']}"
                for row in reasons[:ROWS_IN_TEXT]
            ]
        if self.findings:
            lines += ["", "Findings"]
            lines += [f"  {finding.kind}: {finding.message}" for finding in self.findings]
        return "\n".join(lines + self._blocks_in_text())

    def _products_in_text(self) -> list[str]:
        """Return how many products multiply integers, and why the others do not."""
        if not self.products:
            return []
        floats = [product for product in self.products if product.reason]
        count = f"{len(self.products) - len(floats)} of {len(self.products)}"
        lines = ["", f"Quantized products: {count} multiply integers"]
        for product in floats[:ROWS_IN_TEXT]:
            lines.append(f"  {product.name or product.operator} in floats: {product.reason}")
        more = len(floats) - ROWS_IN_TEXT
        return [*lines, f"  and {more} more; the JSON has them all"] if more > 0 else lines

    def _blocks_in_text(self) -> list[str]:
        """Return a line for each group of equal blocks: the slowest, or the largest, first."""
        kernels = kernels_of(self.blocks)
        groups = [[kernels[place] for place in places] for places in grouped(kernels)]
        is_measured = self.run_seconds is not None

        def share(group: list[BlockEntry]) -> float:
            return sum(block.share or 0.0 for block in group)

        groups.sort(key=lambda group: (-share(group), -len(group[0].operators)))
        shown = groups[:BLOCKS_IN_TEXT]
        what = "Slowest" if is_measured else "Largest"
        lines = [
            "",
            f"{what} blocks ({sum(map(len, shown))} of {len(kernels)}; equal ones together)",
        ]
        for group in shown:
            block = group[0]
            times = f"x{len(group)}" if len(group) > 1 else ""
            is_known = is_measured and any(block.share is not None for block in group)
            time = f"  {share(group):6.1%} of time" if is_known else ""
            lines.append(
                f"  {times:>5}  {len(block.operators):4} ops  {block.mapping_type:13}{time}"
                f"  saves {readable_bytes(block.bytes_saved):>9}  {block.name}"
            )
        return lines + self._templates_in_text([group[0] for group in shown])

    @staticmethod
    def _templates_in_text(blocks: list[BlockEntry]) -> list[str]:
        """Return what schedules each block, and why each template before it does not."""
        lines = []
        for block in blocks:
            if block.template is not None:
                lines += ["", f"{block.name}: {block.template}"]
                lines += [f"  not {line}" for line in block.passed_over()]
        return lines

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
        save_page(path, self.to_json(), drawing_of(self.blocks, self.edges), sections)


def readable_bytes(size: int) -> str:
    """Return a size such as ``"1.5 MiB"``."""
    value = float(size)
    for unit in BYTE_UNITS[:-1]:
        if value < KIBI:
            return f"{value:.0f} {unit}" if unit == BYTE_UNITS[0] else f"{value:.1f} {unit}"
        value /= KIBI
    return f"{value:.1f} {BYTE_UNITS[-1]}"


def _plain(entry: BlockEntry | EdgeEntry | Finding | ProductEntry) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(entry).items()
    }
