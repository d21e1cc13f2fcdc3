"""DNNFusion's Table 3 as data: what fusing a producer with a consumer gives, how it is judged."""

from __future__ import annotations

from enum import Enum

from tvm_fusionx.operators import MappingType


class Verdict(Enum):
    """Colour of a cell."""

    FUSE = "green"
    DEPENDS = "yellow"
    BREAK = "red"


_ONE, _MANY, _ALL = MappingType.ONE_TO_ONE, MappingType.ONE_TO_MANY, MappingType.MANY_TO_MANY
_REORGANIZE, _SHUFFLE = MappingType.REORGANIZE, MappingType.SHUFFLE
_G, _Y, _R = Verdict.FUSE, Verdict.DEPENDS, Verdict.BREAK

# (producer, consumer) -> (colour, type of the two together). Result types are the paper's; the
# colour of One-to-Many with One-to-Many is nowhere stated and taken as yellow.
TABLE: dict[tuple[MappingType, MappingType], tuple[Verdict, MappingType]] = {
    (_ONE, _ONE): (_G, _ONE),
    (_ONE, _MANY): (_G, _MANY),
    (_ONE, _ALL): (_G, _ALL),
    (_ONE, _REORGANIZE): (_G, _REORGANIZE),
    (_ONE, _SHUFFLE): (_G, _SHUFFLE),
    (_MANY, _ONE): (_G, _MANY),
    (_MANY, _MANY): (_Y, _MANY),
    (_MANY, _ALL): (_R, _ALL),
    (_MANY, _REORGANIZE): (_Y, _MANY),
    (_MANY, _SHUFFLE): (_Y, _MANY),
    (_ALL, _ONE): (_G, _ALL),
    (_ALL, _MANY): (_Y, _ALL),
    (_ALL, _ALL): (_R, _ALL),
    (_ALL, _REORGANIZE): (_Y, _ALL),
    (_ALL, _SHUFFLE): (_Y, _ALL),
    (_REORGANIZE, _ONE): (_G, _REORGANIZE),
    (_REORGANIZE, _MANY): (_Y, _MANY),
    (_REORGANIZE, _ALL): (_Y, _ALL),
    (_REORGANIZE, _REORGANIZE): (_G, _REORGANIZE),
    (_REORGANIZE, _SHUFFLE): (_G, _REORGANIZE),
    (_SHUFFLE, _ONE): (_G, _SHUFFLE),
    (_SHUFFLE, _MANY): (_Y, _MANY),
    (_SHUFFLE, _ALL): (_Y, _ALL),
    (_SHUFFLE, _REORGANIZE): (_G, _REORGANIZE),
    (_SHUFFLE, _SHUFFLE): (_G, _SHUFFLE),
}

# Order of complexity; DNNFusion, footnote 1.
COMPLEXITY = (_ONE, _REORGANIZE, _SHUFFLE, _MANY, _ALL, MappingType.OPAQUE)


def combine(producer: MappingType, consumer: MappingType) -> tuple[Verdict, MappingType]:
    """Return the table's cell; anything with an opaque operator is red."""
    if MappingType.OPAQUE in (producer, consumer):
        return Verdict.BREAK, MappingType.OPAQUE
    return TABLE[producer, consumer]


def most_complex(*types: MappingType) -> MappingType:
    """Return the type that decides for an operator or block with several."""
    return max(types, key=COMPLEXITY.index)
