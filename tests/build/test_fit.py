from __future__ import annotations

import numpy as np
import pytest

from tvm_fusionx.build.fit import fitted, varying_axes
from tvm_fusionx.build.library import Library
from tvm_fusionx.errors import InputError
from tvm_fusionx.inputs import InputSpec

Shape = tuple[int, ...]


def _program(inputs: dict[str, Shape], *outputs: Shape) -> Library:
    return Library(
        graph_json="{}",
        module=None,
        params={},
        model="m",
        target="llvm",
        inputs=tuple(InputSpec(name, shape, "int64") for name, shape in inputs.items()),
        outputs=tuple(
            InputSpec(f"output_{place}", shape, "float32") for place, shape in enumerate(outputs)
        ),
    )


# Tokens and their mask; a vector for each token, one for the text, and one for every four tokens.
TEXTS = [
    _program({"ids": (1, n), "mask": (1, n)}, (1, n, 3), (1, 3), (1, n // 4, 3))
    for n in (8, 16, 32)
]


def _ids(length: int) -> dict[str, np.ndarray]:
    return {"ids": np.arange(1, length + 1).reshape(1, -1), "mask": np.ones((1, length), "int64")}


def test_the_axes_that_differ() -> None:
    assert varying_axes(TEXTS) == {("ids", 1), ("mask", 1)}


@pytest.mark.parametrize(("length", "number"), [(1, 0), (8, 0), (9, 1), (16, 1), (17, 2), (32, 2)])
def test_the_smallest_that_is_large_enough(length: int, number: int) -> None:
    assert fitted(TEXTS, _ids(length)).number == number


def test_what_fits_is_not_touched() -> None:
    fit = fitted(TEXTS, _ids(16))
    assert not fit.padded
    assert fit.text() == "ids:[1,16] mask:[1,16]"
    whole = [np.zeros(spec.shape) for spec in fit.program.outputs]
    assert all(a.shape == b.shape for a, b in zip(fit.cut(whole), whole, strict=True))


def test_zeros_stand_behind_what_is_given_and_outputs_end_where_it_does() -> None:
    fit = fitted(TEXTS, _ids(10))
    assert fit.inputs["ids"].tolist() == [[*range(1, 11), *[0] * 6]]
    assert fit.inputs["mask"].tolist() == [[1] * 10 + [0] * 6]
    assert fit.text() == (
        "ids:[1,16] mask:[1,16]; zeros fill axis 1 of ids from 10, axis 1 of mask from 10"
    )
    outputs = fit.cut([np.zeros(spec.shape) for spec in fit.program.outputs])
    assert [output.shape for output in outputs] == [(1, 10, 3), (1, 3), (1, 3, 3)]


def test_two_axes_vary_apart() -> None:
    images = [
        _program({"x": (n, m)}, (n, m), (m, n)) for n, m in ((1, 8), (1, 16), (4, 8), (4, 16))
    ]
    fit = fitted(images, {"x": np.ones((3, 9), "int64")})
    assert fit.number == 3
    outputs = fit.cut([np.zeros((4, 16)), np.zeros((16, 4))])
    assert [output.shape for output in outputs] == [(3, 9), (9, 3)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (_ids(33), r"input 'ids': expected at most 32 along axis 1, .*ids:\[1,8\].*\[1,32\]"),
        ({"ids": _ids(8)["ids"]}, r"missing: 'mask'"),
        ({**_ids(8), "more": np.ones(1)}, r"input 'more'"),
        ({**_ids(8), "ids": np.ones(8, "int64")}, r"input 'ids': expected shape \(1, 8\)"),
        ({**_ids(8), "ids": np.ones((2, 8), "int64")}, r"input 'ids': expected shape \(1, 8\)"),
        ({**_ids(8), "ids": np.ones((1, 8), "int32")}, r"input 'ids': expected dtype int64"),
    ],
)
def test_what_does_not_fit_is_told(given: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(TEXTS, given)


def test_what_has_grown_stays_whole() -> None:
    joined = [_program({"x": (n,)}, (2 * n,)) for n in (4, 8)]
    fit = fitted(joined, {"x": np.ones(3, "int64")})
    assert fit.cut([np.zeros(8)])[0].shape == (8,)


def test_inputs_whose_axes_grow_together_are_given_alike() -> None:
    given = {"ids": np.ones((1, 7), "int64"), "mask": np.ones((1, 8), "int64")}
    message = r"inputs 'ids' and 'mask': expected the same .* of 8, 16, 32, .*found \[7\] and \[8\]"
    with pytest.raises(InputError, match=message):
        fitted(TEXTS, given)


def test_axes_that_no_program_tells_apart_are_given_alike_where_an_output_follows_one() -> None:
    squares = [(8, 8), (16, 16)]
    pair = {"x": np.ones((5, 7), "int64")}
    message = (
        r"^axis 0 of 'x', axis 1 of 'x': expected the same extents, .* axis 0 of 'output_0' may "
        r"follow any of them; found 5, 7. Pad the input so, or compile for a shape too in which"
    )
    with pytest.raises(InputError, match=message):
        fitted([_program({"x": shape}, shape) for shape in squares], pair)
    # The larger one fills its program.
    whole = {"x": np.ones((5, 8), "int64")}
    with pytest.raises(InputError, match="found 5, 8"):
        fitted([_program({"x": shape}, shape) for shape in squares], whole)
    classes = fitted([_program({"x": shape}, (10,)) for shape in squares], pair)
    assert classes.cut([np.zeros(10)])[0].shape == (10,)
    told_apart = [_program({"x": shape}, shape[::-1]) for shape in (*squares, (8, 16))]
    assert fitted(told_apart, pair).cut([np.zeros((8, 8))])[0].shape == (7, 5)


def test_an_input_that_is_no_array_is_told() -> None:
    with pytest.raises(InputError, match="input 'ids': expected an array"):
        fitted(TEXTS, {"ids": [[1, 2], [3]]})


def test_extents_that_no_program_combines() -> None:
    odd = [_program({"x": (1, 16)}, (1,)), _program({"x": (4, 8)}, (4,))]
    with pytest.raises(InputError, match="shapes that fit one of the programs"):
        fitted(odd, {"x": np.ones((4, 16), "int64")})
