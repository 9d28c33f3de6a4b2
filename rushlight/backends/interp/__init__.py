"""The interpreter: tile programs run in numpy, for tests and debugging."""
