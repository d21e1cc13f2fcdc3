"""Which operator inputs decide a shape, and so must be known while compiling."""

from __future__ import annotations

from typing import Any

# ONNX operator -> positions of the inputs whose values decide an output's shape or layout.
SHAPE_LIKE_INPUTS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "Compress": (1,),
    "ConstantOfShape": (0,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (2,),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "If": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "ReduceL1": (1,),
    "ReduceL2": (1,),
    "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceSum": (1,),
    "ReduceSumSquare": (1,),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}


def inputs_needed_as_constants(model: Any) -> list[str]:
    """Return the graph inputs of `model` that feed a shape-like operator input directly."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    inputs = {info.name for info in model.graph.input} - initializers
    needed = {
        node.input[position]
        for node in model.graph.node
        for position in SHAPE_LIKE_INPUTS.get(node.op_type, ())
        if position < len(node.input) and node.input[position] in inputs
    }
    return sorted(needed)
