"""GGUF file to Relay module: decoders of the llama family, their weights packed as in the file."""

from tvm_fusionx.gguf.from_gguf import from_gguf

__all__ = ["from_gguf"]
