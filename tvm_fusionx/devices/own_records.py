"""The records that count for a device: its own before those of others of its kind."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm_fusionx.devices.description import Device
from tvm_fusionx.devices.session import open_session
from tvm_fusionx.errors import DeviceError
from tvm_fusionx.records import Record, load_records, read_records
from tvm_fusionx.records.device import fingerprint, processor_name
from tvm_fusionx.schedules import target_key
from tvm_fusionx.threads import expected_threads

logger = logging.getLogger(__name__)


def device_fingerprint(device: Device, facts: Mapping[str, Any]) -> str:
    """Return what tells a device from others of its kind: its processor and cores in use."""
    if not facts:
        return f"{device.name}, key {device.key}"
    cores = expected_threads() if device.is_local else facts.get("cores", 1)
    return fingerprint(facts.get("cpu") or facts.get("arch") or "", cores)


def records_for(device: Device, path: str | Path | None) -> dict[str, Record] | None:
    """Return the records for `device` under `path`, by structural hash of their block.

    The device is asked which one it is where the records are of several. Where it does not answer,
    the newest records count.

    Raises
    ------
    RecordError
        As from :func:`tvm_fusionx.records.load_records`.
    """
    if path is None:
        return None
    target = device.tvm_target()
    key = target_key(target)
    known = {record.device for record in read_records(path) if record.target == key}
    return load_records(path, target, _ask(device) if len(known) > 1 else None)


def _ask(device: Device) -> str | None:
    if device.is_local:
        return device_fingerprint(device, {"cpu": processor_name()})
    try:
        with open_session(device) as session:
            return device_fingerprint(device, session.facts())
    except DeviceError as error:
        logger.warning("device %s does not tell which it is: %s", device.name, error)
        return None
