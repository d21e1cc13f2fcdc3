from __future__ import annotations

import pytest

from tests.relay_modules import TARGET
from tvm_fusionx.records.device import fingerprint, processor_name, this_device
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.threads import threads_in_use


def test_this_machine_is_its_processor_and_threads() -> None:
    assert processor_name()
    assert fingerprint("a processor", 4) == "a processor, 4 threads"
    found = this_device(resolve_target(TARGET))
    assert found == fingerprint(processor_name(), threads_in_use())


@pytest.mark.parametrize("target", ["llvm -mtriple=aarch64-linux-gnu", "opencl"])
def test_other_kinds_of_machine_are_not_this_one(target: str) -> None:
    assert this_device(resolve_target(target)) is None
