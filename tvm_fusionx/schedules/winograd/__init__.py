"""Convolutions by minimal filtering, with fewer multiplications."""
