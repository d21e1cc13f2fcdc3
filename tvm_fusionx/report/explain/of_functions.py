"""One report of a model that is several static functions, with what the data decides between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from tvm_fusionx.passes.fuse_by_mapping import OF_FUNCTION
from tvm_fusionx.report.explain.entries import BlockEntry, EdgeEntry, Finding, Summary
from tvm_fusionx.report.explain.explanation import Report


def joined(reports: Mapping[str, Report], stages: Iterable[Finding] = ()) -> Report:
    """Return the report of all functions of a model.

    Parameters
    ----------
    reports
        Name of each function, and its report. Of more than one, blocks and calls are named
        ``function/name``.
    stages
        Findings of the model as a whole, which come first.

    Returns
    -------
    Report
        Its ``source``, which exports draw, is the plan of the first function.
    """
    if len(reports) > 1:
        reports = {name: _named(report, name + OF_FUNCTION) for name, report in reports.items()}
    first, *others = reports.values()
    all_of_them = (first, *others)
    applied: Counter[str] = Counter()
    for report in all_of_them:
        applied.update(dict(report.rewrites))
    return replace(
        first,
        summary=_sum([report.summary for report in all_of_them]),
        blocks=tuple(block for report in all_of_them for block in report.blocks),
        edges=tuple(edge for report in all_of_them for edge in report.edges),
        rewrites=tuple(applied.most_common()),
        findings=(*stages, *(each for report in all_of_them for each in report.findings)),
        plan="; ".join(report.plan for report in all_of_them if report.plan),
    )


def _named(report: Report, prefix: str) -> Report:
    """Return a report whose blocks and calls have names of their own."""
    return replace(
        report,
        blocks=tuple(_block(block, prefix) for block in report.blocks),
        edges=tuple(_edge(edge, prefix) for edge in report.edges),
        findings=tuple(
            replace(each, blocks=tuple(prefix + name for name in each.blocks))
            for each in report.findings
        ),
    )


def _block(block: BlockEntry, prefix: str) -> BlockEntry:
    labels = tuple(prefix + label for label in block.labels)
    return replace(block, name=prefix + block.name, labels=labels)


def _edge(edge: EdgeEntry, prefix: str) -> EdgeEntry:
    return replace(
        edge,
        producer=prefix + edge.producer,
        consumer=prefix + edge.consumer,
        producer_block=prefix + edge.producer_block,
        consumer_block=prefix + edge.consumer_block,
    )


def _sum(summaries: list[Summary]) -> Summary:
    names = [each.name for each in fields(Summary)]
    return Summary(**{name: sum(getattr(each, name) for each in summaries) for name in names})
