"""A model to one with zeros where kernels can leave work out; see docs/design/pruning.md."""
