"""What a build and a run add to the report of a model that TVM's virtual machine runs.

Its kernels are those of the static functions' blocks, by symbol, and those of open operators, which
no plan has: they are told of together.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_fusionx.passes.fuse_by_mapping import OF_FUNCTION
from tvm_fusionx.report.explain.entries import Finding
from tvm_fusionx.report.explain.explain import VIRTUAL_MACHINE, with_lowered
from tvm_fusionx.report.explain.explanation import Report
from tvm_fusionx.report.profile.profile import ProfileReport
from tvm_fusionx.schedules.lowering_log import LoweringLog

PERCENT = 100


def with_machine_schedules(report: Report, log: LoweringLog) -> Report:
    """Return the report with what each block was scheduled by.

    Parameters
    ----------
    report
        Of the module that was built.
    log
        Of the build: ``VmProgram.build.log``.
    """
    decided = {entry.name: entry for entry in log.entries}
    names = _names_in(report, log)
    by_block = {name: decided[symbol] for symbol, name in names.items() if symbol in decided}
    whole = with_lowered(report, by_block)
    # What is told of the model as a whole is no oddity of a block.
    first = [each for each in report.findings if each.kind == VIRTUAL_MACHINE]
    return replace(whole, findings=(*first, *whole.findings))


def with_machine_profile(report: Report, profile: ProfileReport, log: LoweringLog) -> Report:
    """Return the report with the time of each block, in one run.

    A block that the run did not come by, in a branch not taken, took no time.

    Parameters
    ----------
    report
        Of the module that was built.
    profile
        What ``profile_machine`` returned for the build.
    log
        Of the build: ``VmProgram.build.log``.
    """
    names = _names_in(report, log)
    known = {block.name for block in report.blocks} & set(names.values())
    times = {
        names[kernel.name]: (kernel.seconds, kernel.share)
        for kernel in profile.kernels
        if names.get(kernel.name) in known
    }
    # Of a block that TVM schedules by itself no kernel is known.
    times |= dict.fromkeys(known - times.keys(), (0.0, 0.0))
    others = [kernel for kernel in profile.kernels if names.get(kernel.name) not in known]
    blocks = tuple(
        replace(block, seconds=times[block.name][0], share=times[block.name][1])
        if block.name in times
        else block
        for block in report.blocks
    )
    share = sum(kernel.share for kernel in others)
    message = (
        f"{share * PERCENT:.0f} % of the time of kernels is in {len(others)} by TVM's own "
        "schedules: of operators whose shapes the data decides, or that no template serves"
    )
    findings = report.findings
    if others:
        findings = (*findings, Finding("open-operators", message, ()))
    return replace(report, blocks=blocks, findings=findings, run_seconds=profile.end_to_end_seconds)


def _names_in(report: Report, log: LoweringLog) -> dict[str, str]:
    """Return the name that each kernel's block has in a report, by the kernel's symbol."""
    planned = {block.name for block in report.blocks}
    return {
        symbol: name if name in planned else name.rpartition(OF_FUNCTION)[2]
        for symbol, name in log.blocks.items()
    }
