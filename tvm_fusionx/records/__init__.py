"""Tuning records: what was found for each block, kept as JSON lines."""

from tvm_fusionx.records.coverage import coverage_text
from tvm_fusionx.records.record import FORMAT_VERSION, Record
from tvm_fusionx.records.store import (
    add_records,
    differing_records,
    load_records,
    merge_records,
    own_file,
    prune_records,
    read_records,
    write_records,
)

__all__ = [
    "FORMAT_VERSION",
    "Record",
    "add_records",
    "coverage_text",
    "differing_records",
    "load_records",
    "merge_records",
    "own_file",
    "prune_records",
    "read_records",
    "write_records",
]
