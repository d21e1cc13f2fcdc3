"""Measure a model beside other runtimes."""
