"""Element by element, sums of rows, and moves."""
