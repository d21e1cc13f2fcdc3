"""Candidates as vectors, for models that compare them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_fusionx.search.space import Choice, Space
from tvm_fusionx.search.space_file import PRUNING, pruning_of


class Encoding:
    """Candidates of a space as vectors, in which decisions that differ lie about 1 apart.

    Numbers are placed by their logarithm, words each on an axis of its own; pruning by its scheme
    and its rate. A decision that a candidate does not take has an axis too.
    """

    def __init__(self, space: Space) -> None:
        self._options: dict[str, tuple[Any, ...]] = {}
        for item in space.items:
            if isinstance(item, Choice):
                self._options[item.name] = item.options
                continue
            (count,) = (each for each in space.items if getattr(each, "name", "") == item.count)
            assert isinstance(count, Choice)
            for place in range(max(int(option) for option in count.options)):
                for choice in item.choices:
                    self._options[f"{item.prefix}{place}.{choice.name}"] = choice.options

    def __call__(self, candidate: Mapping[str, Any]) -> np.ndarray:
        """Return the vector of a candidate."""
        values: list[float] = []
        for name, options in self._options.items():
            found = candidate["choices"].get(name)
            if name.rpartition(".")[2] == PRUNING:
                pairs = [pruning_of(str(option)) for option in options]
                scheme, rate = ("", 0.0) if found is None else pruning_of(str(found))
                values += [float(scheme == known) for known in dict.fromkeys(p[0] for p in pairs)]
                values.append(rate)
            elif all(isinstance(option, (int, float)) for option in options):
                low, high = math.log(min(options)), math.log(max(options))
                is_taken = found is not None
                place = (math.log(found) - low) / ((high - low) or 1.0) if is_taken else 0.0
                values += [place, float(is_taken)]
            else:
                values += [float(found == option) for option in options]
        return np.array(values)
