"""Programs of a GGUF file's decoder, as the process compiles them that is started for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_fusionx.apps.compiled_apart import Wanted, save_compiled
from tvm_fusionx.apps.model_files import check_same
from tvm_fusionx.build.fused_build import build_fused, kernel_notes
from tvm_fusionx.build.library import Library, describe_library
from tvm_fusionx.build.programs import sharing_weights
from tvm_fusionx.errors import InputError
from tvm_fusionx.gguf.decoder_shape import decoder_shape
from tvm_fusionx.gguf.from_gguf import decoder_module, read_decoder
from tvm_fusionx.gguf.read import read_gguf
from tvm_fusionx.inputs import inputs_of
from tvm_fusionx.processors.targets import resolve_target


@dataclass(frozen=True)
class WantedDecoder(Wanted):
    """Programs of a language model with one length of cache."""

    chunks: tuple[int, ...]
    """Tokens of a step, for each program."""
    places: int
    """Of the cache; fewer where the model knows no later ones."""
    least_places: int
    """A model that knows fewer is refused."""
    activations: str
    """See :func:`tvm_fusionx.from_gguf`."""

    def compile_here(self, on_stage: Callable[[str], None]) -> None:
        """Compile in this process, and write library and weights into the folder.

        Raises
        ------
        ModelError
            The file is damaged or of an unknown kind, or was replaced.
        InputError
            The model knows shorter texts only.
        """
        path = Path(self.model)
        on_stage("reading the model")
        file = read_gguf(path)
        check_same(path, self.digest)
        context = decoder_shape(file).context
        if context < self.least_places:
            raise InputError(
                "text",
                expected=f"at most {context} tokens, prompt and answer together: the model knows "
                "no more",
                found=f"{self.least_places} at least",
                next_step="Shorten the prompt, or ask for fewer tokens.",
            )
        places = min(self.places, context)
        programs = sharing_weights(self._built(places, read_decoder(file), on_stage))
        # Weights were read from the file until now.
        check_same(path, self.digest)
        save_compiled(programs, self.folder)

    def _built(
        self, places: int, read: tuple[Any, Any], on_stage: Callable[[str], None]
    ) -> Sequence[Library]:
        count, described = len(self.chunks), []
        for number, tokens in enumerate(self.chunks):
            prefix = f"compiling program {number + 1} of {count}, kept for next time: "
            mod, params = decoder_module(
                *read, tokens=tokens, cache=places, activations=self.activations
            )
            build = build_fused(
                mod,
                self.target,
                params=params,
                name=f"program{number}",
                on_stage=lambda stage, prefix=prefix: on_stage(prefix + stage),  # type: ignore[misc]
            )
            described.append(
                describe_library(
                    build.library,
                    model=Path(self.model).name,
                    target=str(resolve_target(self.target)),
                    inputs=inputs_of(mod, params),
                    kernels=kernel_notes(build),
                )
            )
        return described
