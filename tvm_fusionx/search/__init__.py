"""Architecture search with the compiler in the loop: spaces, latencies, controllers, journals.

A candidate is plain data. What trains it and what times it are made of the same description, and
its latency is that of the kernels that this compiler makes of it.
"""
