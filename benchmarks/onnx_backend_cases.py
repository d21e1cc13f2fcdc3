"""The tests that the ONNX package brings along: models, inputs, and expected outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

# Tests whose expected numbers ONNX Runtime contradicts as well, or float64 where they are halves;
# each with what is wrong with them.
SATURATION = "the expected numbers wrap around where the definition saturates"
ROUNDING = "the expected zeros carry the reference's rounding errors, above the absolute tolerance"
CEIL_DIVISOR = "the expected divisor counts the rows that ceil_mode adds behind the padding"
HALVES = "the expected halves were rounded in each step: 1.4 units from float64's, ours 0.96"
BRAINS = (
    "the expected bfloat16 were rounded in each step: up to 1.3 units from float64's, ours at most "
    "half a unit, or 0.9 where the definition is written out"
)
DRAWN = "the expected numbers are those of another generator"
DISPUTED = {
    "test_bernoulli_double_expanded": DRAWN,
    "test_bernoulli_expanded": DRAWN,
    "test_bernoulli_seed_expanded": DRAWN,
    "test_attention_4d_causal_fp16_expanded": HALVES,
    "test_attention_3d_causal_bf16": BRAINS,
    "test_attention_3d_causal_bf16_expanded": BRAINS,
    "test_attention_4d_attn_mask_causal_bf16": BRAINS,
    "test_attention_4d_attn_mask_causal_bf16_expanded": BRAINS,
    "test_attention_4d_causal_bf16": BRAINS,
    "test_attention_4d_causal_bf16_expanded": BRAINS,
    "test_attention_4d_causal_padded_kv_bf16": BRAINS,
    "test_attention_4d_causal_padded_kv_bf16_expanded": BRAINS,
    "test_attention_4d_padded_kv_bf16": BRAINS,
    "test_attention_4d_padded_kv_bf16_expanded": BRAINS,
    "test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True": CEIL_DIVISOR,
    "test_dft_inverse": ROUNDING,
    "test_dft_inverse_opset19": ROUNDING,
    "test_qlinearmatmul_2D_int8_float16": SATURATION,
    "test_qlinearmatmul_2D_int8_float32": SATURATION,
    "test_qlinearmatmul_3D_int8_float16": SATURATION,
    "test_qlinearmatmul_3D_int8_float32": SATURATION,
}
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")


def list_cases() -> dict[str, Any]:
    """Return every packaged test by name, without those that need a download."""
    from onnx.backend.test import loader

    return {case.name: case for kind in KINDS for case in loader.load_model_tests(kind=kind)}


def load_values(path: Path, type_proto: Any) -> Any:
    """Read one input or output of a test: an array, a list of arrays, or None."""
    import onnx
    from onnx import numpy_helper

    content = path.read_bytes()
    kind = type_proto.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))


def load_data_sets(model_dir: Path, model: Any) -> list[tuple[list[Any], list[Any]]]:
    """Return (inputs, expected outputs) of every data set of a test."""
    data_sets = []
    for folder in sorted(model_dir.glob("test_data_set*")):
        sides = []
        for stem, infos in (("input", model.graph.input), ("output", model.graph.output)):
            count = len(list(folder.glob(f"{stem}_*.pb")))
            sides.append(
                [load_values(folder / f"{stem}_{i}.pb", infos[i].type) for i in range(count)]
            )
        data_sets.append((sides[0], sides[1]))
    return data_sets


def load_case(case: Any) -> tuple[Any, list[tuple[list[Any], list[Any]]]]:
    """Return a test's model and data sets: from its files, or as the package made them."""
    import onnx
    from onnx import numpy_helper

    if case.model_dir is not None:
        model = onnx.load(Path(case.model_dir) / "model.onnx")
        return model, load_data_sets(Path(case.model_dir), model)

    def value(item: Any) -> Any:
        if isinstance(item, onnx.TensorProto):
            return numpy_helper.to_array(item)
        return np.asarray(item) if isinstance(item, np.generic) else item

    sides = [([value(i) for i in a], [value(i) for i in b]) for a, b in case.data_sets]
    return case.model, sides


# Types that NumPy lacks, by the names of ml_dtypes, and what a compiled model's output holds.
HELD_AS = {"int2": "int8", "int4": "int8", "uint2": "uint8", "uint4": "uint8"}


def as_held(found: Any, wanted: Any) -> tuple[Any, Any]:
    """Return an output and the expected one as arrays of a type that NumPy knows."""
    name = str(wanted.dtype)
    if name in HELD_AS:
        return found, wanted.astype(HELD_AS[name])
    if name == "bfloat16" and found.dtype == wanted.dtype:
        return found.astype("float32"), wanted.astype("float32")
    return found, wanted
