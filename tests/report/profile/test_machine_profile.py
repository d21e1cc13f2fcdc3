from __future__ import annotations

import numpy as np
import pytest

from tests.data_models import boxes_and_scores, built, looping, suppressing
from tvm_fusionx.errors import InputError, MissingDependencyError
from tvm_fusionx.report.profile import machine_profile
from tvm_fusionx.report.profile.machine_profile import profile_machine
from tvm_fusionx.report.profile.profile import ProfileReport


@pytest.fixture(scope="module")
def report() -> ProfileReport:
    return profile_machine(built(suppressing()), boxes_and_scores(), repeat=2, peak=None)


def test_each_kernel_has_its_time_and_what_the_machine_does_is_the_gap(
    report: ProfileReport,
) -> None:
    assert sum(kernel.share for kernel in report.kernels) == pytest.approx(1.0)
    assert not any(kernel.name.startswith("VM::") for kernel in report.kernels)
    assert report.end_to_end_seconds > 0
    assert "between kernels" in report.gap_text()


def test_open_operators_are_tvms_and_the_others_have_templates_and_work(
    report: ProfileReport,
) -> None:
    kernels = {kernel.name: kernel for kernel in report.kernels}
    selected = kernels["vm_mod_fused_fusionx_non_max_suppression"]
    assert selected.template == "topi"
    # Boxes, scores and three settings; rows that are kept, and how many.
    assert selected.bytes == 4 * (80 + 60) + 8 + 4 + 4 + 8 * 180 + 8
    assert any(kernel.template == "rows" and kernel.work for kernel in report.kernels)


def test_a_loops_kernels_are_rows_with_the_sum_of_their_launches() -> None:
    program = built(looping())
    few, many = (
        profile_machine(program, {"x": np.full(4, value, "float32")}, repeat=1, peak=None)
        for value in (100, 0.001)
    )
    names = [kernel.name for kernel in many.kernels]
    assert len(set(names)) == len(names)
    held = {kernel.name: kernel.bytes for kernel in few.kernels}
    more = {kernel.name: kernel.bytes for kernel in many.kernels}
    grown = {name for name in more if more[name] > held.get(name, 0)}
    assert grown
    assert all(kernel.work is None for kernel in many.kernels if kernel.name in grown)


def test_what_cannot_be_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    program = built(suppressing())
    with pytest.raises(InputError, match="repeat"):
        profile_machine(program, boxes_and_scores(), repeat=0)
    monkeypatch.setattr(machine_profile.profiler_vm, "enabled", lambda: False)
    with pytest.raises(MissingDependencyError, match=r"USE_PROFILER.*--print-time"):
        profile_machine(program, boxes_and_scores())
