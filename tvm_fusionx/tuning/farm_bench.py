"""A bench whose devices hang on the workers of a Ray cluster: a farm.

It asks the same questions as :class:`tvm_fusionx.tuning.bench.Bench`. Each runs as a whole on a
worker that has the device, with a bench of its own there; what a candidate does to the device stays
there, and a worker that is lost is replaced by another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np

from tvm_fusionx.devices import Device
from tvm_fusionx.devices.cluster import MOST_RETRIES, connect, has_device, measure_on
from tvm_fusionx.devices.own_records import device_fingerprint
from tvm_fusionx.errors import DeviceError, DeviceLostError
from tvm_fusionx.schedules import target_key
from tvm_fusionx.threads import threads as use_threads
from tvm_fusionx.threads import threads_in_use
from tvm_fusionx.tuning.bench import Answer, Bench, Timing
from tvm_fusionx.tuning.outcome import Outcome
from tvm_fusionx.tuning.task import Task


@dataclass(frozen=True)
class SentFile:
    """A file on its way to a worker."""

    name: str
    content: bytes


@dataclass(frozen=True)
class Place:
    """What a worker needs to make a bench of its own.

    Attributes
    ----------
    device, timing, processor
        As a bench has them; the tracker of a device is looked for by the worker.
    target
        What kernels are compiled for.
    threads
        How many a local device uses.
    """

    device: Device
    timing: Timing
    processor: str | None
    target: str
    threads: int


@dataclass
class FarmBench(Bench):
    """Devices of one kind on a Ray cluster; each question goes to one that is free.

    Parameters
    ----------
    address
        Of the cluster, as ``ray.init`` takes it.

    Raises
    ------
    MissingDependencyError
        Ray is not installed.
    DeviceError
        There is no such cluster.
    """

    address: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        connect(self.address)

    def call(self, function: Callable[..., Answer], *arguments: Any) -> Answer:
        """Return what a function says of a bench on a worker; files among `arguments` are sent.

        Raises
        ------
        DeviceError, DeviceLostError
            As :func:`tvm_fusionx.devices.cluster.measure_on`, or the worker compiles for another
            processor.
        """
        place = Place(
            self.device,
            self.timing,
            self.processor,
            target_key(self.device.tvm_target()),
            threads_in_use() if self.device.is_local else 0,
        )
        sent = _packed(arguments)
        return measure_on(
            self.address,
            self.device.name,
            call_there,
            place,
            tuple(self.back_off_seconds),
            function,
            sent,
            retries=MOST_RETRIES,
        )

    def expect(self) -> None:
        """Raise DeviceLostError where no worker has the device, and none comes."""
        for wait in self.back_off_seconds:
            self.sleep(wait)
            if has_device(self.address, self.device.name):
                return
        raise DeviceLostError(
            f"device {self.device.name}",
            expected=f"a worker of the Ray cluster {self.address} that has it",
            found=f"none within {sum(self.back_off_seconds):g} s",
            next_step="All trials so far are kept. Start its worker, then tune again with "
            "--resume.",
        )

    def run(
        self,
        task: Task,
        path: Path,
        reference: Sequence[np.ndarray] | None,
        images: Mapping[int, str] | None = None,
    ) -> tuple[Outcome, list[np.ndarray] | None]:
        """Run a built candidate as :meth:`Bench.run` does, on a worker."""
        return self.call(_run, task, path, reference, dict(images or {}))


def call_there(
    place: Place, back_off_seconds: Sequence[float], function: Callable[..., Any], sent: Any
) -> Any:
    """Return what a function says of a bench on the machine that runs this."""
    if place.threads:
        use_threads(place.threads)
    _check_target(place)
    bench = Bench(place.device, place.timing, tuple(back_off_seconds), processor=place.processor)
    with TemporaryDirectory(prefix="fusionx-farm-") as folder, bench:
        return function(bench, *_unpacked(sent, Path(folder)))


def _check_target(place: Place) -> None:
    """Refuse a worker for which ``-mcpu=native`` is another processor."""
    here = target_key(place.device.tvm_target())
    if here != place.target:
        raise DeviceError(
            f"device {place.device.name}",
            expected=f"a worker that compiles for {place.target}",
            found=here,
            next_step="Give each kind of processor a name of its own, with its target in its "
            "description: `fusionx devices add`.",
        )


def identify(bench: Bench) -> tuple[str, str | None]:
    """Return the fingerprint of a bench's device, and its processor; for :meth:`Bench.call`."""
    fingerprint = device_fingerprint(bench.device, bench.session().facts())
    return fingerprint, bench.processor


def _run(
    bench: Bench,
    task: Task,
    path: Path,
    reference: Sequence[np.ndarray] | None,
    images: Mapping[int, str],
) -> tuple[Outcome, list[np.ndarray] | None]:
    return bench.run(task, path, reference, images)


def _packed(value: Any) -> Any:
    """Return a value with the content of each file in the place of its path."""
    if isinstance(value, Path):
        return SentFile(value.name, value.read_bytes())
    if isinstance(value, (list, tuple)):
        return type(value)(_packed(each) for each in value)
    return value


def _unpacked(value: Any, folder: Path) -> Any:
    if isinstance(value, SentFile):
        # Of its own folder: files of several may have one name.
        path = Path(mkdtemp(dir=folder)) / value.name
        path.write_bytes(value.content)
        return path
    if isinstance(value, (list, tuple)):
        return type(value)(_unpacked(each, folder) for each in value)
    return value
