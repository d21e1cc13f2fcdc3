"""Blocks far from their limit, told without their weights, and built again elsewhere."""
