"""Tuning: blocks, a device and a budget come in; records that make the model faster go out.

`docs/design/tuning.md` tells how it works.
"""

from tvm_fusionx.tuning.report import TuningReport
from tvm_fusionx.tuning.task import Task, collect_tasks
from tvm_fusionx.tuning.tune import tune

__all__ = ["Task", "TuningReport", "collect_tasks", "tune"]
