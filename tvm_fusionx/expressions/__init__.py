"""Operators of our own, as tensor expressions that blocks are made of."""
