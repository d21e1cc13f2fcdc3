"""What people touch: text that goes on, and questions answered from a passage."""
