"""The blocks of a model that are far from their limit, as one file that tells no weight of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tvm

from tvm_fusionx.build.fused_build import FusedBuild
from tvm_fusionx.build.kernels import BLOCK_ATTRIBUTE, KernelGraph
from tvm_fusionx.build.library import build_versions
from tvm_fusionx.ecg.block_calls import is_block_call, post_order
from tvm_fusionx.errors import ReportFileError
from tvm_fusionx.output_file import new_file
from tvm_fusionx.records.device import processor_name
from tvm_fusionx.report.profile.limits import SLOW, SlowKernel, slow_kernels
from tvm_fusionx.report.profile.profile import MICROSECONDS, ProfileReport
from tvm_fusionx.report.slow import bounds
from tvm_fusionx.report.slow.block_json import NotTellableError, block_json
from tvm_fusionx.report.slow.fields import Fields, damaged
from tvm_fusionx.report.slow.read_block import read_block
from tvm_fusionx.schedules.lowering_log import LoweredBlock
from tvm_fusionx.schedules.template import Refusal
from tvm_fusionx.threads import threads_in_use

FORMAT = "tvm_fusionx slow blocks"
VERSION = 1

# Of a refusal; longer ones end in dots.
MOST_REASON = 300

_FOLDERS = re.compile(r"(?:/[\w.+@-]+)+/(?=[\w.+-])|[A-Za-z]:\\(?:[\w.+@ -]+\\)+")


@dataclass(frozen=True)
class SlowBlock:
    """One distinct block under a part of its limit.

    Attributes
    ----------
    block
        The block as :func:`tvm_fusionx.report.slow.block_json.block_json` tells it.
    count
        How many blocks of the model are this one.
    seconds, limit_seconds
        What the slowest of them takes, and what it would take at least.
    template, knobs
        The template that schedules it, and the values of its knobs.
    refusals
        Why each template that was tried before does not serve it.
    names
        Names of the block and of the model's nodes in it; empty where they were not asked for.
    """

    block: dict[str, Any]
    count: int
    seconds: float
    limit_seconds: float
    template: str
    knobs: Mapping[str, int] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def part_of_limit(self) -> float:
        """Return the limit over the time."""
        return self.limit_seconds / self.seconds if self.seconds else 0.0

    @property
    def operators(self) -> str:
        """Return the operators of the block in a line for people."""
        return "+".join(str(call["op"]) for call in self.block["calls"])


@dataclass(frozen=True)
class SlowReport:
    """What a user sends.

    Attributes
    ----------
    target, processor, threads, versions
        Where the times were taken.
    peak
        What that machine does at most: GFLOP/s and GB/s.
    below
        The part of the limit under which a block is slow.
    blocks
        The distinct slow blocks, the one that loses most first.
    left_out
        For each other slow block its time in seconds and why a report cannot hold it.
    """

    target: str
    processor: str
    threads: int
    versions: Mapping[str, str]
    peak: Mapping[str, float]
    below: float
    blocks: tuple[SlowBlock, ...]
    left_out: tuple[tuple[float, str], ...] = ()


def slow_report(
    build: FusedBuild,
    profiled: ProfileReport,
    target: tvm.target.Target,
    below: float = SLOW,
    names: bool = False,
) -> SlowReport:
    """Return the slow blocks of a build without its weights.

    Parameters
    ----------
    build
        A model of static shapes.
    profiled
        Its profile, with the machine's peak.
    target
        What it was built for.
    below
        The part of its limit under which a block is slow.
    names
        Whether the names of blocks and of the model's nodes are kept.
    """
    calls = {
        str(expr.op.attrs.get(BLOCK_ATTRIBUTE, "")): expr
        for expr in post_order(build.module["main"].body)
        if is_block_call(expr)
    }
    entries = {entry.name: entry for entry in build.log.entries}
    functions = {
        node.name: node.function
        for node in KernelGraph.from_json(build.library.get_graph_json()).kernels
    }
    found: dict[str, SlowBlock] = {}
    left_out: list[tuple[float, str]] = []
    for slow in slow_kernels(profiled, below):
        name = slow.kernel.name
        try:
            told = _told(calls.get(name), names)
        except (NotTellableError, ReportFileError) as error:
            left_out.append((slow.kernel.seconds, _scrubbed(str(error))))
            continue
        made = _slow_block(told, slow, entries.get(functions.get(name, "")), names)
        key = json.dumps([_nameless(told), made.template])
        if key in found:
            found[key] = _counted_again(found[key])
        elif len(found) < bounds.MOST_BLOCKS:
            found[key] = made
        else:
            left_out.append((slow.kernel.seconds, f"{bounds.MOST_BLOCKS} blocks lose more"))
    return SlowReport(
        target=str(target),
        processor=processor_name(),
        threads=threads_in_use(),
        versions=build_versions(),
        peak={} if profiled.peak is None else profiled.peak.to_json(),
        below=below,
        blocks=tuple(found.values()),
        left_out=tuple(left_out[: bounds.MOST_BLOCKS]),
    )


def write_slow_report(report: SlowReport, path: str | Path) -> None:
    """Write a report as JSON, whole or not at all.

    Raises
    ------
    OutputFileError
        The file cannot be written.
    """
    content = {
        "format": FORMAT,
        "version": VERSION,
        "target": report.target,
        "processor": report.processor,
        "threads": report.threads,
        "versions": dict(report.versions),
        "peak": dict(report.peak),
        "below": report.below,
        "blocks": [
            {
                "us": each.seconds * MICROSECONDS,
                "limit_us": each.limit_seconds * MICROSECONDS,
                "part_of_limit": each.part_of_limit,
                "count": each.count,
                "template": each.template,
                "knobs": dict(each.knobs),
                "refusals": [asdict(refusal) for refusal in each.refusals],
                "names": list(each.names),
                "block": each.block,
            }
            for each in report.blocks
        ],
        "left_out": [
            {"us": seconds * MICROSECONDS, "reason": reason} for seconds, reason in report.left_out
        ],
    }
    with new_file(path) as scratch:
        scratch.write_text(json.dumps(content) + "\n", encoding="utf-8")


def read_slow_report(path: str | Path) -> SlowReport:
    """Read a report. Its blocks are checked when they are built.

    Raises
    ------
    ReportFileError
        It cannot be read, is larger than it may be, or is no report.
    """
    fields = Fields.of(_json(Path(path)), f"report {path}")
    if fields["format"] != FORMAT or fields["version"] != VERSION:
        found = f"{fields['format']!r}, version {fields['version']!r}"[:200]
        raise damaged(fields.where, f"{FORMAT!r}, version {VERSION}", found)
    versions = Fields.of(fields["versions"], fields.place("versions"))
    peak = Fields.of(fields["peak"], fields.place("peak"))
    return SlowReport(
        target=fields.text("target", bounds.MOST_TEXT),
        processor=fields.text("processor", bounds.MOST_TEXT),
        threads=fields.integer("threads", 1, bounds.LARGEST_EXTENT),
        versions={name: versions.text(name, bounds.MOST_TEXT) for name in versions.content},
        peak={name: peak.amount(name) for name in peak.content},
        below=fields.amount("below"),
        blocks=tuple(
            _read_slow_block(Fields.of(each, f"{fields.where}, block {place}"))
            for place, each in enumerate(fields.items("blocks", bounds.MOST_BLOCKS))
        ),
        left_out=tuple(
            _read_left_out(Fields.of(each, f"{fields.where}, left_out {place}"))
            for place, each in enumerate(fields.items("left_out", bounds.MOST_BLOCKS))
        ),
    )


def _told(call: Any, names: bool) -> dict[str, Any]:
    """Return a block as JSON which is known to be one that can be read."""
    if call is None:
        raise NotTellableError("its kernel is no block of the plan")
    told = block_json(call, names)
    read_block(told, "a block")
    return told


def _slow_block(
    told: dict[str, Any], slow: SlowKernel, entry: LoweredBlock | None, names: bool
) -> SlowBlock:
    refusals = () if entry is None else entry.refusals[: bounds.MOST_REFUSALS]
    return SlowBlock(
        block=told,
        count=1,
        seconds=slow.kernel.seconds,
        limit_seconds=slow.limit_seconds,
        template=slow.kernel.template,
        knobs={} if entry is None else entry.knobs,
        refusals=tuple(Refusal(each.template, _scrubbed(each.reason)) for each in refusals),
        names=(slow.kernel.name, *slow.kernel.operators[: bounds.MOST_CALLS]) if names else (),
    )


def _counted_again(block: SlowBlock) -> SlowBlock:
    return SlowBlock(**{**vars(block), "count": block.count + 1})


def _nameless(told: Mapping[str, Any]) -> dict[str, Any]:
    calls = [{**call, "name": ""} for call in told["calls"]]
    return {**told, "calls": calls}


def _scrubbed(reason: str) -> str:
    """Return a reason without folders of the user's machine, and not too long."""
    told = _FOLDERS.sub("", reason)
    return told if len(told) <= MOST_REASON else f"{told[: MOST_REASON - 3]}..."


def _json(path: Path) -> Any:
    try:
        with path.open("rb") as stream:
            read = stream.read(bounds.MOST_FILE_BYTES + 1)
    except OSError as error:
        raise damaged(f"report {path}", "a file that can be read", str(error)) from error
    if len(read) > bounds.MOST_FILE_BYTES:
        raise damaged(f"report {path}", f"{bounds.MOST_FILE_BYTES} bytes at most", "more")
    try:
        return json.loads(read.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise damaged(f"report {path}", "JSON", f"{error}"[:200]) from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _read_slow_block(fields: Fields) -> SlowBlock:
    knobs = Fields.of(fields["knobs"], fields.place("knobs"))
    most = bounds.LARGEST_INTEGER
    calls = Fields.of(fields["block"], fields.place("block")).items("calls", bounds.MOST_CALLS)
    for call in calls:
        Fields.of(call, fields.place("calls")).text("op", bounds.MOST_TEXT)
    refusals = [
        Fields.of(each, fields.place("refusals"))
        for each in fields.items("refusals", bounds.MOST_REFUSALS)
    ]
    return SlowBlock(
        block=fields["block"],
        count=fields.integer("count", 1, bounds.LARGEST_EXTENT),
        seconds=fields.amount("us") / MICROSECONDS,
        limit_seconds=fields.amount("limit_us") / MICROSECONDS,
        template=fields.text("template", bounds.MOST_TEXT),
        knobs={name: knobs.integer(name, -most, most) for name in knobs.content},
        refusals=tuple(
            Refusal(each.text("template", bounds.MOST_TEXT), each.text("reason", bounds.MOST_TEXT))
            for each in refusals
        ),
        names=tuple(
            name if isinstance(name, str) else ""
            for name in fields.items("names", bounds.MOST_CALLS + 1)
        ),
    )


def _read_left_out(fields: Fields) -> tuple[float, str]:
    return fields.amount("us") / MICROSECONDS, fields.text("reason", bounds.MOST_TEXT)
