from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from tvm_fusionx.devices import local_server


def zone(folder: Path, name: str, kind: str, value: str) -> None:
    (folder / name).mkdir()
    (folder / name / "type").write_text(kind + "\n")
    (folder / name / "temp").write_text(value + "\n")


def test_the_hottest_zone_of_the_processor_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_server, "THERMAL_ZONES", tmp_path)
    assert math.isnan(local_server.temperature())
    zone(tmp_path, "thermal_zone0", "cpu-1-0", "41500")
    zone(tmp_path, "thermal_zone1", "cpu-1-1", "43000")
    zone(tmp_path, "thermal_zone2", "battery", "90000")
    zone(tmp_path, "thermal_zone3", "cpu-2-0", "unreadable")
    assert local_server.temperature() == 43.0


def test_the_processor_has_a_name() -> None:
    assert local_server.cpu_name() or not os.path.exists("/proc/cpuinfo")
