from __future__ import annotations

from collections.abc import Callable

import click
import pytest

from tests.cli.run_cli import Ran, runner
from tvm_fusionx.cli import entry
from tvm_fusionx.cli.device_options import DeviceChoice, device_options
from tvm_fusionx.errors import UnknownDeviceError


@pytest.fixture(name="run")
def fixture_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    @click.command("doctor")
    @device_options
    def shown(device: DeviceChoice) -> None:
        click.echo(repr(device))

    monkeypatch.setattr(entry._Commands, "get_command", lambda self, ctx, name: shown)
    return runner(capsys)


def test_the_options_become_a_choice(run: Callable[..., Ran]) -> None:
    assert repr(DeviceChoice(None)) in run("doctor").out
    ran = run("doctor", "--device", "phone", "--rpc-tracker", "h:1", "--rpc-key", "k")
    assert repr(DeviceChoice("phone", "h:1", "k")) in ran.out


def test_a_tracker_without_a_device_is_refused(run: Callable[..., Ran]) -> None:
    ran = run("doctor", "--rpc-tracker", "h:1")
    assert ran.code == 2
    assert "need --device" in ran.err


def test_a_choice_finds_its_device() -> None:
    assert DeviceChoice(None).find() is None
    device = DeviceChoice("android-arm64", "h:1", "k").find()
    assert device is not None
    assert (device.tracker, device.key) == ("h:1", "k")
    with pytest.raises(UnknownDeviceError):
        DeviceChoice("nothing").find()
