"""What converters made of models, kept so that the next benchmark need not convert again."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.output_file import new_folder

# Beside what was converted: the seconds that it took.
SECONDS_FILE = "seconds.txt"
DIGITS = 16
CHUNK_BYTES = 1 << 20


class Conversions:
    """Folders of converted models, by runtime and by all that the conversion read.

    Parameters
    ----------
    root
        Where they are kept, made if need be; without it each lives as long as its scope. Files in
        it are never changed, so that several processes may share it. It may be deleted at any time.
    clock
        Tells the seconds that conversions take.

    Attributes
    ----------
    spared_s
        Seconds that the conversions took which were found and not made again.
    """

    def __init__(
        self, root: Path | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.root = root
        self.clock = clock
        self.spared_s = 0.0

    @contextlib.contextmanager
    def made(
        self, runtime: str, sources: Sequence[str | Path], convert: Callable[[Path], None]
    ) -> Iterator[Path]:
        """Yield the folder that `convert` has filled, now or before.

        Parameters
        ----------
        runtime
            Name of the runtime that it is for.
        sources
            All that the result depends on: files by path, and anything else, such as versions,
            shapes and the converter's options, as text.
        convert
            Writes into the folder that it is given. Where it raises, nothing is kept.
        """
        if self.root is None:
            with tempfile.TemporaryDirectory(prefix=f"fusionx-{runtime}-") as name:
                convert(Path(name))
                yield Path(name)
            return
        kept = self.root / f"{runtime}-{_digest(sources)}"
        told = kept / SECONDS_FILE
        if told.is_file():
            self.spared_s += float(told.read_text(encoding="ascii"))
        else:
            self.root.mkdir(parents=True, exist_ok=True)
            started = self.clock()
            with new_folder(kept) as folder:
                convert(folder)
                seconds = self.clock() - started
                (folder / SECONDS_FILE).write_text(f"{seconds:.3f}\n", encoding="ascii")
        yield kept


def _digest(sources: Sequence[str | Path]) -> str:
    """Return a digest of texts and of the contents of files, whatever the files are called."""
    digest = hashlib.sha256()
    for source in sources:
        if isinstance(source, Path):
            part = _digest_of_file(source)
        else:
            part = hashlib.sha256(source.encode()).digest()
        digest.update(part)
    return digest.hexdigest()[:DIGITS]


def _digest_of_file(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(CHUNK_BYTES):
            digest.update(part)
    return digest.digest()


def onnx_sources(model: Path) -> list[str | Path]:
    """Return the file and those of its weights that lie beside it, whatever holds them."""
    import onnx

    beside = {
        entry.value
        for tensor in _tensors_in(onnx.load(str(model), load_external_data=False))
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return [model, *(model.parent / name for name in sorted(beside))]


def _tensors_in(model: Any) -> Iterator[Any]:
    """Yield every tensor of a model: of graphs, branches and functions, and in attributes."""
    pending = [model]
    while pending:
        message = pending.pop()
        if message.DESCRIPTOR.name == "TensorProto":
            yield message
            continue
        for field, value in message.ListFields():
            if field.message_type is not None:
                pending.extend([value] if hasattr(value, "DESCRIPTOR") else value)


def shape_sources(inputs: Mapping[str, np.ndarray]) -> list[str]:
    """Return what a converter is told of the inputs."""
    return [f"{name} {value.dtype} {value.shape}" for name, value in inputs.items()]
