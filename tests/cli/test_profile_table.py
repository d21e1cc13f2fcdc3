from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_fusionx.cli.profile_table import SHOWN_KERNELS, print_profile
from tvm_fusionx.measuring.machine_peak import MachinePeak
from tvm_fusionx.report.profile.profile import KernelTime, ProfileReport
from tvm_fusionx.schedules.block_work import Work


def _kernel(number: int, nodes: int, template: str = "depthwise_pointwise_blocked") -> KernelTime:
    return KernelTime(
        name=f"fused_nn_contrib_conv2d_NCHWc_add_clip_multiply_of_block_{number}",
        operators=tuple(f"/features/{number}/conv/Conv_{node}" for node in range(nodes)),
        template=template,
        seconds=123.4e-6 / (number + 1),
        share=1 / (number + 2),
        gflops_per_second=123.4 if template else None,
        gbytes_per_second=12.34,
        part_of_peak=0.5 if template else None,
        is_tuned=False if template else None,
    )


def _printed(report: ProfileReport, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_profile(report)
    return capsys.readouterr().out.splitlines()


def test_every_line_fits_into_80_columns_and_names_the_models_nodes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a pipe: nothing tells a width.
    monkeypatch.delenv("COLUMNS", raising=False)
    kernels = tuple(_kernel(number, 9) for number in range(3))
    lines = _printed(ProfileReport(kernels, 300e-6, MachinePeak(100.0, 10.0, 2)), capsys)
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    for kernel in kernels:
        assert f"{kernel.name}: {', '.join(kernel.operators[:6])} and 3 more" in text
    assert "Peak: 100 GFLOP/s" in text
    assert "Sum of 3 kernels" in text


def test_numbers_stand_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    head, *lines = _printed(ProfileReport((_kernel(0, 1), _kernel(1, 1)), 300e-6), capsys)
    first, second = (line for line in lines if "  no  " in line)
    for name in ("GFLOP/s", "tuned"):
        end = head.index(name) + len(name)
        assert first[end] == second[end] == " "
    assert first.split() == ("123 µs 50.0% 123 50% 12.3 no depthwise_pointwise_blocked".split())


def test_what_is_not_known_is_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    _, row, names, *_ = _printed(ProfileReport((_kernel(0, 0, ""),), 300e-6), capsys)
    assert row.split()[2:] == ["50.0%", "-", "-", "12.3", "-", "-"]
    assert names.strip() == _kernel(0, 0).name


def test_many_kernels_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    kernels = tuple(_kernel(number, 1) for number in range(SHOWN_KERNELS + 5))
    lines = _printed(ProfileReport(kernels, 300e-6), capsys)
    (rest,) = [line for line in lines if line.endswith("  5 more")]
    assert rest.split()[0] == f"{sum(kernel.seconds for kernel in kernels[-5:]) * 1e6:.3g}"


def test_kernels_far_from_their_limit_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    slow, fast = _kernel(0, 1), replace(_kernel(1, 1), work=Work(read_bytes=1_000_000))
    kernels = (replace(slow, work=Work(read_bytes=100_000)), fast)
    lines = _printed(ProfileReport(kernels, 300e-6, MachinePeak(100.0, 10.0, 2)), capsys)
    (at,) = [place for place, line in enumerate(lines) if line.startswith("Under 30%")]
    assert max(map(len, lines)) <= 80
    assert "111 µs lost in all" in lines[at]
    assert " ".join(" ".join(lines[at + 1 : at + 3]).split()).startswith(
        f"111 µs at 10%: {slow.name}"
    )
    assert not any("Under" in line for line in _printed(ProfileReport(kernels, 1.0), capsys))
