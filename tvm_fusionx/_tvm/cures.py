"""Every touch of a private, version-dependent or buggy TVM API: one function each, and the reason.

Written against TVM 0.19, the last TVM with Relay.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from typing import Any

# TVM downloads schedule tables from the network when this is not NONE, and may fail the build.
os.environ.setdefault("TOPHUB_LOCATION", "NONE")

import tvm
from tvm import tir
from tvm.relay.backend import te_compiler
from tvm.rpc import base

from tvm_fusionx._tvm.linked_objects import WithObjects

# TVM's configuration of a build through our lowering; see `build_config`.
TIR_CONVERTER_NAME = "fusionx"

# AlterOpLayout packs weights inside the kernel on every run; MetaScheduleLayoutRewrite triggers
# DefuseOps, which unwraps every block. The others enter blocks to simplify what is simplified
# already, and compile and run a kernel for each constant they fold (20 s on PP-OCRv4 detection).
PASSES_THAT_UNDO_BLOCKS = (
    "AlterOpLayout",
    "MetaScheduleLayoutRewrite",
    "FoldConstant",
    "FoldScaleAxis",
    "SimplifyExpr",
    "SimplifyExprPostAlterOp",
)

_let_cure_lock = threading.RLock()
_let_cure_depth = 0


def build_config() -> dict[str, Any]:
    """Return the ``PassContext`` configuration under which TVM asks us for kernels.

    ``tir.disable_cse_tir`` avoids most of the float ``Let`` nodes that LLVM 22's verifier rejects.
    """
    return {
        "relay.backend.use_meta_schedule": True,
        "relay.backend.tir_converter": TIR_CONVERTER_NAME,
        "tir.disable_cse_tir": True,
        "tir.add_lower_pass": [(3, drop_lets())],
    }


def _is_rejected_by_llvm(dtype: str) -> bool:
    """Tell whether LLVM 22 rejects the debug record of a let-bound value of `dtype`."""
    data_type = tvm.DataType(dtype)
    return data_type.lanes > 1 or "float" in str(data_type)


def _drop_let(node: Any) -> Any:
    if isinstance(node, (tir.FloorDiv, tir.FloorMod)):
        return _floor_without_let(node)
    if _is_rejected_by_llvm(node.value.dtype):
        return tir.stmt_functor.substitute(node.body, {node.var: node.value})
    return None


def _floor_without_let(node: Any) -> Any:
    """Spell a floor division or modulo through the truncating one; TVM's lowering binds a Let."""
    a, b = node.a, node.b
    is_constant = isinstance(b, tir.IntImm) or (
        isinstance(b, tir.Broadcast) and isinstance(b.value, tir.IntImm)
    )
    if is_constant:
        return None
    zero = tir.const(0, node.dtype)
    remainder = tir.Mod(a, b)
    signs_differ = tir.Or(
        tir.And(tir.GT(remainder, zero), tir.LT(b, zero)),
        tir.And(tir.LT(remainder, zero), tir.GT(b, zero)),
    )
    if isinstance(node, tir.FloorMod):
        return tir.Add(remainder, tir.Select(signs_differ, b, zero))
    return tir.Sub(tir.Div(a, b), tir.Select(signs_differ, tir.const(1, node.dtype), zero))


def drop_lets() -> Any:
    """Return the TIR pass that replaces every let-bound float or vector by its value.

    LLVM 22's verifier fails with "location of #dbg_declare must be a pointer or int" on them.
    """

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.DropLets")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        body = tir.stmt_functor.ir_transform(
            func.body,
            None,
            _drop_let,
            ["tir.FloorDiv", "tir.FloorMod", "tir.Let", "tir.LetStmt"],
        )
        return func.with_body(body)

    return run


@contextlib.contextmanager
def let_cure() -> Iterator[None]:
    """Apply :func:`drop_lets` to everything built in this scope; undone at the end.

    ``tir.add_lower_pass`` alone is not enough: FoldConstant builds its functions with a fresh
    configuration, so ``relay.backend.build`` is wrapped as well. Scopes nest, from any thread.
    """
    global _let_cure_depth
    with _let_cure_lock:
        if _let_cure_depth == 0:
            _wrap_backend_build()
        _let_cure_depth += 1
    try:
        yield
    finally:
        with _let_cure_lock:
            _let_cure_depth -= 1
            if _let_cure_depth == 0:
                tvm.register_func("relay.backend.build", _original_backend_build, override=True)


_original_backend_build = tvm.get_global_func("relay.backend.build")


def _wrap_backend_build() -> None:
    cure = drop_lets()

    def build(mod: Any, target: Any, target_host: Any = None) -> Any:
        return _original_backend_build(cure(mod), target, target_host)

    tvm.register_func("relay.backend.build", build, override=True)


_concatenation_depth = 0
_library_information_depth = 0


@contextlib.contextmanager
def concatenation_as_expression() -> Iterator[None]:
    """Let x86 concatenations be tensor expressions in this scope, like those of other targets.

    TVM's x86 strategy makes an extern operator of ``concatenate``, which no schedule can fuse or
    traverse: a block with one then fails in TOPI's schedules with "Unsupported operator". Scopes
    nest, from any thread.
    """
    global _concatenation_depth
    from tvm import topi

    with _let_cure_lock:
        if _concatenation_depth == 0:
            topi.x86.concatenate = topi.transform.concatenate
        _concatenation_depth += 1
    try:
        yield
    finally:
        with _let_cure_lock:
            _concatenation_depth -= 1
            if _concatenation_depth == 0:
                topi.x86.concatenate = _original_concatenate


_original_concatenate = tvm.topi.x86.concatenate


@contextlib.contextmanager
def remembered_library_information() -> Iterator[None]:
    """Ask TVM for its build flags once, for all such scopes.

    Lowering an operator call reads the flag INDEX_DEFAULT_I64 once for each dimension, each time
    copying all 60 flags out of the library: 40 % of the time to build MiniLM. Scopes nest, from any
    thread.
    """
    global _library_information_depth
    with _let_cure_lock:
        if _library_information_depth == 0:
            te_compiler.libinfo = _information
        _library_information_depth += 1
    try:
        yield
    finally:
        with _let_cure_lock:
            _library_information_depth -= 1
            if _library_information_depth == 0:
                te_compiler.libinfo = _original_libinfo


_original_libinfo = te_compiler.libinfo


@functools.cache
def _information() -> dict[str, str]:
    return dict(_original_libinfo())


class _BeforeCodeGenerator:
    """Passes modules on their way to one of TVM's code generators through a function.

    TVM has no pass after the one that gives functions their calling convention. Scopes nest, from
    any thread; the innermost of a thread holds.
    """

    def __init__(self, generator: str) -> None:
        self.generator = generator
        self._local = threading.local()
        self._depth = 0
        self._original: Any = None

    @contextlib.contextmanager
    def __call__(self, change: Callable[[Any], Any]) -> Iterator[None]:
        """Pass every module that this thread builds in this scope through `change`.

        It returns a module, or one with objects that its functions call (:class:`WithObjects`).
        """
        if not hasattr(self._local, "changes"):
            self._local.changes = []
        with _let_cure_lock:
            if self._depth == 0:
                # Looked up now: TVM's OpenCL runtime brings a generator of its own when it loads.
                self._original = tvm.get_global_func(self.generator)
                tvm.register_func(self.generator, self._build, override=True)
            self._depth += 1
        self._local.changes.append(change)
        try:
            yield
        finally:
            self._local.changes.pop()
            with _let_cure_lock:
                self._depth -= 1
                if self._depth == 0:
                    tvm.register_func(self.generator, self._original, override=True)

    def _build(self, mod: Any, target: Any) -> Any:
        changes = getattr(self._local, "changes", [])
        changed = changes[-1](mod) if changes else mod
        if isinstance(changed, WithObjects):
            return changed.build(self._original, target)
        return self._original(changed, target)


before_llvm = _BeforeCodeGenerator("target.build.llvm")
before_opencl = _BeforeCodeGenerator("target.build.opencl")


# It drops the spans, which carry the names of the model's nodes, and serves only control flow,
# which `relay.build` meets again.
PASS_THAT_FORGETS_NAMES = "ToBasicBlockNormalForm"


def simplification_passes() -> list[Any]:
    """Return the passes that ``relay.build`` itself runs before fusion, less those we replace.

    Left out are :data:`PASSES_THAT_UNDO_BLOCKS`: our rules do their work, and constants are folded
    in numpy.
    """
    prefix = tvm.get_global_func("relay.backend.GetPassPrefixSeq")
    steps = prefix(True, False).passes
    left_out = (*PASSES_THAT_UNDO_BLOCKS, PASS_THAT_FORGETS_NAMES)
    return [step for step in steps if step.info.name not in left_out]


def connect_rpc(host: str, port: int, key: str, timeout_seconds: float) -> tuple[Any, Any]:
    """Return a session with an RPC server, and a handle of the socket that TVM holds.

    TVM keeps the socket to itself and waits on it for ever: when a phone is unplugged, a call never
    returns. The second handle can end that wait. The session is TVM's ``RPCSession``.

    Raises
    ------
    TVMError
        The server refuses, or the connection breaks.
    OSError
        The socket is gone before it is found.
    """
    from tvm import rpc

    before = _open_sockets()
    session = rpc.connect(host, port, key, session_timeout=timeout_seconds)
    # Other threads may have opened sockets too, to other servers.
    addresses = {place[4][0] for place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    for number in sorted(_open_sockets() - before):
        handle = _socket_to(number, addresses, port)
        if handle is not None:
            return session, handle
    raise OSError(f"no socket to {host}:{port} is open")


def _open_sockets() -> set[int]:
    """Return the numbers of this process's open files that are sockets."""
    numbers = set()
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError, ValueError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                numbers.add(int(name))
    return numbers


def _socket_to(number: int, addresses: set[Any], port: int) -> socket.socket | None:
    """Return a second handle of an open socket when its peer has one of these addresses."""
    handle = socket.socket(fileno=os.dup(number))
    with contextlib.suppress(OSError, IndexError, TypeError):
        address, peer_port, *_ = handle.getpeername()
        if address.removeprefix("::ffff:") in addresses and peer_port == port:
            return handle
    handle.close()
    return None


def forgive_lost_arrays() -> None:
    """Free remote arrays in silence when their device is gone; idempotent.

    Every other remote handle may outlive its connection. An array's raises in its ``__del__``,
    which Python prints with a long trace for each array of a phone that was unplugged.
    """
    array_base = tvm.runtime.NDArray.__mro__[1]
    original = array_base.__del__
    if getattr(original, "forgives", False):
        return

    def free(array: Any) -> None:
        try:
            original(array)
        except tvm.TVMError:
            if array.handle.contents.device.device_type < base.RPC_SESS_MASK:
                raise

    free.forgives = True  # type: ignore[attr-defined]
    array_base.__del__ = free


# Operators whose expressions TVM chooses for its own schedules: on GPUs Winograd with the weights
# transformed on every run, products cut for a small batch, and four channels to a texture's pixel.
# Each with the keys under which TVM has the definition; blocked ones it has for CPUs only.
KEYS_OF_DEFINITIONS = {
    "nn.conv": "generic",
    "nn.dense": "generic",
    "nn.matmul": "generic",
    "nn.batch_matmul": "generic",
    "nn.contrib_conv2d_NCHWc": "cpu",
    "nn.contrib_depthwise_conv2d_NCHWc": "cpu",
}

_direct_depth = 0


@contextlib.contextmanager
def direct_expressions() -> Iterator[None]:
    """Let convolutions and products for OpenCL be their definitions in this scope.

    TVM chooses an operator's expressions by the keys of the target, with a schedule for them. Our
    schedules want the definition, which targets of other keys get. Scopes nest, from any thread.
    """
    global _direct_depth
    with _let_cure_lock:
        if _direct_depth == 0:
            # Not the registered "relay.backend.lower_call": TVM asks for that once a process.
            te_compiler.select_implementation = _select_definition
        _direct_depth += 1
    try:
        yield
    finally:
        with _let_cure_lock:
            _direct_depth -= 1
            if _direct_depth == 0:
                te_compiler.select_implementation = _original_selection


_original_selection = te_compiler.select_implementation


def _select_definition(op: Any, attrs: Any, inputs: Any, out: Any, target: Any, **how: Any) -> Any:
    keys = [key for start, key in KEYS_OF_DEFINITIONS.items() if str(op.name).startswith(start)]
    if target.kind.name != "opencl" or not keys:
        return _original_selection(op, attrs, inputs, out, target, **how)
    strategies = logging.getLogger("strategy")
    was_disabled = strategies.disabled
    # It warns that the definition is not optimized for this platform.
    strategies.disabled = True
    try:
        definition = tvm.target.Target({"kind": "opencl", "keys": keys})
        return _original_selection(op, attrs, inputs, out, definition, **how)
    finally:
        strategies.disabled = was_disabled
