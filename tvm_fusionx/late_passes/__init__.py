"""What runs on a kernel after it was scheduled, on its way to LLVM."""
