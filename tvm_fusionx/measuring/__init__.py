"""Asking the device: what blocks take, and what the unit steps of kernels cost."""

from tvm_fusionx.measuring.block_timer import BlockTimer
from tvm_fusionx.measuring.calibration import calibrate, calibrated_costs
from tvm_fusionx.measuring.places import costs_path, database_path, setting_of

__all__ = [
    "BlockTimer",
    "calibrate",
    "calibrated_costs",
    "costs_path",
    "database_path",
    "setting_of",
]
