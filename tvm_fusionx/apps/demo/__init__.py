"""A page on which people write text, ask and look at pictures; it is served on this machine."""
