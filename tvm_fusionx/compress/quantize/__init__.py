"""A model of floats to one of integers (QDQ), with a guard on its accuracy."""
