"""Every touch of a private or costly API of TVM's two tuners: one function each, and the reason."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from tvm_fusionx._tvm.script_parsing import TENSOR_INTRINSICS


@contextlib.contextmanager
def without_tensor_intrinsics() -> Iterator[None]:
    """Make a ``TuneContext`` in this scope without parsing all of TVM's tensor intrinsics.

    Its constructor imports all of them for schedule rules that may want them, which takes seconds.
    A space of knobs wants none. Where they are loaded already, nothing is done.
    """
    if TENSOR_INTRINSICS in sys.modules:
        yield
        return
    sys.modules[TENSOR_INTRINSICS] = types.ModuleType(TENSOR_INTRINSICS)
    try:
        yield
    finally:
        # Whoever wants them later imports the real ones.
        del sys.modules[TENSOR_INTRINSICS]


def knob_cost_model(task: Any) -> Any:
    """Return AutoTVM's cost model over the values of knobs.

    TVM's own extracts features in processes that it starts anew for each fit, two seconds each
    time, though a knob's feature is its value; and its loss "rank" fails with today's xgboost.
    """
    from tvm.autotvm.tuner.xgboost_cost_model import XGBoostCostModel

    class KnobTrees(XGBoostCostModel):
        def _reset_pool(self, space: Any, target: Any, task: Any) -> None:
            pass

        def _get_feature(self, indexes: Any) -> Any:
            return np.array([self.space.get(int(index)).get_flatten_feature() for index in indexes])

    return KnobTrees(task, "knob", loss_type="reg", num_threads=1, log_interval=None)
