"""Rushlight: a complete deep-learning stack in readable Python, with PyTorch's API in front."""
