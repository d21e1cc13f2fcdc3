"""Programs of a language model, compiled once and kept: one for each size of a step.

Kept are files in a folder named by what they were made from: the model's bytes, the target, and the
versions of all that compiles. Each is written whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tvm_fusionx.apps.compiled_apart import Wanted, compile_apart, load_compiled
from tvm_fusionx.apps.freed import give_back
from tvm_fusionx.apps.tokenizer import Tokenizer, from_json, tokenizer_of
from tvm_fusionx.build.library import Library, build_versions
from tvm_fusionx.cache_folder import cache_folder
from tvm_fusionx.errors import InputError, LibraryFileError, ModelError
from tvm_fusionx.gguf.decoder_relay import TOKENS
from tvm_fusionx.gguf.from_gguf import FLOAT32, INT8
from tvm_fusionx.gguf.read import read_gguf
from tvm_fusionx.output_file import new_file
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.targets import TargetLike
from tvm_fusionx.schedules import describe_processor, resolve_target

# Moves the folder of compiled models.
FOLDER_VARIABLE = "TVM_FUSIONX_TEXT"

# Tokens of a step: one by one, and prompts in chunks.
CHUNKS = (1, 16, 64)

# Places of the cache: the smallest that a text fits. A step reads all of them, so that they double:
# each is compiled when a text first needs it.
BUCKETS = (512, 1024, 2048)

# Activations: bytes where the processor multiplies them, else floats.
AUTO = "auto"

TOKENIZER, CACHE = "tokenizer.json", "cache{}"

# Of a digest in a folder's name.
DIGITS = 32
READ_BYTES = 1 << 20


def programs_folder() -> Path:
    """Return where compiled language models are kept."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    return Path(chosen) if chosen else cache_folder() / "text"


@dataclass
class TextPrograms:
    """A model's tokenizer and programs; what is missing in the folder is compiled when needed."""

    path: Path
    """The GGUF file."""
    target: TargetLike = "llvm -mcpu=native"
    folder: Path | None = None
    """Of all compiled models; the user's own by default."""
    chunks: tuple[int, ...] = CHUNKS
    buckets: tuple[int, ...] = BUCKETS
    activations: str = AUTO
    """What packed weights are multiplied by, ``"float32"`` or ``"int8"``: see
    :func:`tvm_fusionx.from_gguf`. ``"auto"`` becomes ``"int8"`` where the target's processor
    multiplies bytes, else ``"float32"``."""
    on_stage: Callable[[str], None] = field(default_factory=lambda: lambda stage: None, repr=False)
    """Told what is being done, in words."""

    def __post_init__(self) -> None:
        """Find the model's own folder."""
        resolved = resolve_target(self.target)
        processor = describe_processor(resolved)
        if self.activations == AUTO:
            has_bytes = isinstance(processor, Cpu) and processor.byte_dot is not None
            self.activations = INT8 if has_bytes else FLOAT32
        facts = {
            "model": _digest_of(self.path),
            "target": str(resolved),
            "processor": repr(processor),
            "versions": build_versions(),
            "chunks": self.chunks,
            "activations": self.activations,
        }
        name = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:DIGITS]
        self.own_folder = (self.folder or programs_folder()) / name
        self.own_folder.mkdir(parents=True, exist_ok=True)

    def bucket_for(self, tokens: int) -> int:
        """Return the places of the smallest cache that holds a text.

        Raises
        ------
        InputError
            None does.
        """
        for places in self.buckets:
            if tokens <= places:
                return places
        raise InputError(
            "text",
            expected=f"at most {self.buckets[-1]} tokens, prompt and answer together",
            found=str(tokens),
            next_step="Shorten the prompt, or ask for fewer tokens.",
        )

    def tokenizer(self) -> Tokenizer:
        """Return the model's tokenizer."""
        made = self._tokenizer()
        give_back()
        return made

    def _tokenizer(self) -> Tokenizer:
        kept = self.own_folder / TOKENIZER
        if kept.is_file():
            try:
                return from_json(kept.read_text(encoding="utf-8"))
            except (ValueError, KeyError, TypeError):
                self.on_stage("reading the tokenizer again: the kept one is damaged")
        self.on_stage("reading the model")
        made = tokenizer_of(read_gguf(self.path))
        with new_file(kept) as scratch:
            scratch.write_text(made.to_json(), encoding="utf-8")
        return made

    def libraries(self, places: int) -> tuple[Library, ...]:
        """Return the programs with a cache of some places, the shortest step first.

        Raises
        ------
        ModelError
            The file is damaged or of an unknown kind.
        """
        kept = self.own_folder / CACHE.format(places)
        if not kept.is_dir():
            self._compile(places, kept)
        try:
            return self._loaded(kept)
        except LibraryFileError:
            self.on_stage("compiling again: what was kept is damaged")
            self._compile(places, kept)
            return self._loaded(kept)

    def _loaded(self, kept: Path) -> tuple[Library, ...]:
        self.on_stage("loading")
        found = load_compiled(kept)
        give_back()
        return found

    def _compile(self, places: int, kept: Path) -> None:
        wanted = Wanted(
            model=str(self.path),
            target=str(self.target),
            chunks=self.chunks,
            places=places,
            activations=self.activations,
            folder=str(kept),
        )
        compile_apart(wanted, self.on_stage)


def tokens_of(library: Library) -> int:
    """Return the tokens of a program's step."""
    return next(spec.shape[0] for spec in library.inputs if spec.name == TOKENS)


def _digest_of(path: Path) -> str:
    if not path.is_file():
        raise ModelError(
            f"model {path}",
            expected="a GGUF file",
            found="no such file",
            next_step="Check the path, or leave the model out for SmolLM2.",
        )
    found = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(READ_BYTES):
            found.update(part)
    return found.hexdigest()
