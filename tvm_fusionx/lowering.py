"""The scope in which ``relay.build`` asks us for kernels.

TVM asks two questions for each block. The TIR converter turns the block's tensor expressions into
a PrimFunc: ours returns it already scheduled. The MetaSchedule database then must answer with a
schedule: ours answers with an empty trace. So a template may do anything to the TIR, not only
what a trace can express.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm.meta_schedule.database import PyDatabase, TuningRecord, Workload
from tvm.meta_schedule.utils import derived_object
from tvm.tir.schedule import Trace

from tvm_fusionx._tvm.cures import (
    TIR_CONVERTER_NAME,
    before_llvm,
    before_opencl,
    concatenation_as_expression,
    direct_expressions,
    let_cure,
    remembered_library_information,
)
from tvm_fusionx._tvm.executors import changed_executors, without_planned_images
from tvm_fusionx._tvm.guarded_builds import building_for
from tvm_fusionx._tvm.interrupts import interruptible
from tvm_fusionx._tvm.quick_calls import quick_calls
from tvm_fusionx.blocks.block import Block
from tvm_fusionx.blocks.kept_blocks import KeptBlocks
from tvm_fusionx.code_cache.compiled import CompiledKernels, kept_kernels
from tvm_fusionx.expressions.registered import register_expressions
from tvm_fusionx.expressions.similar_products import REUSED
from tvm_fusionx.late_passes.context import pass_context
from tvm_fusionx.late_passes.deferred_kernels import DeferredKernels
from tvm_fusionx.late_passes.flush_denormals import FLUSH, Denormals, check_denormals
from tvm_fusionx.late_passes.share_kernels import (
    call_shared_kernels,
    share_device_kernels,
    share_kernels,
)
from tvm_fusionx.late_passes.workspaces import workspaces_of
from tvm_fusionx.layout.blocked_sampling import register_sampling
from tvm_fusionx.operators.recurrent_operator import LAYER, register_recurrent
from tvm_fusionx.processors.targets import TargetLike, is_cpu
from tvm_fusionx.records import Record, coverage_text, load_records
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.gpu.float16 import compute_in_float32
from tvm_fusionx.schedules.gpu.functions import register_functions
from tvm_fusionx.schedules.gpu.images import images_for
from tvm_fusionx.schedules.gpu.textures import is_constant
from tvm_fusionx.schedules.handed_over import handed_over
from tvm_fusionx.schedules.lowering_log import (
    TOPI_TEMPLATE,
    LoweredBlock,
    LoweringLog,
    block_hash,
)
from tvm_fusionx.tir.indices import simplify_indices

logger = logging.getLogger(__name__)


class _Session:
    """The state of one scope: its target, records, log, and the blocks scheduled so far."""

    def __init__(
        self,
        target: tvm.target.Target,
        records: Mapping[str, Record],
        activation_images: bool,
        kept: CompiledKernels | None,
    ) -> None:
        self.target = target
        self.records = records
        self.log = LoweringLog()
        self.pending: Block | None = None
        self.groups: dict[str, int] = {}
        """For each kernel's symbol, a number that kernels of equal blocks share."""
        self.kernels: dict[str, str] = {}
        """For the symbol of each device kernel left out, that of the equal one."""
        self.images = images_for(target, activation_images)
        self.deferred = DeferredKernels(target) if is_cpu(target) else None
        self.kept = kept
        self._kept_blocks: KeptBlocks | None = None
        self._done: dict[int, list[Block]] = {}
        self._sources: dict[int, list[tuple[Any, Any]]] = {}

    def source(self, func: Any) -> Any:
        """Return the block that `func` is, with simple indices; one object for equal ones."""
        digest = tvm.ir.structural_hash(func)
        for known, source in self._sources.get(digest, []):
            if tvm.ir.structural_equal(known, func) and _constants(known) == _constants(func):
                return source
        source = simplify_indices(func)
        self._sources.setdefault(digest, []).append((func, source))
        return source

    def block(self, func: Any) -> Block:
        """Return what `func` becomes: one object for every structurally equal block."""
        digest = tvm.ir.structural_hash(func)
        for known in self._done.get(digest, []):
            source = known.source
            if tvm.ir.structural_equal(source, func) and _constants(source) == _constants(func):
                return known
        record = self.records.get(str(digest))
        planned = handed_over.take(func, self.target) if record is None else None
        block = Block(func, self.target, record, planned)
        if self.kept is not None:
            if self._kept_blocks is None:
                kept = self.kept
                self._kept_blocks = KeptBlocks(self.target, kept.denormals, kept.folder)
            self._kept_blocks.look_up(block)
        self._done.setdefault(digest, []).append(block)
        return block

    def is_tuned(self, func: Any) -> bool:
        """Tell whether candidates for `func`, a block not yet scheduled, were measured."""
        record = self.records.get(block_hash(func)) if self.records else None
        return record is not None and record.trials > 0

    def device_kernels(self, mod: Any) -> Any:
        """Return the device kernels that differ; TVM makes these before the host's functions."""
        own = self.images.in_kernels(mod)
        self.log.on_device_kernels(own)
        kept, names = share_device_kernels(own)
        self.kernels.update(names)
        self.log.devices.update({str(each.name_hint): f for each, f in kept.functions.items()})
        return compute_in_float32(kept)

    def note(self, name: str, block: Block) -> None:
        """Log what was decided of a kernel."""
        is_tuned = self.is_tuned(block.source)
        self.log.add(
            LoweredBlock(
                name, make=block.make, source=block.source, is_tuned=is_tuned, **block.facts()
            )
        )

    def host_functions(self, mod: Any) -> Any:
        """Return the host's functions, those of equal blocks compiled once."""
        self.log.note_blocks(mod)
        if self.deferred is not None:
            kept = self.kept
            kernels, names = self.deferred.fill(
                mod, self.log.on_lowered, kept.lower if kept is not None else None
            )
            own = {**workspaces_of(kernels), **(kept.workspaces if kept is not None else {})}
            shared = {name: own[first] for name, first in names.items() if first in own}
            self.log.workspaces.update({**own, **shared})
            functions = {str(each.name_hint): func for each, func in kernels.functions.items()}
            made: dict[str, Any] = {n: f for n, f in functions.items() if n not in names}
            self.log.kernels.update({**made, **(kept.lowered if kept is not None else {})})
            self.log.shared_kernels.update(names)
            self.log.on_code()
            code = self.log.in_place_of_code(kernels)
            return kept.with_objects(code) if kept is not None else code
        self.log.on_code()
        groups = {name: (key, self.images.key(name)) for name, key in self.groups.items()}
        hosts = share_kernels(call_shared_kernels(mod, self.kernels), groups)
        self.log.hosts.update({str(each.name_hint): f for each, f in hosts.functions.items()})
        return hosts


def _constants(func: Any) -> list[bool]:
    """Tell which parameters are constants of the model; structural equality ignores names."""
    return [is_constant(func.buffer_map[param]) for param in func.params]


_scopes = threading.local()


def _sessions() -> list[_Session]:
    if not hasattr(_scopes, "stack"):
        _scopes.stack = []
    return _scopes.stack


_default_converter = tvm.get_global_func("relay.backend.tir_converter.default")
_extern_converter = tvm.get_global_func("relay.backend.tir_converter.allow_extern")


def _convert(args: Any, constants: Any) -> Any:
    """Turn a block's tensor expressions into a scheduled PrimFunc, or None for extern operators."""
    func = _default_converter(args, constants)
    sessions = _sessions()
    if not sessions:
        return func
    is_ours = any(name in args[-1].op.attrs for name in (LAYER, REUSED))
    if func is None and is_ours and is_cpu(sessions[-1].target):
        func = _extern_converter(args, constants)
    session = sessions[-1]
    session.pending = None
    if func is None:
        name = str(args[-1].op.name)
        reason = "it contains an extern operator or a dynamic shape"
        session.log.add(LoweredBlock(name, TOPI_TEMPLATE, {}, reason))
        return None
    session.pending = block = session.block(session.source(func))
    if session.deferred is None:
        return block.func
    if session.kept is None:
        return session.deferred.placeholder(block.func)
    return session.deferred.placeholder(block.source, block)


def register() -> None:
    """Register our TIR converter and operators, and OpenCL's names of functions."""
    tvm.register_func(f"relay.backend.tir_converter.{TIR_CONVERTER_NAME}", _convert, override=True)
    register_expressions()
    register_recurrent()
    register_sampling()
    register_functions()


@derived_object
class _EmptyTraces(PyDatabase):
    """Answers every query with a trace that changes nothing: the kernel is scheduled already.

    FoldConstant asks too, for functions that the default converter made: unscheduled, but right.
    Answering None instead gave wrong numbers for blocks with tuple outputs.
    """

    def __init__(self, session: _Session) -> None:
        super().__init__()
        self.session = session

    def has_workload(self, mod: Any) -> bool:
        """Claim to know every block."""
        return True

    def commit_workload(self, mod: Any) -> Any:
        """Accept and forget a block."""
        return Workload(mod)

    def commit_tuning_record(self, record: Any) -> None:
        """Accept and forget a record."""

    def get_top_k(self, workload: Any, top_k: int) -> list[Any]:
        """Return no records: nothing is kept."""
        return []

    def get_all_tuning_records(self) -> list[Any]:
        """Return no records: nothing is kept."""
        return []

    def query_tuning_record(self, mod: Any, target: Any, workload_name: Any = None) -> Any:
        """Answer with the empty trace, and log the decision that was made by the converter."""
        pending, self.session.pending = self.session.pending, None
        if pending is not None:
            name = str(workload_name or "")
            self.session.groups[name] = id(pending)
            if self.session.deferred is None:
                self.session.images.add(name, pending.func)
            self.session.note(name, pending)
        return TuningRecord(Trace([], {}), Workload(mod), None, target, None)

    def query_schedule(self, mod: Any, target: Any, workload_name: Any = None) -> Any:
        """Answer nothing: only records are asked for in a build."""
        return None

    def query_ir_module(self, mod: Any, target: Any, workload_name: Any = None) -> Any:
        """Answer nothing: only records are asked for in a build."""
        return None

    def __len__(self) -> int:
        return 0


@contextlib.contextmanager
def lowering(
    target: TargetLike,
    records: str | Path | Mapping[str, Record] | None = None,
    device: str | None = None,
    activation_images: bool = False,
    denormals: Denormals = FLUSH,
    keep_code: bool = False,
) -> Iterator[LoweringLog]:
    """Schedule every block that ``relay.build`` meets in this scope with our templates.

    Enters its own ``PassContext`` at level 3, keeping the configuration, instruments and disabled
    passes of the one outside. Everything is undone when the scope ends. Scopes nest; each thread
    has its own.

    Parameters
    ----------
    target
        What is built for; give ``relay.build`` the same.
    records
        File of tuned records, a folder of such files (``*.jsonl``), or what
        ``tvm_fusionx.records.load_records`` returned. How much of the model they cover is logged.
    device
        As for ``tvm_fusionx.records.load_records``: the device whose records go before others.
    activation_images
        For OpenCL: whether tensors between kernels are images where both sides take whole pixels.
    denormals
        Whether kernels for CPUs ``"flush"`` numbers below the smallest normal one, or ``"keep"``.
    keep_code
        Whether kernels for CPUs are taken from where :func:`tvm_fusionx.kernel_cache` has them,
        and the others kept there. What ``relay.build`` returns then runs and exports as ever; its
        own source calls kernels that stand elsewhere.

    Yields
    ------
    LoweringLog
        Its `entries` say which template served each kernel, filled while building.

    Raises
    ------
    TargetError
        When TVM does not know the target, or images are asked for and it is not OpenCL.
    RecordError
        When the records cannot be read or are all of other targets.
    """
    check_denormals(denormals)
    resolved = resolve_target(target)
    chosen = records if isinstance(records, Mapping) else load_records(records, resolved, device)
    kept = kept_kernels(resolved, denormals) if keep_code else None
    session = _Session(resolved, chosen, activation_images, kept)
    register()
    with contextlib.ExitStack() as scope:
        scope.enter_context(interruptible())
        scope.enter_context(quick_calls())
        scope.enter_context(let_cure())
        scope.enter_context(concatenation_as_expression())
        scope.enter_context(direct_expressions())
        scope.enter_context(remembered_library_information())
        scope.enter_context(without_planned_images())
        scope.enter_context(changed_executors(session.images.place))
        scope.enter_context(before_opencl(session.device_kernels))
        scope.enter_context(before_llvm(session.host_functions))
        scope.enter_context(_EmptyTraces(session))
        scope.enter_context(session.images.watching())
        scope.enter_context(pass_context(resolved, denormals))
        scope.enter_context(building_for(resolved))
        _sessions().append(session)
        scope.callback(_sessions().pop)
        yield session.log
    session.log.buffers = session.images.plan.refusals
    if records is not None and session.log.entries:
        keys = [entry.key or "" for entry in session.log.entries]
        devices = {chosen[key].device for key in keys if key in chosen}
        said = logging.INFO if len(devices) == 1 else logging.WARNING
        session.log.coverage = coverage_text(keys, chosen)
        logger.log(said, "tuning records: %s", session.log.coverage)


def compile_kernel(
    func: Any, target: tvm.target.Target, name: str, denormals: Denormals = FLUSH
) -> Any:
    """Compile one scheduled block alone, exactly as a build of the model compiles it.

    Parameters
    ----------
    func, name, denormals
        What ``tvm_fusionx.schedules.schedule`` returned in `func`; the kernel's symbol in the
        module; see :func:`lowering`.

    Returns
    -------
    tvm.runtime.Module
        Not linked; its function `name` takes the parameters of `func`.
    """
    register_functions()
    with let_cure(), pass_context(target, denormals):
        return tvm.build(func, target=target, name=name)


__all__ = ["LoweredBlock", "LoweringLog", "compile_kernel", "lowering", "register"]
