"""Every touch of a private or buggy API of TVM 0.19, one function each."""
