"""TVM's own tuning logs: our records written as them, and read from them.

They carry a block as a name, ``fusionx.<template>``, and its structural hash; the knobs are
AutoTVM's configuration, or annotations in MetaSchedule's trace. Device, trials and date are beside
the hash: arguments of AutoTVM's task, attributes of MetaSchedule's stand-in function. Entries of
TVM's own templates say nothing about ours and are left out.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.errors import MALFORMED, RecordError
from tvm_fusionx.output_file import new_file, new_folder
from tvm_fusionx.records.record import Record
from tvm_fusionx.schedules import target_key

logger = logging.getLogger(__name__)

AUTOTVM = "autotvm"
METASCHEDULE = "metaschedule"
FORMATS = (AUTOTVM, METASCHEDULE)

PREFIX = "fusionx."
HASH_ATTRIBUTE = "fusionx.hash"
TEMPLATE_ATTRIBUTE = "fusionx.template"
DEVICE_ATTRIBUTE = "fusionx.device"
TRIALS_ATTRIBUTE = "fusionx.trials"
# As text, which keeps every digit.
MEASURED_AT_ATTRIBUTE = "fusionx.measured_at"
# The names that MetaSchedule gives its two files.
WORKLOADS = "database_workload.json"
TUNING_RECORDS = "database_tuning_record.json"


def export_records(
    records: Iterable[Record], path: str | Path, target: tvm.target.Target, form: str
) -> int:
    """Write the records of `target` as a log of TVM's; return their number.

    Those that hold a schedule of TVM's own in place of knobs are left out, and those without a
    time: TVM's logs know none.

    Parameters
    ----------
    path
        A file for ``"autotvm"``, a folder for ``"metaschedule"``; an older log is replaced.
    form
        One of :data:`FORMATS`.

    Raises
    ------
    RecordError
        None of the records is of the target and timed.
    OutputFileError
        The path cannot be written, or is that of a folder with other files.
    """
    everything = list(records)
    key = target_key(target)
    ours = [
        record
        for record in everything
        if record.target == key and math.isfinite(record.seconds) and not record.trace
    ]
    if not ours:
        raise RecordError(
            "tuning records to export",
            expected=f"timed records of knobs for target {key!r}",
            found=f"none among {len(everything)} "
            f"for {sorted({record.target for record in everything})}",
            next_step="Give the target that the records are for.",
        )
    if form == AUTOTVM:
        with new_file(path) as scratch:
            lines = [_autotvm_line(record, target) + "\n" for record in ours]
            scratch.write_text("".join(lines), encoding="utf-8")
    else:
        with new_folder(path, (WORKLOADS, TUNING_RECORDS)) as folder:
            _write_metaschedule(ours, folder, target)
    return len(ours)


def import_records(path: str | Path, form: str) -> list[Record]:
    """Return the records that a log of TVM's carries; the fastest of each block.

    Raises
    ------
    RecordError
        The log cannot be read.
    """
    root = Path(path)
    try:
        found = _read_autotvm(root) if form == AUTOTVM else _read_metaschedule(root)
    except (OSError, IndexError, *MALFORMED, tvm.TVMError) as error:
        raise RecordError(
            f"{form} log {root}",
            expected="a log that TVM wrote" if form == AUTOTVM else f"a folder with {WORKLOADS}",
            found=f"{type(error).__name__}: {str(error).strip().splitlines()[-1:]}",
            next_step="Check the path and the format.",
        ) from error
    best: dict[tuple[str, str, str], Record] = {}
    for record in found:
        known = best.get(record.key)
        if known is None or not record.seconds >= known.seconds:
            best[record.key] = record
    return list(best.values())


def _autotvm_line(record: Record, target: tvm.target.Target) -> str:
    from tvm import autotvm
    from tvm.autotvm.measure import MeasureInput, MeasureResult
    from tvm.autotvm.task.space import ConfigEntity

    about = (record.hash, record.device, record.trials)
    task = autotvm.task.Task(PREFIX + record.template, about)
    entity = [[name, "ot", value] for name, value in record.knobs.items()]
    config = ConfigEntity.from_json_dict({"index": 0, "code_hash": None, "entity": entity})
    result = MeasureResult((record.seconds,), 0, 0.0, record.measured_at)
    return str(autotvm.record.encode(MeasureInput(target, task, config), result))


def _read_autotvm(path: Path) -> list[Record]:
    from tvm import autotvm

    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        decoded = autotvm.record.decode(line) if line.strip() else None
        if decoded is None:
            continue
        given, result = decoded
        if not given.task.name.startswith(PREFIX) or result.error_no != 0:
            continue
        entity = given.config.to_json_dict()["entity"]
        about = dict(zip(("hash", "device", "trials"), given.task.args, strict=False))
        records.append(
            Record(
                target=target_key(given.target),
                hash=str(about["hash"]),
                template=given.task.name[len(PREFIX) :],
                knobs={str(name): int(value) for name, kind, value in entity if kind == "ot"},
                device=str(about.get("device", "")),
                seconds=float(sum(result.costs) / len(result.costs)),
                trials=int(about.get("trials", 0)),
                tuner=AUTOTVM,
                measured_at=float(result.timestamp),
            )
        )
    return records


def _write_metaschedule(records: Iterable[Record], folder: Path, target: tvm.target.Target) -> None:
    from tvm.meta_schedule.database import JSONDatabase, TuningRecord

    database = JSONDatabase(str(folder / WORKLOADS), str(folder / TUNING_RECORDS))
    for record in records:
        mod = _stand_in(record)
        workload = database.commit_workload(mod)
        sch = tir.Schedule(mod)
        root = sch.get_block("root")
        for name, value in record.knobs.items():
            # Twice the same: TVM writes a probability of 1.0 as 1, and cannot read that again.
            chosen = sch.sample_categorical([value, value], [0.5, 0.5], decision=0)
            sch.annotate(root, PREFIX + name, chosen)
        database.commit_tuning_record(
            TuningRecord(sch.trace, workload, [record.seconds], target, None)
        )


def _stand_in(record: Record) -> tvm.IRModule:
    """Return a module that does nothing and is named after a block."""
    block = tir.Block([], [], [], "root", tir.Evaluate(0))
    func = tir.PrimFunc([], tir.BlockRealize([], True, block))
    attributes = {
        HASH_ATTRIBUTE: record.hash,
        TEMPLATE_ATTRIBUTE: record.template,
        DEVICE_ATTRIBUTE: record.device,
        TRIALS_ATTRIBUTE: record.trials,
        MEASURED_AT_ATTRIBUTE: repr(record.measured_at),
    }
    return tvm.IRModule({"main": func.with_attr(attributes)})


def _read_metaschedule(folder: Path) -> list[Record]:
    from tvm.meta_schedule.database import JSONDatabase

    if not (folder / WORKLOADS).is_file():
        raise FileNotFoundError(f"no {WORKLOADS}")
    database = JSONDatabase(str(folder / WORKLOADS), str(folder / TUNING_RECORDS))
    records = []
    for entry in database.get_all_tuning_records():
        func = entry.workload.mod["main"] if "main" in _names(entry.workload.mod) else None
        attributes: Mapping[str, Any] = {} if func is None else dict(func.attrs.items())
        if HASH_ATTRIBUTE not in attributes or entry.target is None:
            continue
        sch = tir.Schedule(entry.workload.mod)
        entry.trace.apply_to_schedule(sch, remove_postproc=False)
        annotations = sch.get(sch.get_block("root")).annotations
        runs = [float(each) for each in entry.run_secs or []]
        records.append(
            Record(
                target=target_key(entry.target),
                hash=str(attributes[HASH_ATTRIBUTE]),
                template=str(attributes[TEMPLATE_ATTRIBUTE]),
                knobs={
                    str(name)[len(PREFIX) :]: int(value)
                    for name, value in annotations.items()
                    if str(name).startswith(PREFIX)
                },
                seconds=sum(runs) / len(runs) if runs else math.inf,
                device=str(attributes.get(DEVICE_ATTRIBUTE, "")),
                trials=int(attributes.get(TRIALS_ATTRIBUTE, 0)),
                tuner=METASCHEDULE,
                measured_at=float(attributes.get(MEASURED_AT_ATTRIBUTE, 0.0)),
            )
        )
    return records


def _names(mod: tvm.IRModule) -> list[str]:
    return [str(var.name_hint) for var in mod.functions]
