"""What the unit steps of kernels cost on a device: the constants of the cost model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tvm_fusionx.errors import RecordError
from tvm_fusionx.output_file import new_file
from tvm_fusionx.processors.rates import DEFAULT_RATES, calibrated

_CALIBRATED = calibrated()


@dataclass(frozen=True)
class DeviceCosts:
    """Rates of one device with one number of threads; all threads together.

    The defaults are what calibration measured on one machine; ``processors.json`` says which. Plans
    depend on their proportions, so they serve other processors too; they never change between two
    plans of one version, so that planning without a device is deterministic.
    """

    launch_us: float = DEFAULT_RATES.wake_up_us
    """Starting one kernel and joining its threads, microseconds."""

    memory_bytes_per_us: float = _CALIBRATED["memory_bytes_per_us"]
    """Traffic of tensors that do not fit in the cache."""

    cache_bytes_per_us: float = _CALIBRATED["cache_bytes_per_us"]
    """Traffic of tensors that do."""

    cache_bytes: int = _CALIBRATED["cache_bytes"]
    """Largest tensor that is still in the cache when the next kernel reads it."""

    products_per_us: float = _CALIBRATED["products_per_us"]
    """Multiply-and-add pairs in matrix products and convolutions."""

    elements_per_us: float = _CALIBRATED["elements_per_us"]
    """Results of cheap elementwise operators, in registers."""

    transcendentals_per_us: float = _CALIBRATED["transcendentals_per_us"]
    """Results of exponentials, logarithms, error functions and the like."""

    moved_per_us: float = _CALIBRATED["moved_per_us"]
    """Elements read or written out of order."""

    @classmethod
    def load(cls, path: str | Path) -> DeviceCosts:
        """Read what :meth:`save` wrote.

        Raises
        ------
        RecordError
            The file cannot be read, or does not hold exactly the rates, each above zero.
        """
        names = [rate.name for rate in fields(cls)]
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            if sorted(found) != sorted(names) or not all(float(found[n]) > 0 for n in names):
                raise ValueError(f"{str(found)[:80]}")
            return cls(**found)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise RecordError(
                f"device costs {path}",
                expected=f"a JSON object of positive numbers: {', '.join(names)}",
                found=f"{type(error).__name__}: {error}",
                next_step="Run `fusionx calibrate` again.",
            ) from error

    def save(self, path: str | Path) -> None:
        """Write the rates as JSON; a reader sees the old file or the whole new one.

        Raises
        ------
        OutputFileError
            The file cannot be written.
        """
        with new_file(path) as scratch:
            scratch.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


DEFAULT_COSTS = DeviceCosts()
