"""Matrix products with what is fused around them."""
