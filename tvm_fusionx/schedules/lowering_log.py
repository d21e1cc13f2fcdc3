"""What was decided for each kernel in one scope of lowering."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm

from tvm_fusionx.late_passes.in_place import Pairs, in_places_of
from tvm_fusionx.late_passes.workspaces import Workspace
from tvm_fusionx.schedules.template import Refusal

# Reported as the template of blocks with extern operators, which TVM's own schedule serves.
TOPI_TEMPLATE = "topi"

# Attribute of a function that has its block's name (``ecg.to_relay.BLOCK_NAME``).
BLOCK_ATTRIBUTE = "fusionx.block"


@dataclass(frozen=True)
class LoweredBlock:
    """What was decided for one kernel."""

    name: str
    """Name of the kernel in the compiled library, without TVM's prefix."""

    template: str
    """Template used; "topi" where TVM's own schedule serves the block."""

    knobs: dict[str, int] = field(default_factory=dict)
    """Value of each knob of the template."""

    fallback_reason: str | None = None
    """Why a more specialised template was not used."""

    make: Callable[[], Any] | None = field(default=None, repr=False, compare=False)
    """Returns the scheduled PrimFunc; None where TVM's own schedule serves the block."""

    source: Any = field(default=None, repr=False, compare=False)
    """The PrimFunc before it was scheduled; None where TVM's own schedule serves the block."""

    is_tuned: bool = False
    """Whether the knobs are what a tuner chose among candidates that it measured."""

    refusals: tuple[Refusal, ...] = ()
    """Why each template that was tried before does not serve the block."""

    @property
    def func(self) -> Any:
        """Return the scheduled PrimFunc, made now where an earlier build had; or None."""
        return None if self.make is None else self.make()

    @property
    def key(self) -> str | None:
        """Return the structural hash that tuning records know the block by."""
        return None if self.source is None else block_hash(self.source)


def block_hash(func: Any) -> str:
    """Return the structural hash of an unscheduled block, the same in every process."""
    return str(tvm.ir.structural_hash(func))


@dataclass
class LoweringLog:
    """What was decided in one lowering scope."""

    entries: list[LoweredBlock] = field(default_factory=list)

    coverage: str = ""
    """How many blocks have tuning records, and what share of the time; known when the scope ended,
    where records were given."""

    workspaces: dict[str, Workspace] = field(default_factory=dict)
    """The memory that kernels ask for while they run, by symbol."""

    kernels: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """A CPU's lowered kernels that code is made of, by symbol; or what lowers one again, whose code
    was made before."""

    shared_kernels: dict[str, str] = field(default_factory=dict)
    """For the symbol of each kernel that passes its arguments on, that of the one with the code."""

    blocks: dict[str, str] = field(default_factory=dict)
    """For the symbol of each kernel that computes a block, the block's name."""

    hosts: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """Where kernels are a device's, the lowered functions that launch them, by symbol."""

    devices: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The lowered kernels of a device that code is made of, by symbol."""

    buffers: Mapping[str, str] = field(default_factory=dict)
    """Where images were asked for, why the results of kernels are none; by kernel, when ended."""

    on_entry: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)
    """Called after each of the entries."""

    on_lowered: Callable[[int, int], None] = field(
        default=lambda done, count: None, repr=False, compare=False
    )
    """Called while kernels for a CPU are lowered: how many are, of how many that differ."""

    on_code: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)
    """Called when all kernels are scheduled and lowered, before code is made of them."""

    in_place_of_code: Callable[[Any], Any] = field(
        default=lambda mod: mod, repr=False, compare=False
    )
    """Given the lowered functions of a CPU, returns those that code is made of."""

    on_device_kernels: Callable[[Any], None] = field(
        default=lambda mod: None, repr=False, compare=False
    )
    """Called with the lowered kernels of a GPU, equal ones too, before code is made of them."""

    def note_blocks(self, mod: Any) -> None:
        """Note which block each of a module's functions computes, where it says so."""
        for variable, func in mod.functions.items():
            if func.attrs is not None and BLOCK_ATTRIBUTE in func.attrs:
                self.blocks[str(variable.name_hint)] = str(func.attrs[BLOCK_ATTRIBUTE])

    @functools.cached_property
    def in_place(self) -> dict[str, Pairs]:
        """Return which results of which kernels may lie where an operand did, by symbol.

        It is proved when it is first asked for: only who plans memory needs it.
        """
        lowered = {
            symbol: kernel() if inspect.isfunction(kernel) else kernel
            for symbol, kernel in self.kernels.items()
        }
        found = {symbol: pairs for symbol, func in lowered.items() if (pairs := in_places_of(func))}
        shared = {one: found[first] for one, first in self.shared_kernels.items() if first in found}
        return {**found, **shared}

    def add(self, entry: LoweredBlock) -> None:
        """Add an entry, and tell so."""
        self.entries.append(entry)
        self.on_entry()
