"""Convolutions, pooling, resizing and the norms of image networks."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tests.random_graphs.builder import GraphBuilder
from tests.random_graphs.rows.row import Row

SPATIAL_SIZES = {1: (6, 9, 12), 2: (4, 6, 7, 8), 3: (3, 4)}
PADDING_MODES = ("SAME_UPPER", "SAME_LOWER", "VALID")


def pick_image(g: GraphBuilder, spatial: int = 2, min_size: int = 1) -> str:
    """Return a float32 tensor of batch, channels and `spatial` axes."""

    def make() -> str:
        sizes = tuple(g.choose(SPATIAL_SIZES[spatial]) for _ in range(spatial))
        return g.add_input((g.choose((1, 1, 2)), g.choose((1, 2, 3, 4, 8, 16)), *sizes))

    return g.pick(
        lambda value: (
            value.rank == spatial + 2
            and value.dtype == "float32"
            and min(value.shape[2:]) >= min_size
            and value.shape[1] <= 32
        ),
        make,
    )


def draw_window(
    g: GraphBuilder, sizes: tuple[int, ...], largest: int, dilates: bool
) -> dict[str, Any]:
    """Draw kernel, strides, pads and dilations of a window that fits into `sizes`."""
    kernel = [g.integer(1, min(largest, size)) for size in sizes]
    attributes: dict[str, Any] = {"kernel_shape": kernel}
    if g.chance(0.5):
        attributes["strides"] = [g.choose((1, 2)) for _ in sizes]
    if dilates and g.chance(0.2):
        attributes["dilations"] = [
            2 if 2 * (edge - 1) < size else 1 for edge, size in zip(kernel, sizes, strict=True)
        ]
    if g.chance(0.2) and "dilations" not in attributes:
        attributes["auto_pad"] = g.choose(PADDING_MODES)
    elif g.chance(0.6):
        # A window that only sees padding has no maximum, so pads stay below the kernel's size.
        attributes["pads"] = [min(g.integer(0, 1), edge - 1) for edge in kernel * 2]
    return attributes


def draw_convolution(spatial: int, g: GraphBuilder) -> None:
    """Convolve: plain, grouped, depthwise or 1x1, with or without bias."""
    data = pick_image(g, spatial)
    channels, *sizes = g.shape(data)[1:]
    largest = 3 if spatial > 1 else 5
    attributes = draw_window(g, tuple(sizes), largest, dilates=True)
    groups = g.choose([n for n in (1, 1, 2, channels) if channels % n == 0])
    outputs = groups * g.choose((1, 2, 3, 4) if groups > 1 else (1, 2, 3, 8, 16, 20))
    weight_shape = (outputs, channels // groups, *attributes["kernel_shape"])
    operands = [data, g.add_constant(g.draw_array(weight_shape, "float32", -0.5, 0.5))]
    if g.chance(0.5):
        operands.append(g.add_constant(g.draw_array((outputs,), "float32", -0.5, 0.5)))
    if groups > 1 or g.chance(0.3):
        attributes["group"] = groups
    if g.chance(0.3):
        del attributes["kernel_shape"]  # may be inferred from the weights
    g.add("Conv", operands, **attributes)


def draw_transposed_convolution(g: GraphBuilder) -> None:
    """Convolve backwards, with output padding where the stride allows it."""
    data = pick_image(g)
    channels = g.shape(data)[1]
    kernel = [g.integer(1, 3), g.integer(1, 3)]
    stride = [g.choose((1, 2)), g.choose((1, 2))]
    groups = g.choose([n for n in (1, 1, 2) if channels % n == 0])
    weight_shape = (channels, g.integer(1, 3), *kernel)
    operands = [data, g.add_constant(g.draw_array(weight_shape, "float32", -0.5, 0.5))]
    if g.chance(0.5):
        bias_shape = (weight_shape[1] * groups,)
        operands.append(g.add_constant(g.draw_array(bias_shape, "float32", -0.5, 0.5)))
    g.add(
        "ConvTranspose",
        operands,
        kernel_shape=kernel,
        strides=stride,
        group=groups if groups > 1 else None,
        pads=[min(1, edge - 1) for edge in kernel * 2] if g.chance(0.4) else None,
        output_padding=[step - 1 for step in stride] if g.chance(0.3) else None,
    )


def draw_pool(operator: str, spatial: int, g: GraphBuilder) -> None:
    """Pool windows: maximum, average or norm."""
    data = pick_image(g, spatial)
    sizes = g.shape(data)[2:]
    attributes = draw_window(g, sizes, largest=3, dilates=operator == "MaxPool")
    if operator != "LpPool" and "auto_pad" not in attributes:
        attributes["ceil_mode"] = g.choose((None, 0, 1))
    if operator == "AveragePool":
        attributes["count_include_pad"] = g.choose((None, 0, 1))
        if attributes.get("ceil_mode") and attributes["count_include_pad"]:
            # Whether the cells beyond the padding count differs between ONNX Runtime's releases.
            attributes["ceil_mode"] = 0
    if operator == "LpPool":
        attributes["p"] = g.choose((None, 1, 2))
    g.add(operator, [data], exact=operator == "MaxPool", **attributes)


def draw_global_pool(operator: str, g: GraphBuilder) -> None:
    """Pool all of space."""
    data = pick_image(g, g.choose((1, 2, 2, 3)))
    g.add(operator, [data], exact=operator == "GlobalMaxPool")


# The combinations on which ONNX Runtime and the specification agree.
RESIZE_FORMS = (
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {
        "mode": "nearest",
        "coordinate_transformation_mode": "half_pixel",
        "nearest_mode": "round_prefer_floor",
    },
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"},
    {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
    {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    {"mode": "cubic", "coordinate_transformation_mode": "half_pixel"},
    {"mode": "cubic", "coordinate_transformation_mode": "align_corners", "cubic_coeff_a": -0.5},
)


def draw_resize(g: GraphBuilder) -> None:
    """Resize space by scales or to sizes."""
    data = pick_image(g, min_size=2)
    batch, channels, height, width = g.shape(data)
    form = g.choose(RESIZE_FORMS)
    # Before opset 13 an omitted operand had to be an empty tensor in many exporters' files.
    empty = "" if g.opset >= 13 else g.add_constant(np.zeros(0, np.float32))
    if g.chance(0.5):
        scales = [1.0, 1.0, *(g.choose((2.0, 2.0, 3.0, 1.0, 0.5)) for _ in range(2))]
        operands = [data, empty, g.add_constant(np.array(scales, np.float32))]
    else:
        sizes = [batch, channels, g.choose((height * 2, height + 1)), g.choose((width * 2, 3))]
        operands = [data, empty, empty, g.add_constant(np.array(sizes, np.int64))]
    g.add("Resize", operands, **form)


def draw_batch_norm(g: GraphBuilder) -> None:
    """Normalise by stored statistics."""
    data = pick_image(g, g.choose((1, 2, 2, 3)))
    channels = (g.shape(data)[1],)
    ranges = ((0.5, 1.5), (-0.5, 0.5), (-0.5, 0.5), (0.5, 2.0))
    operands = [g.add_constant(g.draw_array(channels, "float32", *bounds)) for bounds in ranges]
    g.add("BatchNormalization", [data, *operands], epsilon=g.choose((None, 1e-3)))


def draw_instance_norm(g: GraphBuilder) -> None:
    """Normalise every channel of every picture by its own statistics."""
    data = pick_image(g, g.choose((1, 2, 2)), min_size=2)
    channels = (g.shape(data)[1],)
    scale = g.add_constant(g.draw_array(channels, "float32", 0.5, 1.5))
    shift = g.add_constant(g.draw_array(channels, "float32", -0.5, 0.5))
    g.add("InstanceNormalization", [data, scale, shift], epsilon=g.choose((None, 1e-3)))


def draw_local_response(g: GraphBuilder) -> None:
    """Divide by the energy of neighbouring channels."""
    data = pick_image(g)
    g.add("LRN", [data], size=g.choose((3, 5)), alpha=0.05, beta=0.6, bias=g.choose((None, 1.5)))


ROWS: tuple[Row, ...] = (
    Row("Conv", partial(draw_convolution, 2), weight=4),
    Row("Conv", partial(draw_convolution, 1), weight=1),
    Row("Conv", partial(draw_convolution, 3), weight=0.7),
    Row("ConvTranspose", draw_transposed_convolution),
    Row("MaxPool", partial(draw_pool, "MaxPool", 2), weight=1.5),
    Row("MaxPool", partial(draw_pool, "MaxPool", 1), weight=0.5),
    Row("AveragePool", partial(draw_pool, "AveragePool", 2), weight=1.5),
    Row("AveragePool", partial(draw_pool, "AveragePool", 1), weight=0.5),
    Row("LpPool", partial(draw_pool, "LpPool", 2), weight=0.5),
    *(
        Row(name, partial(draw_global_pool, name))
        for name in ("GlobalAveragePool", "GlobalMaxPool")
    ),
    Row("Resize", draw_resize, weight=2),
    Row("BatchNormalization", draw_batch_norm, weight=2),
    Row("InstanceNormalization", draw_instance_norm),
    Row("LRN", draw_local_response, weight=0.6),
)
