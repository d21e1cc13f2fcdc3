"""Channels that are zero, or that nobody reads, leave the graph."""

from tvm_fusionx.rewrite.channels.drop import CHUNK, drop_dead_channels

__all__ = ["CHUNK", "drop_dead_channels"]
