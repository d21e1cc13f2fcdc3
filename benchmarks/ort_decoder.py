"""A GGUF file's decoder as ONNX, with ONNX Runtime's own operators and weights of 4 or 8 bits.

The graph is what ONNX Runtime GenAI's builder of models writes: `MatMulNBits`, grouped attention
that turns queries and keys and keeps its cache in place, norms joined with the sum before them. The
levels of 4 bits are the file's own. Q4_1 adds a minimum to a block, `scale * level + minimum`;
`MatMulNBits` subtracts a zero point, `scale * (level - zero)`. One of 4 bits is the nearest of 16
to `-minimum / scale`, and moves the weights of a block by up to half a step, or more where that
lies beyond the 16; one in float32 moves none, but then ONNX Runtime unpacks weights to floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvm_fusionx.expressions.block_weights import BLOCK, NIBBLES_ZERO
from tvm_fusionx.gguf.block_tensor import BlockTensor, joined
from tvm_fusionx.gguf.decoder_shape import DecoderShape
from tvm_fusionx.gguf.decoder_weights import DecoderLayer, Linear, Norm, Weight
from tvm_fusionx.gguf.from_gguf import read_decoder

MICROSOFT = "com.microsoft"
OPSET, IR_VERSION = 17, 8

IDS, PLACES, FILLED, TOTAL, LOGITS = "ids", "places_of_tokens", "filled", "total", "logits"
PAST, PRESENT = "past_{}_{}", "present_{}_{}"
SIDES = ("key", "value")

# Operators of ONNX Runtime's own, beside those whose names begin with "Skip".
OWN = ("MatMulNBits", "GroupQueryAttention", "FastGelu")

# Of `MatMulNBits`.
BIAS_PLACE = 5

# `accuracy_level` of `MatMulNBits`: the data rounded to 8 bits, as GenAI's builder asks for.
BYTES = 4

# Weights lie beside the model, and are mapped.
DATA = "weights.bin"


class OrtDecoder:
    """Writes the ONNX model.

    Parameters
    ----------
    path
        The GGUF file.
    places
        Of the cache.
    rounds_zeros
        Whether zero points are rounded to 4 bits, so that the products of bytes are used; else
        they are floats.
    """

    def __init__(self, path: Path, places: int, *, rounds_zeros: bool) -> None:
        self.shape, self.weights = read_decoder(path)
        self.places, self.rounds_zeros = places, rounds_zeros
        self.moved = 0.0
        """How far rounded zero points move a weight, at most, in steps of its block."""
        self._nodes: list[Any] = []
        self._kept: list[Any] = []

    def write(self, path: Path) -> None:
        """Write the model, its weights beside it."""
        model = self._model()
        path.parent.mkdir(parents=True, exist_ok=True)
        # It would be added to.
        (path.parent / DATA).unlink(missing_ok=True)
        onnx.save_model(model, path, save_as_external_data=True, location=DATA)

    def _model(self) -> Any:
        shape, weights = self.shape, self.weights
        if shape.family.is_rotary:
            angles = np.arange(self.places)[:, None] * np.asarray(shape.frequencies)
            self._keep("cosines", np.cos(angles).astype("float32"))
            self._keep("sines", np.sin(angles).astype("float32"))
        x, added = self._rows("embedding", weights.embedding, IDS), ""
        cache = [1, shape.groups, self.places, shape.head_features]
        inputs = [
            helper.make_tensor_value_info(IDS, TensorProto.INT64, [1, "tokens"]),
            helper.make_tensor_value_info(FILLED, TensorProto.INT32, [1]),
            helper.make_tensor_value_info(TOTAL, TensorProto.INT32, []),
        ]
        if weights.places is not None:
            inputs.append(helper.make_tensor_value_info(PLACES, TensorProto.INT64, [1, "tokens"]))
            added = self._rows("places", weights.places, PLACES)
        outputs = [
            helper.make_tensor_value_info(LOGITS, TensorProto.FLOAT, [1, 1, shape.vocabulary])
        ]
        for number, layer in enumerate(weights.layers):
            for form, infos in ((PAST, inputs), (PRESENT, outputs)):
                for side in SIDES:
                    name = form.format(number, side)
                    infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, cache))
            x, added = self._layer(number, layer, x, added)
        x, _ = self._norm("norm", x, added, weights.norm)
        for name, number in (("last", -1), ("end", 2**31 - 1), ("along", 1)):
            self._keep(name, np.array([number], "int64"))
        x = self._node("Slice", [x, "last", "end", "along"])
        self._node("Identity", [self._product("head", Linear(weights.head), x)], results=[LOGITS])
        graph = helper.make_graph(self._nodes, "decoder", inputs, outputs, self._kept)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)

    def _layer(self, number: int, layer: DecoderLayer, x: str, added: str) -> tuple[str, str]:
        """Return the sum so far, and what the next norm adds to it."""
        name = f"layer{number}"
        normal, x = self._norm(f"{name}.attention_norm", x, added, layer.attention_norm)
        parts = [layer.query, layer.key, layer.value]
        sides = self._joined(f"{name}.query_key_value", parts, normal)
        angles = ["cosines", "sines"] if self.shape.family.is_rotary else []
        attended, *_ = self._several(
            "GroupQueryAttention",
            [*sides, *(PAST.format(number, side) for side in SIDES), FILLED, TOTAL, *angles],
            [f"{name}.attended", *(PRESENT.format(number, side) for side in SIDES)],
            num_heads=self.shape.heads,
            kv_num_heads=self.shape.groups,
            do_rotary=int(self.shape.family.is_rotary),
            rotary_interleaved=0,
        )
        attended = self._product(f"{name}.output", layer.output, attended)
        norm = layer.feed_forward_norm
        normal, x = self._norm(f"{name}.feed_forward_norm", x, attended, norm)
        up = self._product(f"{name}.up", layer.up, normal)
        if layer.gate is None:
            active = self._node("FastGelu", [up])
        else:
            gate = self._product(f"{name}.gate", layer.gate, normal)
            active = self._node("Mul", [gate, self._node("Sigmoid", [gate])])
            active = self._node("Mul", [active, up])
        return x, self._product(f"{name}.down", layer.down, active)

    def _rows(self, name: str, table: Weight, ids: str) -> str:
        self._keep(name, table.floats() if isinstance(table, BlockTensor) else table)
        return self._node("Gather", [name, ids])

    def _joined(self, name: str, parts: Sequence[Linear], x: str) -> list[str]:
        """Return the operands of attention: one product where the weights allow, else three."""
        whole = joined([part.weight for part in parts])
        if whole is None:
            return [self._product(f"{name}.{at}", part, x) for at, part in enumerate(parts)]
        biases = [part.bias for part in parts if part.bias is not None]
        linear = Linear(whole, np.concatenate(biases) if biases else None)
        return [self._product(name, linear, x), "", ""]

    def _norm(self, name: str, x: str, added: str, norm: Norm) -> tuple[str, str]:
        """Return the norm of a sum, and the sum."""
        terms = [self._keep(name, norm.gain)]
        if norm.bias is not None:
            terms.append(self._keep(f"{name}.bias", norm.bias))
        kind = "LayerNormalization"
        kind = kind if self.shape.family.is_centred else f"Simplified{kind}"
        epsilon = self.shape.epsilon
        if not added:
            return self._node(kind, [x, *terms], axis=-1, epsilon=epsilon), x
        normal, _, _, total = self._several(
            f"Skip{kind}",
            [x, added, *terms],
            [f"{name}.normal", "", "", f"{name}.sum"],
            epsilon=epsilon,
        )
        return normal, total

    def _product(self, name: str, linear: Linear, x: str) -> str:
        weight, bias = linear.weight, linear.bias
        if bias is not None:
            self._keep(f"{name}.bias", bias)
        if not isinstance(weight, BlockTensor):
            found = self._node("MatMul", [x, self._keep(name, weight.T)])
            return found if bias is None else self._node("Add", [found, f"{name}.bias"])
        rows, columns = weight.shape
        has_nibbles = weight.levels.dtype == np.uint8
        operands = [x, self._keep(f"{name}.levels", _levels(weight))]
        scales = weight.scales.view("float16").astype("float32")
        operands.append(self._keep(f"{name}.scales", scales.reshape(-1)))
        if weight.minima is not None:
            minima = weight.minima.view("float16").astype("float32")
            operands.append(self._keep(f"{name}.zeros", self._zeros(scales, minima)))
        if bias is not None:
            # Behind zero points and an order of columns, which need not be there.
            operands += [""] * (BIAS_PLACE - len(operands)) + [f"{name}.bias"]
        return self._node(
            "MatMulNBits",
            operands,
            K=columns,
            N=rows,
            bits=4 if has_nibbles else 8,
            block_size=BLOCK,
            accuracy_level=BYTES if self.rounds_zeros else 0,
        )

    def _zeros(self, scales: Any, minima: Any) -> Any:
        """Return what is subtracted from levels; a block of one number alone has no scale."""
        safe = np.where(scales == 0, np.float32(1), scales)
        zeros = -minima / safe
        if not self.rounds_zeros:
            return zeros.reshape(-1)
        whole = np.clip(np.rint(zeros), 0, 2 * NIBBLES_ZERO - 1)
        self.moved = max(self.moved, float(np.abs(whole - zeros)[scales != 0].max(initial=0)))
        return _pairs(whole.astype("uint8")).reshape(-1)

    def _keep(self, name: str, array: Any) -> str:
        self._kept.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _node(self, op: str, operands: list[str], results: Any = None, **attributes: Any) -> str:
        named = results or [f"{op}.{len(self._nodes)}"]
        return self._several(op, operands, named, **attributes)[0]

    def _several(
        self, op: str, operands: list[str], results: list[str], **attributes: Any
    ) -> list[str]:
        domain = MICROSOFT if op.startswith("Skip") or op in OWN else ""
        self._nodes.append(helper.make_node(op, operands, results, domain=domain, **attributes))
        return results


def _levels(weight: BlockTensor) -> Any:
    """Return levels as `MatMulNBits` has them: neighbours share a byte, none has a sign."""
    if weight.levels.dtype != np.uint8:
        return (weight.levels.astype("int16") + 128).astype("uint8")
    # In the file the second half of a block lies above the first.
    return _pairs(np.concatenate([weight.levels & 15, weight.levels >> 4], axis=-1))


def _pairs(numbers: Any) -> Any:
    """Return bytes of two neighbours along the last axis each, the first one below."""
    if numbers.shape[-1] % 2:
        numbers = np.concatenate([numbers, np.zeros_like(numbers[..., :1])], axis=-1)
    return numbers[..., 0::2] | (numbers[..., 1::2] << 4)


class OrtReader:
    """Reads tokens with a model that :class:`OrtDecoder` wrote, its cache in place.

    Parameters
    ----------
    path
        The ONNX file.
    shape
        Of the model.
    places
        Of the cache.
    threads
        Of ONNX Runtime.
    """

    def __init__(self, path: Path, shape: DecoderShape, places: int, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        self._binding = self._session.io_binding()
        self._position = 0
        self._takes_places = not shape.family.is_rotary
        extents = (1, shape.groups, places, shape.head_features)
        self._cache = []
        for number in range(shape.layers):
            for side in SIDES:
                # It lies in the array's memory: one each.
                array = np.zeros(extents, "float32")
                value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
                self._cache.append((array, value))
                self._binding.bind_ortvalue_input(PAST.format(number, side), value)
                self._binding.bind_ortvalue_output(PRESENT.format(number, side), value)

    def restart(self) -> None:
        """Forget what was read."""
        self._position = 0

    def read(self, tokens: Sequence[int]) -> Any:
        """Return the logits of what follows."""
        self._position += len(tokens)
        # The place of the last token, and how many there are. A binding does not keep arrays.
        given = {
            IDS: np.array([tokens], "int64"),
            FILLED: np.array([self._position - 1], "int32"),
            TOTAL: np.array(self._position, "int32"),
        }
        if self._takes_places:
            first = self._position - len(tokens)
            given[PLACES] = np.arange(first, self._position, dtype="int64")[None]
        for name, array in given.items():
            self._binding.bind_cpu_input(name, array)
        self._binding.bind_output(LOGITS, "cpu")
        self._session.run_with_iobinding(self._binding)
        # Bound last: what is bound again keeps its place.
        return self._binding.get_outputs()[-1].numpy()[0, 0]
