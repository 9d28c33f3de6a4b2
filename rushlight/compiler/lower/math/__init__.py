"""Bodies of the math functions in basic scalar ops; see decompose_math."""
