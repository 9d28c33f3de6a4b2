"""The graph and its tools. Names no op and no target."""
