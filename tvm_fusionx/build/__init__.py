"""From a Relay module to a library: the order of passes, the build, what is saved and loaded."""
