"""Where kernels run: this machine, a tracker's devices, a phone; and TVM's OpenCL runtime."""
