"""What a target offers: vectors, registers, caches, cores, rates, integer instructions."""
