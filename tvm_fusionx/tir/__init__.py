"""Reading and changing TensorIR: stages, index maps, inlining, remainders."""
