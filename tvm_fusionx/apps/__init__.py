"""What people touch: text that goes on, and questions answered from a passage."""

# `generate` bears its module's name: imported here, it stands in the module's place for good.
from tvm_fusionx.apps.answers import Answer, ask
from tvm_fusionx.apps.generate import GenerationStats, generate
from tvm_fusionx.apps.likely_spans import LikelySpan, likeliest_span
from tvm_fusionx.apps.programs import TextPrograms
from tvm_fusionx.apps.sampling import Sampling
from tvm_fusionx.apps.text_model import TextModel

__all__ = [
    "Answer",
    "GenerationStats",
    "LikelySpan",
    "Sampling",
    "TextModel",
    "TextPrograms",
    "ask",
    "generate",
    "likeliest_span",
]
