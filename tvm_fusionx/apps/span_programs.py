"""Programs of a model that marks answers, one for each length of a text; compiled once and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx._tvm.arrays import numpy_of
from tvm_fusionx._tvm.presence import missing_package
from tvm_fusionx.apps.compiled_apart import Wanted, compile_apart, save_compiled
from tvm_fusionx.apps.freed import give_back
from tvm_fusionx.apps.kept_programs import KeptPrograms
from tvm_fusionx.apps.model_files import digest_of, replaced
from tvm_fusionx.build.library import Library
from tvm_fusionx.build.programs import Programs, build_programs
from tvm_fusionx.errors import ModelError
from tvm_fusionx.processors.targets import TargetLike

Array = np.ndarray[Any, Any]

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
KNOWN_INPUTS = (IDS, MASK, TYPES)

# Tokens of a text, question and passage together: the least that holds them is taken, and compiled
# when a text first needs it. BERT's windows on SQuAD are the longest.
LENGTHS = (64, 128, 256, 384)

KIND, CHECK_PATH = "an ONNX file", "Check the path."
EXPORT_SPANS = "Export one that answers questions by spans."

# Of the folder of a length.
TOKENS = "tokens{}"


@dataclass(frozen=True)
class WantedSpans(Wanted):
    """The program of a model that marks answers, for one length."""

    names: tuple[str, ...]
    """Of its inputs."""
    length: int
    """Tokens of a text."""

    def compile_here(self, on_stage: Callable[[str], None]) -> None:
        """Compile in this process, and write library and weights into the folder.

        Raises
        ------
        ModelError
            The file is damaged, was replaced, or gives something else than logits of starts and
            ends.
        """
        _check_same(self)
        shape = (1, self.length)
        prefix = f"compiling for {self.length} tokens, kept for next time: "
        made = build_programs(
            self.model,
            self.target,
            [dict.fromkeys(self.names, shape)],
            model_name=Path(self.model).name,
            on_stage=lambda stage: on_stage(prefix + stage),
        )
        programs = made.programs if isinstance(made, Programs) else ()
        found = [each.shape for program in programs for each in program.outputs]
        if found[:2] != [shape, shape]:
            raise ModelError(
                f"model {self.model}",
                expected=f"logits of starts and of ends, {shape} each",
                found=f"results of {', '.join(map(str, found))}" if found else "other results",
                next_step=EXPORT_SPANS,
            )
        # Weights were read from the file until now.
        _check_same(self)
        save_compiled(programs, self.folder)


@dataclass
class SpanPrograms:
    """A model that marks answers, for texts of any of some lengths."""

    path: Path
    """The ONNX file."""
    target: TargetLike = "llvm -mcpu=native"
    folder: Path | None = None
    """Of all compiled models; the user's own by default."""
    lengths: tuple[int, ...] = LENGTHS
    """Tokens of a text, the fewest first; a model of a fixed length has that one."""
    on_stage: Callable[[str], None] = field(default_factory=lambda: lambda stage: None, repr=False)
    """Told what is being done, in words."""

    def __post_init__(self) -> None:
        """Read what the model takes, and find its own folder.

        Raises
        ------
        ModelError
            It cannot be read, or takes something else.
        """
        self.digest = model_digest(self.path)
        self.names, length = _inputs_of(self.path)
        if length is not None:
            self.lengths = (length,)
        self._kept = KeptPrograms(self.folder, self.target, {"model": self.digest})
        self.own_folder = self._kept.folder
        # Executors read weights where their libraries have them.
        self._made: dict[int, tuple[Library, Any]] = {}
        give_back()

    def length_for(self, tokens: int) -> int:
        """Return the least length that holds some tokens; the largest where none does."""
        return next((each for each in self.lengths if tokens <= each), self.lengths[-1])

    def prepare(self, length: int) -> None:
        """Have the program of a length ready.

        Raises
        ------
        ModelError
            The file is damaged, was replaced, or the model marks nothing.
        """
        if length not in self._made:
            (library,) = self._kept.libraries(
                TOKENS.format(length), lambda kept: self._compile(length, kept), self.on_stage
            )
            self._made[length] = library, library.executor(shares_weights=True)

    def run(self, **inputs: Array) -> Sequence[Array]:
        """Return the logits of starts and ends ``[1, length]`` of a text of one of the lengths.

        Parameters
        ----------
        inputs
            Whole numbers, ``[1, length]``, by name.
        """
        length = inputs[IDS].shape[1]
        self.prepare(length)
        library, executor = self._made[length]
        for spec in library.inputs:
            executor.set_input(spec.name, inputs[spec.name].astype(spec.dtype))
        executor.run()
        return [numpy_of(executor.get_output(place)) for place in range(2)]

    def _compile(self, length: int, kept: Path) -> None:
        wanted = WantedSpans(
            model=str(self.path),
            digest=self.digest,
            target=str(self.target),
            folder=str(kept),
            names=self.names,
            length=length,
        )
        compile_apart(wanted, self.on_stage)


def model_digest(path: str | Path) -> str:
    """Return the digest of an ONNX file and of those beside it that hold weights of it.

    Raises
    ------
    ModelError
        One of them cannot be read, or the file is no ONNX.
    """
    digest_of(path, KIND, CHECK_PATH)
    # Reading ONNX needs a package that the rest does not.
    from tvm_fusionx.frontend.tensors import external_files

    others = [Path(path).parent / name for name in external_files(_read(path))]
    return digest_of(path, KIND, CHECK_PATH, others)


def _check_same(wanted: WantedSpans) -> None:
    if model_digest(wanted.model) != wanted.digest:
        raise replaced(wanted.model)


def _inputs_of(path: Path) -> tuple[tuple[str, ...], int | None]:
    """Return the names of a model's inputs, and its texts' length where that is fixed."""
    graph = _read(path).graph
    weights = {each.name for each in graph.initializer}
    inputs = {each.name: each for each in graph.input if each.name not in weights}
    if IDS not in inputs or not set(inputs) <= set(KNOWN_INPUTS):
        raise ModelError(
            f"model {path}",
            expected=f"inputs of {', '.join(KNOWN_INPUTS)}",
            found=", ".join(inputs) or "none",
            next_step=EXPORT_SPANS,
        )
    extents = [each.dim_value for each in inputs[IDS].type.tensor_type.shape.dim]
    return tuple(inputs), (extents[1] if len(extents) > 1 and extents[1] > 0 else None)


def _read(path: str | Path) -> Any:
    """Return an ONNX model without the weights that lie in other files."""
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise missing_package(error) from error
    try:
        return onnx.load(str(path), load_external_data=False)
    except Exception as error:  # the package's own errors have no common class
        raise ModelError(
            f"model {path}", expected=KIND, found=str(error), next_step=CHECK_PATH
        ) from error
