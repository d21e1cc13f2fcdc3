"""The page's server around a tiny model with seeded weights, without a port."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.tiny_llama import Tiny, write_tiny
from tvm_fusionx.apps.demo.desk import Desk
from tvm_fusionx.apps.demo.pictures import PictureModels
from tvm_fusionx.apps.demo.server import Desks, make_app
from tvm_fusionx.apps.programs import TextPrograms
from tvm_fusionx.apps.text_model import TextModel

PLACES = 256


@cache
def tiny_model() -> TextModel:
    """Return a compiled tiny model; one for the process."""
    pytest.importorskip("tokenizers")
    folder = Path(tempfile.mkdtemp(prefix="fusionx-test-"))
    write_tiny(folder / "tiny.gguf", tiny=Tiny(layers=1, context=PLACES))
    programs = TextPrograms(
        folder / "tiny.gguf", folder=folder / "kept", chunks=(1,), buckets=(PLACES,)
    )
    model = TextModel(programs)
    model.reserve(1)
    return model


def desks(text: Any = None, pictures: Any = None) -> Desks:
    """Return desks; of a model that is not given, each job fails."""
    return Desks(
        Desk(lambda say: text() if callable(text) else text),
        Desk(lambda say: pictures or PictureModels("llvm -mcpu=native", say)),
        "tiny",
    )


def client(served: Desks, names: tuple[str, ...] = ()) -> Any:
    """Return what asks the server, in this process."""
    pytest.importorskip("flask")
    return make_app(served, names).test_client()


def events(response: Any) -> list[dict[str, Any]]:
    """Return what was streamed, the name of the job left out."""
    found = [json.loads(line) for line in response.get_data().splitlines() if line]
    assert "job" in found[0]
    return found[1:]
