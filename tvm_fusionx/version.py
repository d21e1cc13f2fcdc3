"""The version of this package, where all that tells it reads it."""

VERSION = "0.1.0"
