"""The options that say on which device: ``--device``, and tvmc's ``--rpc-tracker --rpc-key``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    from tvm_fusionx.devices import Device

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class DeviceChoice:
    """What the options say; the description itself needs TVM.

    Attributes
    ----------
    name
        Name or file of a device; None where none was asked for.
    tracker, key
        What replaces the description's.
    """

    name: str | None
    tracker: str | None = None
    key: str | None = None

    def find(self) -> Device | None:
        """Return the device that was asked for, or None where none was.

        Raises
        ------
        DeviceError
            There is no such device, or its description is damaged.
        """
        if self.name is None:
            return None
        from tvm_fusionx.devices import find_device

        return find_device(self.name, tracker=self.tracker, key=self.key)


rpc_options = (
    click.option("--rpc-tracker", "tracker", metavar="HOST:PORT", help="The RPC tracker."),
    click.option("--rpc-key", "key", help="Key of the device at the tracker."),
)


def device_options(command: Command) -> Command:
    """Add the options; the command takes a :class:`DeviceChoice` as `device`."""

    @functools.wraps(command)
    def gathered(
        *arguments: Any, device: str | None, tracker: str | None, key: str | None, **named: Any
    ) -> Any:
        if device is None and (tracker or key):
            raise click.UsageError("--rpc-tracker and --rpc-key need --device.")
        return command(*arguments, device=DeviceChoice(device, tracker, key), **named)

    for option in (
        *reversed(rpc_options),
        click.option("--device", help="Name or file of a device; `fusionx devices list` has them."),
    ):
        gathered = option(gathered)
    return cast(Command, gathered)
