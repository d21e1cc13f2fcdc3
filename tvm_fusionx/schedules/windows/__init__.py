"""Convolutions and pools: windows that move over an image."""
