"""A path, bytes or a ``ModelProto`` to one complete, checked ``ModelProto``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from tvm_fusionx._tvm.presence import install_command
from tvm_fusionx.errors import MissingDependencyError, ModelError

try:
    import onnx
    import onnx.inliner
except ImportError as error:
    raise MissingDependencyError(
        "reading an ONNX model",
        expected="the onnx package",
        found=str(error),
        next_step=f"Install it with: {install_command('onnx')}.",
    ) from error

from tvm_fusionx.frontend.sort_nodes import EXPORT_AGAIN, sort_model
from tvm_fusionx.frontend.tensors import check_external_data

ModelSource: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto"

# The newest opset and IR version that our converters were checked against.
NEWEST_OPSET = 28
NEWEST_IR_VERSION = 14
STANDARD_DOMAINS = ("", "ai.onnx")


def _read_bytes(content: bytes, thing: str) -> Any:
    try:
        return onnx.load_model_from_string(content)
    except Exception as error:
        raise ModelError(
            thing,
            expected="an ONNX model in protobuf form",
            found=f"{len(content)} bytes that do not parse ({type(error).__name__}: {error})",
            next_step=f"The file is truncated, corrupt or of another format. {EXPORT_AGAIN}",
        ) from error


def _read_path(path: Path) -> Any:
    if not path.is_file():
        found = "a directory" if path.is_dir() else "no such file"
        raise ModelError(
            str(path),
            expected="an ONNX file",
            found=found,
            next_step=f"Check the path; the current directory is {Path.cwd()}.",
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(
            str(path),
            expected="a readable ONNX file",
            found=str(error),
            next_step="Check the file's permissions.",
        ) from error
    model = _read_bytes(content, str(path))
    folder = path.resolve().parent
    check_external_data(model, folder, str(path))
    try:
        onnx.load_external_data_for_model(model, str(folder))
    except Exception as error:
        raise ModelError(
            str(path),
            expected=f"its external weights beside it in {folder}",
            found=str(error),
            next_step="Copy the .data files that were exported with the model next to it.",
        ) from error
    return model


def _check_is_whole(model: Any, thing: str) -> None:
    """Refuse what protobuf accepts although it is not a model, and models of the future."""
    if not model.graph.node and not model.graph.output:
        raise ModelError(
            thing,
            expected="an ONNX model with a graph",
            found="a message without nodes and outputs",
            next_step=f"The file is truncated, corrupt or of another format. {EXPORT_AGAIN}",
        )
    damaged = next((name for name in _texts(model.graph) if not isinstance(name, str)), None)
    if damaged is not None:
        raise ModelError(
            thing,
            expected="names in UTF-8",
            found=repr(damaged),
            next_step=f"The file is damaged. {EXPORT_AGAIN}",
        )
    _check_versions(model, thing)


def _texts(graph: Any) -> Iterator[Any]:
    """Yield all names of a graph and those within it; protobuf gives what is no text as bytes."""
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        yield from (info.name for info in (*current.input, *current.output))
        yield from (tensor.name for tensor in current.initializer)
        for node in current.node:
            yield from (node.op_type, node.domain, node.name, *node.input, *node.output)
            for attribute in node.attribute:
                yield attribute.name
                waiting.extend([attribute.g] if attribute.HasField("g") else attribute.graphs)


def _check_versions(model: Any, thing: str) -> None:
    newest = min(NEWEST_OPSET, onnx.defs.onnx_opset_version())
    version = opset_of(model)
    if not 0 < version <= newest:
        is_ours = version > NEWEST_OPSET or version < 1
        raise ModelError(
            thing,
            expected=f"ONNX opset {newest} or older",
            found=f"opset {version}",
            next_step=f"Export with opset_version={newest}, or use onnx.version_converter."
            if is_ours
            else f"Update the onnx package, which is {onnx.__version__}.",
        )
    if model.ir_version > NEWEST_IR_VERSION:
        raise ModelError(
            thing,
            expected=f"ONNX IR version {NEWEST_IR_VERSION} or older",
            found=f"IR version {model.ir_version}",
            next_step="Export with an older version of the exporter.",
        )


def opsets_of(model: Any) -> dict[str, int]:
    """Return the version of each operator set that `model` uses, ONNX's own by the empty name.

    Of several for one domain, as merged models have them, the newest.
    """
    versions: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain in STANDARD_DOMAINS else entry.domain
        versions[domain] = max(int(entry.version), versions.get(domain, 0))
    return versions


def opset_of(model: Any) -> int:
    """Return the version of ONNX's own operator set that `model` uses."""
    return opsets_of(model).get("", 1)


def check_source(source: Any) -> None:
    """Raise a TypeError where `source` is no path, no bytes and no model."""
    if not isinstance(source, (str, os.PathLike, bytes, onnx.ModelProto)):
        raise TypeError(
            f"from_onnx takes a path, bytes or an onnx.ModelProto, not {type(source).__name__}"
        )


def read_model(source: ModelSource) -> Any:
    """Return `source` as a ``ModelProto`` with its weights, its functions inlined, sorted.

    Parameters
    ----------
    source
        A path, the bytes of a file, or a loaded model (whose external data must be loaded too).

    Raises
    ------
    ModelError
        If the file is missing, unreadable, truncated, not ONNX, or of a newer opset.
    TypeError
        If `source` is none of the three.
    """
    check_source(source)
    if isinstance(source, (str, os.PathLike)):
        thing = os.fspath(source)
        model = _read_path(Path(source))
    elif isinstance(source, bytes):
        thing = "the model's bytes"
        model = _read_bytes(source, thing)
    else:
        thing = f"model {source.graph.name!r}"
        model = source
    _check_is_whole(model, thing)
    if model.functions:
        model = _inline_functions(model, thing)
    return sort_model(model, thing)


def _inline_functions(model: Any, thing: str) -> Any:
    try:
        # Functions of another opset than the model's are left for the translation.
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:
        raise ModelError(
            thing,
            expected="functions of the model that can be written out",
            found=" ".join(str(error).split()) or type(error).__name__,
            next_step="Export the model without functions, or inline them with onnx.inliner.",
        ) from error
