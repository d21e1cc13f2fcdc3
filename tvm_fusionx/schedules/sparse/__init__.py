"""Products with weights whose zeros are left out: dense ones, and windows over images."""
