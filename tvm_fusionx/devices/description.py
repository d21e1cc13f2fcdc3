"""A device, as data: what it compiles for, how it is linked for, and where it is reached.

A description is a small JSON file with the fields of :class:`Device`; a name alone means the user's
own description of that name, or one of :data:`PRESETS`.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import platformdirs
import tvm

from tvm_fusionx.errors import DeviceError, UnknownDeviceError
from tvm_fusionx.output_file import new_file
from tvm_fusionx.schedules import resolve_target

APPLICATION = "tvm_fusionx"
# Overrides the folder that the operating system has for settings of programs.
FOLDER_VARIABLE = "TVM_FUSIONX_CONFIG"
SUFFIX = ".json"
LINKERS = ("host", "gnu", "ndk", "lld")

# The names of devices become names of files.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ADDRESS = re.compile(r"(?P<host>\[[^\]]+\]|[^:\s]+):(?P<port>\d{1,5})")
LARGEST_PORT = 65535


@dataclass(frozen=True)
class Device:
    """What is known about a device before it is asked.

    Attributes
    ----------
    name
        How people and files call it.
    target
        TVM target string of what it computes with.
    host
        Target string of the processor beside an accelerator.
    linker
        ``"host"``, ``"gnu"`` (the cross compiler named in `compiler`), ``"ndk"`` (the one that
        ``TVM_NDK_CC`` names) or ``"lld"`` (``ld.lld`` against stubs of Android's libraries).
    compiler
        Command of the C++ compiler that links for it.
    tracker
        ``"host:port"`` of the RPC tracker; None means this machine, in a child process.
    key
        Under which its server is registered at the tracker.
    session_timeout_seconds
        How long one session lasts at most; what runs longer is killed on the device.
    libraries
        Plug-ins that the server on this machine loads, such as the OpenCL runtime.
    """

    name: str
    target: str
    host: str | None = None
    linker: str = "host"
    compiler: str | None = None
    tracker: str | None = None
    key: str | None = None
    session_timeout_seconds: float = 60.0
    libraries: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problem = self._why_not_valid()
        if problem is not None:
            field, expected, found = problem
            raise UnknownDeviceError(
                f"device {self.name!r}, {field}",
                expected=expected,
                found=found,
                next_step="Correct its description; `fusionx devices show` prints it.",
            )

    def _why_not_valid(self) -> tuple[str, str, str] | None:
        """Return (field, what it should be, what it is) of the first wrong field, or None."""
        if not isinstance(self.name, str) or _NAME.fullmatch(self.name) is None:
            return "name", "letters, digits, dots and dashes", repr(self.name)
        if not isinstance(self.target, str) or not self.target.strip():
            return "target", "a TVM target string", repr(self.target)
        if self.linker not in LINKERS:
            return "linker", f"one of {', '.join(LINKERS)}", repr(self.linker)
        if self.linker == "gnu" and not self.compiler:
            return "compiler", "the cross compiler's command, as linker is gnu", repr(self.compiler)
        if self.tracker is not None and not is_address(self.tracker):
            return "tracker", "host:port", repr(self.tracker)
        if self.tracker is not None and not self.key:
            return "key", "the key of its server at the tracker", repr(self.key)
        if not self.session_timeout_seconds > 0:
            found = repr(self.session_timeout_seconds)
            return "session_timeout_seconds", "a number of seconds above 0", found
        return None

    @property
    def is_local(self) -> bool:
        """Tell whether it is this machine."""
        return self.tracker is None

    @property
    def tracker_address(self) -> tuple[str, int]:
        """Return host and port of the tracker; `ValueError` for this machine."""
        match = _ADDRESS.fullmatch(self.tracker or "")
        if match is None:
            raise ValueError(f"device {self.name!r}: expected a tracker; found {self.tracker!r}.")
        return match["host"].strip("[]"), int(match["port"])

    def tvm_target(self) -> tvm.target.Target:
        """Return what to build for, with its host.

        Raises
        ------
        TargetError
            When TVM does not know the target or the host.
        """
        target = resolve_target(self.target)
        if self.host is None:
            return target
        return tvm.target.Target(target, host=resolve_target(self.host))

    def with_cores(self, count: int) -> Device:
        """Return the device with its kernels divided among `count` cores.

        Raises
        ------
        DeviceError
            It is not this machine's CPU: what divides its work is for its target to say.
        """
        if not self.is_local or self.tvm_target().kind.name != "llvm":
            raise DeviceError(
                f"device {self.name}, {count} threads",
                expected="this machine's CPU, for a number of threads",
                found=f"target {self.target!r}{'' if self.is_local else f' at {self.tracker}'}",
                next_step="Say in a CPU's target what it has, as in -num-cores=4.",
            )
        words = [word for word in self.target.split() if not word.startswith("-num-cores=")]
        return replace(self, target=" ".join([*words, f"-num-cores={count}"]))

    def to_json(self) -> str:
        """Return the text of its file."""
        return json.dumps(asdict(self), indent=2) + "\n"

    def save(self, path: str | Path) -> None:
        """Write its file, all of it or nothing; `OutputFileError` where that is impossible."""
        with new_file(path) as scratch:
            scratch.write_text(self.to_json(), encoding="utf-8")


def is_address(text: Any) -> bool:
    """Tell whether `text` is ``host:port``."""
    match = _ADDRESS.fullmatch(text) if isinstance(text, str) else None
    return match is not None and 0 < int(match["port"]) <= LARGEST_PORT


# Where TVM's own tools listen: `python -m tvm.exec.rpc_tracker`.
DEFAULT_TRACKER = "127.0.0.1:9190"

ANDROID_CPU = "llvm -mtriple=aarch64-linux-android -mattr=+neon"


def presets() -> dict[str, Device]:
    """Return the devices that need no description, by name.

    Android's are linked by the NDK where ``TVM_NDK_CC`` names its compiler.
    """
    android_linker = "ndk" if os.environ.get("TVM_NDK_CC") else "lld"
    known = (
        Device("local", "llvm -mcpu=native"),
        Device(
            "android-arm64",
            # Half of a phone's eight cores are small ones, which a parallel loop would wait for.
            f"{ANDROID_CPU} -num-cores=4",
            linker=android_linker,
            tracker=DEFAULT_TRACKER,
            key="android",
        ),
        Device(
            "android-adreno",
            "opencl -device=adreno",
            host=ANDROID_CPU,
            linker=android_linker,
            tracker=DEFAULT_TRACKER,
            key="android",
        ),
        Device(
            "emulated-arm64",
            "llvm -mtriple=aarch64-linux-gnu -mattr=+neon -num-cores=2",
            linker="gnu",
            compiler="aarch64-linux-gnu-g++",
            tracker=DEFAULT_TRACKER,
            key="emulated-arm64",
        ),
        Device("pocl", "opencl", host="llvm -mcpu=native"),
    )
    return {device.name: device for device in known}


def devices_folder() -> Path:
    """Return the folder of the user's own descriptions; it need not exist."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    config = Path(chosen) if chosen else Path(platformdirs.user_config_dir(APPLICATION, False))
    return config / "devices"


def own_devices() -> dict[str, Path]:
    """Return the files of the user's own descriptions, by name."""
    return {path.stem: path for path in sorted(devices_folder().glob(f"*{SUFFIX}"))}


def find_device(name_or_file: str | Path, **overrides: Any) -> Device:
    """Return the device of that name, or the one that a file describes.

    Parameters
    ----------
    name_or_file
        A path (with a folder, or ending in ``.json``), the name of one of the user's own devices,
        or of a preset.
    **overrides
        Fields that replace those of the description; None leaves a field as it is.

    Raises
    ------
    UnknownDeviceError
        There is no such device, or its description is damaged.
    """
    text = str(name_or_file)
    if isinstance(name_or_file, Path) or text.endswith(SUFFIX) or os.sep in text:
        device = read_device(Path(text))
    else:
        own = own_devices()
        known = presets()
        if text in own:
            device = read_device(own[text])
        elif text in known:
            device = known[text]
        else:
            raise UnknownDeviceError(
                f"device {text!r}",
                expected=f"a file, or one of {', '.join([*known, *own])}",
                found="no such device",
                next_step=f"Describe it with `fusionx devices add {text} --target ...`.",
            )
    given = {name: value for name, value in overrides.items() if value is not None}
    unknown = sorted(set(given) - {field.name for field in fields(Device)})
    if unknown:
        raise TypeError(f"find_device: no such field of a device: {', '.join(unknown)}")
    return replace(device, **given)


def read_device(path: Path) -> Device:
    """Return what the file at `path` describes; `UnknownDeviceError` when it cannot be read."""
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(row, dict):
            raise ValueError(f"a JSON {type(row).__name__}")
        row.setdefault("name", path.stem)
        row["libraries"] = tuple(row.get("libraries") or ())
        return Device(**row)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        if isinstance(error, DeviceError):
            raise
        known = ", ".join(field.name for field in fields(Device))
        raise UnknownDeviceError(
            f"device file {path}",
            expected=f"a JSON object with some of {known}",
            found=f"{type(error).__name__}: {error}",
            next_step="Correct the file, or write it anew with `fusionx devices add`.",
        ) from error
