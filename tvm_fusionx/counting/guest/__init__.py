"""What runs in the emulated machine: sources, and a script for the other runtimes."""
