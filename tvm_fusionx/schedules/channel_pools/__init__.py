"""The largest of windows of unblocked channels."""
