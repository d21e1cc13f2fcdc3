"""Programs of a language model, compiled once and kept: one for each size of a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tvm_fusionx.apps.compiled_apart import compile_apart
from tvm_fusionx.apps.decoder_programs import WantedDecoder
from tvm_fusionx.apps.freed import give_back
from tvm_fusionx.apps.kept_programs import KeptPrograms
from tvm_fusionx.apps.model_files import check_same, digest_of
from tvm_fusionx.apps.tokenizer import Tokenizer, from_json, tokenizer_of
from tvm_fusionx.build.library import Library
from tvm_fusionx.errors import InputError
from tvm_fusionx.gguf.decoder_relay import TOKENS
from tvm_fusionx.gguf.from_gguf import FLOAT32, INT8
from tvm_fusionx.gguf.read import read_gguf
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.targets import TargetLike
from tvm_fusionx.schedules import describe_processor, resolve_target

# Tokens of a step: one by one, and prompts in chunks.
CHUNKS = (1, 16, 64)

# Places of the cache: the smallest that a text fits. A step reads all of them, so that they double:
# each is compiled when a text first needs it.
BUCKETS = (512, 1024, 2048)

# Activations: bytes where the processor multiplies them, else floats.
AUTO = "auto"

TOKENIZER, CACHE = "tokenizer.json", "cache{}"


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
        processor = describe_processor(resolve_target(self.target))
        if self.activations == AUTO:
            has_bytes = isinstance(processor, Cpu) and processor.byte_dot is not None
            self.activations = INT8 if has_bytes else FLOAT32
        self.digest = digest_of(self.path)
        facts = {"model": self.digest, "chunks": self.chunks, "activations": self.activations}
        self._kept = KeptPrograms(self.folder, self.target, facts)
        self.own_folder = self._kept.folder

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
        try:
            kept = self._kept.read_text(TOKENIZER)
            if kept is not None:
                return from_json(kept)
        except (ValueError, KeyError, TypeError):
            self.on_stage("reading the tokenizer again: the kept one is damaged")
        self.on_stage("reading the model")
        made = tokenizer_of(read_gguf(self.path))
        check_same(self.path, self.digest)
        self._kept.write_text(TOKENIZER, made.to_json(), self.on_stage)
        return made

    def libraries(self, places: int) -> tuple[Library, ...]:
        """Return the programs with a cache of some places, the shortest step first.

        Raises
        ------
        ModelError
            The file is damaged or of an unknown kind.
        """
        return self._kept.libraries(
            CACHE.format(places), lambda kept: self._compile(places, kept), self.on_stage
        )

    def _compile(self, places: int, kept: Path) -> None:
        wanted = WantedDecoder(
            model=str(self.path),
            digest=self.digest,
            target=str(self.target),
            folder=str(kept),
            chunks=self.chunks,
            places=places,
            # A model that knows fewer places than the smallest cache has all that it knows.
            least_places=max((each for each in self.buckets if each < places), default=0) + 1,
            activations=self.activations,
        )
        compile_apart(wanted, self.on_stage)


def tokens_of(library: Library) -> int:
    """Return the tokens of a program's step."""
    return next(spec.shape[0] for spec in library.inputs if spec.name == TOKENS)
