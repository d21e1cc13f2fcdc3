"""GGUF file to Relay module: llama family and GPT-2, weights packed as in the file."""

from tvm_fusionx.gguf.from_gguf import from_gguf

__all__ = ["from_gguf"]
