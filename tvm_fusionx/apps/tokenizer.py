"""Text to tokens and back, and the template of a chat, as a GGUF file describes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_fusionx._tvm.presence import missing_package
from tvm_fusionx.errors import InputError, ModelError
from tvm_fusionx.gguf.read import GgufFile

# llama.cpp's types of tokens (``llama_token_type``) that text never is cut into by itself.
CONTROL, USER_DEFINED = 3, 4

# By llama.cpp's name, what cuts text before pairs are merged (``llama-vocab.cpp``): digits each
# alone; or an expression of its own in the place of GPT-2's.
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DIGITS_APART = "digits apart"
CUTS: dict[str, str | None] = {
    "gpt-2": None,
    "smollm": DIGITS_APART,
    "llama-bpe": LLAMA_3,
    "llama3": LLAMA_3,
}

Message = Mapping[str, str]


@dataclass(frozen=True)
class Tokenizer:
    """Cuts text into tokens."""

    definition: str
    """Of the ``tokenizers`` package, JSON."""

    begin: int | None
    """The token that every text begins with; None where none does."""

    ends: tuple[int, ...]
    """Tokens that end a text."""

    template: str | None
    """Jinja's, of a chat; None where the file has none."""

    def __post_init__(self) -> None:
        """Make what the definition describes."""
        try:
            import tokenizers
        except ModuleNotFoundError as error:
            raise missing_package(error) from error
        made = _understood(lambda: tokenizers.Tokenizer.from_str(self.definition))
        object.__setattr__(self, "_made", made)
        bytes_of = {letter: byte for byte, letter in byte_letters().items()}
        object.__setattr__(self, "_bytes", bytes_of)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; names of marks such as ``<|im_end|>`` are the marks.

        Raises
        ------
        InputError
            It has halves of pairs, as what is no UTF-8 becomes on a command line.
        """
        _check_whole(text)
        ids = list(self._made.encode(text, add_special_tokens=False).ids)  # type: ignore[attr-defined]
        return ids if self.begin is None else [self.begin, *ids]

    def parts(self, text: str) -> list[tuple[int, int]]:
        """Return the tokens of a text, each with the number of characters up to its end."""
        _check_whole(text)
        made: Any = self._made  # type: ignore[attr-defined]
        found = made.encode(text, add_special_tokens=False)
        return [(token, end) for token, (_, end) in zip(found.ids, found.offsets, strict=True)]

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return int(self._made.get_vocab_size())  # type: ignore[attr-defined]

    def piece(self, token: int) -> bytes:
        """Return the bytes of one token; those of a mark are none."""
        made: Any = self._made  # type: ignore[attr-defined]
        known = made.get_added_tokens_decoder().get(token)
        word = made.id_to_token(token)
        if word is None or (known is not None and known.special):
            return b""
        letters: dict[str, int] = self._bytes  # type: ignore[attr-defined]
        if known is not None:
            return word.encode()
        return bytes(letters[letter] for letter in word if letter in letters)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without marks."""
        return b"".join(map(self.piece, tokens)).decode("utf-8", "replace")

    def chat(self, messages: Sequence[Message]) -> str:
        """Return a chat as the text that the model goes on.

        Raises
        ------
        ModelError
            The file has no template, or it refuses the messages.
        """
        import jinja2
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        if self.template is None:
            raise _refusal("tokenizer.chat_template", "a template", "none", "Give plain text.")

        def refuse(message: str) -> None:
            raise jinja2.TemplateError(message)

        made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        made.globals["raise_exception"] = refuse
        words = {
            "bos_token": "" if self.begin is None else self._word(self.begin),
            "eos_token": self._word(self.ends[0]) if self.ends else "",
        }
        try:
            return made.from_string(self.template).render(
                messages=list(messages), add_generation_prompt=True, **words
            )
        except jinja2.TemplateError as error:
            raise _refusal(
                "tokenizer.chat_template", "a template for it", str(error), "Give plain text."
            ) from error

    def _word(self, token: int) -> str:
        return str(self._made.id_to_token(token))  # type: ignore[attr-defined]

    def to_json(self) -> str:
        """Return what :func:`from_json` reads."""
        names = ("definition", "begin", "ends", "template")
        return json.dumps({name: getattr(self, name) for name in names})


def from_json(text: str) -> Tokenizer:
    """Return a tokenizer that :meth:`Tokenizer.to_json` wrote."""
    held = json.loads(text)
    return Tokenizer(held["definition"], held["begin"], tuple(held["ends"]), held["template"])


def tokenizer_of(file: GgufFile) -> Tokenizer:
    """Return the tokenizer that a file describes.

    Raises
    ------
    ModelError
        It is of another kind than byte pairs (GPT-2's), or cuts text in an unknown way.
    MissingDependencyError
        The package ``tokenizers`` is not installed.
    """
    try:
        import tokenizers
        from tokenizers import decoders, models, pre_tokenizers
    except ModuleNotFoundError as error:
        raise missing_package(error) from error
    kind = str(file.get("tokenizer.ggml.model"))
    if kind != "gpt2":
        raise _refusal("tokenizer.ggml.model", "'gpt2' (byte pairs)", repr(kind), OTHER_MODEL)
    cut = str(file.get("tokenizer.ggml.pre", "gpt-2"))
    if cut not in CUTS:
        raise _refusal("tokenizer.ggml.pre", f"one of {list(CUTS)}", repr(cut), OTHER_MODEL)
    words = list(map(str, file.get("tokenizer.ggml.tokens")))
    merges = [tuple(pair.split(" ", 1)) for pair in file.get("tokenizer.ggml.merges")]
    vocabulary = {word: at for at, word in enumerate(words)}
    made = _understood(lambda: tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges)))
    made.pre_tokenizer = pre_tokenizers.Sequence(_cutters(CUTS[cut]))
    made.decoder = decoders.ByteLevel()
    types = list(file.get("tokenizer.ggml.token_type", [1] * len(words)))
    if len(types) != len(words):
        raise _refusal(
            "tokenizer.ggml.token_type", f"{len(words)} types", f"{len(types)}", OTHER_MODEL
        )
    for word, type_ in zip(words, types, strict=True):
        if type_ in (CONTROL, USER_DEFINED):
            added = tokenizers.AddedToken(word, special=type_ == CONTROL, normalized=False)
            made.add_special_tokens([added]) if type_ == CONTROL else made.add_tokens([added])
    begins = bool(file.get("tokenizer.ggml.add_bos_token", False))
    end = [file.metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot")]
    return Tokenizer(
        made.to_str(),
        int(file.get("tokenizer.ggml.bos_token_id")) if begins else None,
        tuple(dict.fromkeys(int(each) for each in end if each is not None)),
        file.metadata.get("tokenizer.chat_template"),
    )


OTHER_MODEL = "Use a model whose tokenizer is known, such as SmolLM2 or Llama 3."


def _understood(make: Callable[[], Any]) -> Any:
    """Return what the package makes of a description; it raises bare exceptions."""
    try:
        return make()
    except Exception as error:
        raise _refusal(
            "tokenizer.ggml.merges",
            "pairs of tokens, a space between, and tokens of them",
            f"what is none: {error}",
            "Copy or download the model again: it is damaged.",
        ) from error


def _check_whole(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            "text",
            expected="whole characters",
            found=f"half of a pair at character {error.start + 1}",
            next_step="Give text in UTF-8.",
        ) from error


def _cutters(cut: str | None) -> list[Any]:
    import tokenizers
    from tokenizers import pre_tokenizers

    if cut is None or cut == DIGITS_APART:
        apart = [pre_tokenizers.Digits(individual_digits=True)] if cut else []
        return [*apart, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    return [
        pre_tokenizers.Split(tokenizers.Regex(cut), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]


def byte_letters() -> dict[int, str]:
    """Return the letter that stands for each byte in GPT-2's vocabulary."""
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    letters = {byte: chr(byte) for byte in shown}
    return letters | {byte: chr(256 + place) for place, byte in enumerate(hidden)}


def _refusal(key: str, expected: str, found: str, next_step: str) -> ModelError:
    return ModelError(f"key {key!r}", expected=expected, found=found, next_step=next_step)
