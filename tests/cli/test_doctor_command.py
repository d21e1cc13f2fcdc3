from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.run_cli import Ran, runner
from tvm_fusionx.cli import doctor_command
from tvm_fusionx.devices.doctor import Finding, Verdict


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.mark.parametrize(
    ("verdict", "code"), [(Verdict.OK, 0), (Verdict.WARN, 0), (Verdict.FAIL, 3)]
)
def test_only_a_failure_is_an_unfit_environment(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, verdict: Verdict, code: int
) -> None:
    finding = Finding("tvm", verdict, "[red]found[/red]", "Do this.")
    monkeypatch.setattr(doctor_command, "examine", lambda: [finding])
    ran = run("doctor")
    assert ran.code == code
    assert verdict.value in ran.out
    # What is found is shown as it is, never read as markup.
    assert "[red]found[/red]" in ran.out
    assert "Do this." in ran.out


def test_a_device_that_fails_a_step_is_an_unfit_environment(run: Callable[..., Ran]) -> None:
    ran = run("doctor", "--device", "emulated-arm64", "--rpc-tracker", "127.0.0.1:1")
    assert ran.code == 3
    assert "fail" in ran.out
    assert run("doctor", "--device", "nothing").code == 2
