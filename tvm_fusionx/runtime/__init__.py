"""The pool of threads that kernels run on: C++ with a C interface, built, found, installed."""
