"""What a model takes of memory, for people: a table and a picture of its arena over time."""
