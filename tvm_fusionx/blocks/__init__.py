"""The blocks of one build: each scheduled once, or never where an earlier build did."""
