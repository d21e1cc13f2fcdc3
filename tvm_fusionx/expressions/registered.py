"""All operators of this room, made known to Relay."""

from __future__ import annotations

from tvm_fusionx.expressions.block_weights import register_block_weights
from tvm_fusionx.expressions.cached_attention import register_cached_attention
from tvm_fusionx.expressions.half_terms import register_half_terms
from tvm_fusionx.expressions.integer_products import register_integer_products
from tvm_fusionx.expressions.look_up import register_look_up
from tvm_fusionx.expressions.round_even import register_rounding
from tvm_fusionx.expressions.similar_products import register_similar_products
from tvm_fusionx.expressions.sparse_filters import register_sparse_filters
from tvm_fusionx.expressions.sparse_products import register_sparse_products
from tvm_fusionx.expressions.winograd import register_winograd


def register_expressions() -> None:
    """Register every operator that is defined here; those that are registered stay as they are."""
    register_winograd()
    register_integer_products()
    register_block_weights()
    register_sparse_products()
    register_sparse_filters()
    register_similar_products()
    register_rounding()
    register_look_up()
    register_cached_attention()
    register_half_terms()
