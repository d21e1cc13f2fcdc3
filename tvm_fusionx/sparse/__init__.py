"""Structured zeros of a constant: what is found, how it is stored, what it costs."""

from tvm_fusionx.sparse.lists import Lists, find_lists
from tvm_fusionx.sparse.pretend import pretend_pruned
from tvm_fusionx.sparse.storage import Storage, as_words, csr_bytes, store_lists

__all__ = [
    "Lists",
    "Storage",
    "as_words",
    "csr_bytes",
    "find_lists",
    "pretend_pruned",
    "store_lists",
]
