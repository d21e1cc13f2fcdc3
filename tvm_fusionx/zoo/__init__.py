"""Real models to compile, measure and test with, made or found on this machine without a network.

>>> from tvm_fusionx import zoo
>>> exported = zoo.export("ppocr-det", "det.onnx")
>>> inputs = zoo.sample_inputs(exported)

Everything of ``zoo.names()`` is exported at batch 1, and measured in the tables; what is in
``zoo.further_names()`` is there to try. ``zoo.summary(name)`` says at which size, and where a model
is cut before steps whose shapes depend on the data. Models without trained weights get random ones
with the statistics of trained ones, the same every time.
"""

from __future__ import annotations

from tvm_fusionx.zoo.catalog import (
    ExportedModel,
    export,
    further_names,
    names,
    random_inputs,
    sample_inputs,
    summary,
)
from tvm_fusionx.zoo.language_models import default_language_model
from tvm_fusionx.zoo.pictures import draw_text, ocr_input
from tvm_fusionx.zoo.sentences import cosine_similarity, mean_pooled, sentence_inputs
from tvm_fusionx.zoo.text_boxes import draw_boxes, find_text_boxes

__all__ = [
    "ExportedModel",
    "cosine_similarity",
    "default_language_model",
    "draw_boxes",
    "draw_text",
    "export",
    "find_text_boxes",
    "further_names",
    "mean_pooled",
    "names",
    "ocr_input",
    "random_inputs",
    "sample_inputs",
    "sentence_inputs",
    "summary",
]
