"""Tell why a model was fused the way it was."""
