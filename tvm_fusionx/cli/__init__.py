"""The ``fusionx`` command line: one file per command, thin over the Python API."""

from tvm_fusionx.cli.entry import main

__all__ = ["main"]
