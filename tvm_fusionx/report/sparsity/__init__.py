"""What zeros each layer of a model has, and what leaving them out would gain."""
