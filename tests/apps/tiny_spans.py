"""Small models that mark answers, as ONNX files, with a tokenizer of a few words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "won", "they", "red", "team", "."]
LOGITS = ("starts", "ends")
# The first model begins answers at "red" and ends them at "team".
START, END = WORDS.index("red"), WORDS.index("team")


def write_model(path: Path, names: tuple[str, ...] = ("input_ids", "attention_mask")) -> Path:
    """Write a model whose logits are 1 where a token begins or ends an answer, else 0."""
    nodes = []
    for name, token in (("starts", START), ("ends", END)):
        wanted = helper.make_tensor(f"{name}_token", TensorProto.INT64, [1], [token])
        nodes += [
            helper.make_node("Constant", [], [f"{name}_token"], value=wanted),
            helper.make_node("Equal", [names[0], f"{name}_token"], [f"{name}_is"]),
            helper.make_node("Cast", [f"{name}_is"], [f"{name}_float"], to=TensorProto.FLOAT),
            helper.make_node("Cast", [names[-1]], [f"{name}_mask"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"{name}_float", f"{name}_mask"], [name]),
        ]
    shape = ["batch", "tokens"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in names]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("starts", "ends")
    ]
    graph = helper.make_graph(nodes, "spans", inputs, outputs)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return path


def write_tokenizer(path: Path) -> Path:
    """Write a tokenizer of a few words."""
    import tokenizers
    from tokenizers import models, pre_tokenizers, processors

    made = tokenizers.Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    made.save(str(path))
    return path


# Of the random model.
FEATURES = 8
FAR_BELOW = 1e4


def write_random(path: Path, length: int | str = "tokens", seed: int = 0) -> tuple[Array, Array]:
    """Write a model of seeded weights whose tokens all see each other; return embedding and head.

    Parameters
    ----------
    length
        Of the texts it takes; a name for any.
    """
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((len(WORDS), FEATURES)).astype("float32")
    head = rng.standard_normal((FEATURES, 2)).astype("float32")
    constants = {
        "table": table,
        "head": head,
        "one": np.float32(1),
        "far": np.float32(FAR_BELOW),
        "first": np.int64(0),
        "second": np.int64(1),
        "rows": np.array([1], "int64"),
    }
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "input_ids"], ["x"]),
        node("Transpose", ["x"], ["turned"], perm=[0, 2, 1]),
        node("MatMul", ["x", "turned"], ["scores"]),
        node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        node("Sub", ["mask", "one"], ["hidden"]),
        node("Mul", ["hidden", "far"], ["below"]),
        node("Unsqueeze", ["below", "rows"], ["added"]),
        node("Add", ["scores", "added"], ["masked"]),
        node("Softmax", ["masked"], ["chances"], axis=-1),
        node("MatMul", ["chances", "x"], ["seen"]),
        node("MatMul", ["seen", "head"], ["logits"]),
        node("Gather", ["logits", "first"], ["starts"], axis=2),
        node("Gather", ["logits", "second"], ["ends"], axis=2),
    ]
    shape = [1, length]
    ids = ("input_ids", "attention_mask")
    graph = helper.make_graph(
        nodes,
        "random spans",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ids],
        [helper.make_tensor_value_info(each, TensorProto.FLOAT, shape) for each in LOGITS],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return table, head


def random_logits(weights: tuple[Array, Array], ids: list[int]) -> Array:
    """Return the logits ``[tokens, 2]`` of a text by numpy in double precision."""
    table, head = (each.astype("float64") for each in weights)
    x = table[ids]
    scores = x @ x.T
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    seen: Array = (chances / chances.sum(axis=1, keepdims=True)) @ x
    return seen @ head
