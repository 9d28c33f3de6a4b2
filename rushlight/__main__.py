"""`python -m rushlight` is the command `rushlight`."""

from rushlight.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
