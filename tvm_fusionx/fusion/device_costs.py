"""What the unit steps of kernels cost on a device: the constants of the cost model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tvm_fusionx.errors import RecordError
from tvm_fusionx.output_file import new_file


@dataclass(frozen=True)
class DeviceCosts:
    """Rates of one device with one number of threads; all threads together.

    The defaults are what calibration measured on two cores of a Zen 4 server with AVX-512. Plans
    depend on their proportions, so they serve other processors too; they never change between two
    plans of one version, so that planning without a device is deterministic.
    """

    launch_us: float = 2.0
    """Starting one kernel and joining its threads, microseconds."""

    memory_bytes_per_us: float = 40_000.0
    """Traffic of tensors that do not fit in the cache."""

    cache_bytes_per_us: float = 190_000.0
    """Traffic of tensors that do."""

    cache_bytes: int = 2 << 20
    """Largest tensor that is still in the cache when the next kernel reads it."""

    products_per_us: float = 115_000.0
    """Multiply-and-add pairs in matrix products and convolutions."""

    elements_per_us: float = 150_000.0
    """Results of cheap elementwise operators, in registers."""

    transcendentals_per_us: float = 2_650.0
    """Results of exponentials, logarithms, error functions and the like."""

    moved_per_us: float = 3_000.0
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
        except (OSError, ValueError, TypeError) as error:
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
