"""Machine code of kernels, kept across builds: what did not change is not compiled again."""
