"""What scheduling decided of a block, as bytes: kept beside the kernel's code."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from tvm_fusionx.code_cache.entry import DamagedEntryError, framed, unframed

MAGIC = b"fusionx schedule 1\n"


@dataclass(frozen=True)
class Decision:
    """How a block was scheduled, and which code it became: not the kernel, which is large.

    Attributes
    ----------
    template, knobs
        As ``tvm_fusionx.schedules.Scheduled`` has them.
    refusals
        Template and reason of each that was tried before.
    kernel
        The key of its code (:func:`tvm_fusionx.code_cache.keys.kernel_keys`).
    """

    template: str
    knobs: dict[str, int]
    refusals: tuple[tuple[str, str], ...]
    kernel: str

    def to_bytes(self, key: str) -> bytes:
        """Return the decision as it is kept under `key`."""
        return framed(MAGIC, json.dumps({"key": key, **asdict(self)}).encode())

    @classmethod
    def from_bytes(cls, held: bytes, key: str) -> Decision:
        """Read what was kept under `key`.

        Raises
        ------
        DamagedEntryError
            It is cut, changed, of another format, or of another key.
        """
        try:
            told = json.loads(unframed(MAGIC, held))
            if told["key"] != key:
                raise DamagedEntryError("another block")
            return cls(
                str(told["template"]),
                {str(name): int(value) for name, value in told["knobs"].items()},
                tuple((str(template), str(why)) for template, why in told["refusals"]),
                str(told["kernel"]),
            )
        except DamagedEntryError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedEntryError(f"no description: {error}") from error
