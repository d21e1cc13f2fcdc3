"""Choosing on a calibration set which layers reuse products, and how, under an accuracy guard."""
