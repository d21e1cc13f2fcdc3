"""Programs of a language model, compiled once and kept: one for each size of a step.

Kept are files in a folder named by what they were made from: the model's bytes, the target, and the
versions of all that compiles. Each is written whole or not at all.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tvm_fusionx.apps.compiled_apart import (
    Wanted,
    check_same,
    compile_apart,
    digest_of,
    load_compiled,
)
from tvm_fusionx.apps.freed import give_back
from tvm_fusionx.apps.tokenizer import Tokenizer, from_json, tokenizer_of
from tvm_fusionx.build.library import Library, build_versions
from tvm_fusionx.cache_folder import cache_folder
from tvm_fusionx.errors import InputError, LibraryFileError, OutputFileError
from tvm_fusionx.gguf.decoder_relay import TOKENS
from tvm_fusionx.gguf.from_gguf import FLOAT32, INT8
from tvm_fusionx.gguf.read import read_gguf
from tvm_fusionx.output_file import make_folder, new_file
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
        self.digest = digest_of(self.path)
        facts = {
            "model": self.digest,
            "target": str(resolved),
            "processor": repr(processor),
            "versions": build_versions(),
            "chunks": self.chunks,
            "activations": self.activations,
        }
        name = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:DIGITS]
        self.own_folder = (self.folder or programs_folder()) / name
        with _movable():
            make_folder(self.own_folder)

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
        check_same(self.path, self.digest)
        with _movable(), new_file(kept) as scratch:
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
        found = self._loaded(kept)
        if found is None:
            with _movable(), self._alone(kept):
                # Another process may have made it meanwhile.
                found = self._loaded(kept)
                if found is None:
                    self._compile(places, kept)
                    found = load_compiled(kept)
        give_back()
        return found

    def _loaded(self, kept: Path) -> tuple[Library, ...] | None:
        """Return what is kept; None where there is nothing, or nothing whole."""
        if not kept.is_dir():
            return None
        self.on_stage("loading")
        try:
            return load_compiled(kept)
        except LibraryFileError:
            self.on_stage("compiling again: what was kept is damaged")
            return None

    @contextlib.contextmanager
    def _alone(self, kept: Path) -> Iterator[None]:
        """Have other processes wait that would compile the same; remove what killed ones left."""
        make_folder(self.own_folder)
        handle = os.open(self.own_folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if self._is_locked(handle):
                for left in kept.parent.glob(f".{kept.name}.*"):
                    shutil.rmtree(left, ignore_errors=True)
            yield
        finally:
            os.close(handle)

    def _is_locked(self, handle: int) -> bool:
        """Lock a folder until it is closed; return False where the file system has no locks."""
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.on_stage("waiting for another process, which compiles this model")
                fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            return False
        return True

    def _compile(self, places: int, kept: Path) -> None:
        wanted = Wanted(
            model=str(self.path),
            digest=self.digest,
            target=str(self.target),
            chunks=self.chunks,
            places=places,
            # A model that knows fewer places than the smallest cache has all that it knows.
            least_places=max((each for each in self.buckets if each < places), default=0) + 1,
            activations=self.activations,
            folder=str(kept),
        )
        compile_apart(wanted, self.on_stage)


@contextlib.contextmanager
def _movable() -> Iterator[None]:
    """Say of a folder that cannot be written how to choose another."""
    try:
        yield
    except OutputFileError as error:
        raise type(error)(
            error.thing,
            expected=error.expected,
            found=error.found,
            next_step=f"{error.next_step} {FOLDER_VARIABLE}=FOLDER keeps compiled models there.",
        ) from error


def tokens_of(library: Library) -> int:
    """Return the tokens of a program's step."""
    return next(spec.shape[0] for spec in library.inputs if spec.name == TOKENS)
