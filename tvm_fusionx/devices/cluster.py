"""Measurements on a Ray cluster: each runs on a worker that has the device, one at a time there.

A worker says what hangs there by a custom resource, ``device:NAME``. What trains networks and what
tunes kernels ask the same way, so they share the devices, and wait for each other.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tvm_fusionx import errors
from tvm_fusionx._tvm.presence import install_command
from tvm_fusionx.errors import DeviceError, DeviceLostError, FusionXError, MissingDependencyError

Answer = TypeVar("Answer")

# Custom resource of a worker that has a device of this name.
DEVICE = "device:{}"
# A worker that is lost in mid-trial is replaced so often.
MOST_RETRIES = 3
# A device that no worker has any more is waited for so long: a board boots in about a minute.
PATIENCE_SECONDS = 120.0
# How often the cluster is asked whether it still has the device.
LOOK_SECONDS = 1.0


def connect(address: str) -> Any:
    """Return the module ``ray``, connected to a cluster.

    Raises
    ------
    MissingDependencyError
        Ray is not installed.
    DeviceError
        There is no such cluster.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "work on a Ray cluster",
            expected="the ray package",
            found=str(error),
            next_step=f"Install it with: {install_command('ray')}.",
        ) from error
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise DeviceError(
                f"Ray cluster {address}",
                expected="a cluster that answers",
                found=first_line(error),
                next_step="`ray start --head` starts one; `ray status` tells its address.",
            ) from error
    return ray


def has_device(address: str, device: str) -> bool:
    """Tell whether a worker of the cluster has a device of this name now."""
    return bool(connect(address).cluster_resources().get(DEVICE.format(device), 0.0) >= 1)


def measure_on(
    address: str,
    device: str,
    call: Callable[..., Answer],
    *arguments: Any,
    retries: int = 0,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Answer:
    """Return what a measurement says that runs where a device hangs: one at a time on each.

    Parameters
    ----------
    device
        A worker with the resource ``device:NAME`` runs it, and nothing else is measured there.
    call, arguments
        A function of a module that the workers have, and what it is given.
    retries
        How often it is tried elsewhere when the worker is lost.
    patience_seconds
        How long a device is waited for that no worker has any more.

    Raises
    ------
    DeviceError
        No worker has the device, the worker was lost, or the call failed; errors of this package
        come as they were raised there.
    DeviceLostError
        Its worker went away, and none came in its place.
    """
    ray = connect(address)
    name = DEVICE.format(device)
    if not has_device(address, device):
        raise DeviceError(
            f"device {device}",
            expected=f"a worker of the Ray cluster with the resource {name}",
            found=", ".join(sorted(ray.cluster_resources())),
            next_step=f"ray start --address=... --resources='{{\"{name}\": 1}}' where it hangs.",
        )
    task = ray.remote(_answer).options(num_cpus=0, resources={name: 1}, max_retries=retries)
    reference = task.remote(call, *arguments)
    try:
        _wait(ray, reference, address, device, patience_seconds)
        answer, problem = ray.get(reference)
    except ray.exceptions.RayError as error:
        raise DeviceError(
            f"device {device}",
            expected="a measurement",
            found=first_line(error),
            next_step="Look at its worker, and measure again.",
        ) from error
    except BaseException:
        # Whoever stops waiting shall not leave the device busy.
        ray.cancel(reference, force=True)
        raise
    if problem is not None:
        raise _raised_again(*problem)
    found: Answer = answer
    return found


def _wait(ray: Any, reference: Any, address: str, device: str, patience_seconds: float) -> None:
    """Return once the answer is there; Ray itself would wait for ever for a lost resource."""
    seen = time.monotonic()
    while not ray.wait([reference], timeout=LOOK_SECONDS)[0]:
        if has_device(address, device):
            seen = time.monotonic()
        elif time.monotonic() - seen > patience_seconds:
            raise DeviceLostError(
                f"device {device}",
                expected=f"a worker of the Ray cluster with the resource {DEVICE.format(device)}",
                found=f"none for {patience_seconds:g} s",
                next_step="Start its worker again, then go on with --resume: what was measured is "
                "kept.",
            )


Problem = tuple[str, str, str, str, str]
"""An error of this package: its class, and its four parts."""


def _answer(call: Callable[..., Any], *arguments: Any) -> tuple[Any, Problem | None]:
    try:
        return call(*arguments), None
    except FusionXError as error:
        parts = error.thing, error.expected, error.found, error.next_step
        return None, (type(error).__name__, *parts)


def _raised_again(name: str, thing: str, expected: str, found: str, next_step: str) -> FusionXError:
    kind = getattr(errors, name, DeviceError)
    made: FusionXError = kind(thing, expected=expected, found=found, next_step=next_step)
    return made


def first_line(error: BaseException) -> str:
    """Return the first line that an error says; a task's has its worker's traceback around it."""
    said = str(getattr(error, "cause", None) or error)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
