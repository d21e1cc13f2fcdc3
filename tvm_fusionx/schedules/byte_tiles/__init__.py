"""Products of bytes on registers that hold whole tiles."""
