"""Convolutions whose similar rows share products: hashing, products, and sums of them."""
