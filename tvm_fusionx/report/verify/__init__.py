"""Compare every block and the whole model with a reference."""
