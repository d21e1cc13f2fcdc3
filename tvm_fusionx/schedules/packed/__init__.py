"""Products with weights that stay packed in memory: unpacked in registers, as they are loaded."""
