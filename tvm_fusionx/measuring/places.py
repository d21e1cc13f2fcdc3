"""Where answers of the device are kept, and under what name."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import platformdirs
import tvm

from tvm_fusionx.fusion.profile_database import Setting
from tvm_fusionx.records.device import processor_name
from tvm_fusionx.schedules import resolve_target, target_key
from tvm_fusionx.threads import threads_in_use

APPLICATION = "tvm_fusionx"
# Overrides the folder that the operating system has for data of programs.
FOLDER_VARIABLE = "TVM_FUSIONX_DATA"
DATABASE_NAME = "profiles.sqlite"
DIGITS = 12
# Kernels depend on the code of these, whatever the version says.
CODE_OF_KERNELS = (
    *("lowering.py", "_tvm", "processors", "tir", "expressions", "late_passes", "schedules"),
)


def data_folder() -> Path:
    """Return the folder for answers of devices; it need not exist."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    return Path(chosen) if chosen else Path(platformdirs.user_data_dir(APPLICATION, False))


def database_path() -> Path:
    """Return the file of the profile database that measuring uses by default."""
    return data_folder() / DATABASE_NAME


def costs_path(setting: Setting) -> Path:
    """Return the file of the calibrated costs of a setting; versions do not count."""
    text = f"{setting.target}|{setting.threads}|{setting.device}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
    return data_folder() / f"costs-{digest}.json"


def setting_of(target: str | tvm.target.Target) -> Setting:
    """Return what measurements on this machine depend on, with TVM's threads as they are set."""
    return Setting(
        target=target_key(resolve_target(target)),
        threads=threads_in_use(),
        device=processor_name(),
        versions=versions(),
    )


@cache
def versions() -> str:
    """Return the versions that kernels depend on: TVM's, and a digest of our code for them."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for name in CODE_OF_KERNELS:
        path = root / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return f"tvm {tvm.__version__}, kernels {digest.hexdigest()[:DIGITS]}"
