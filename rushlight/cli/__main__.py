"""`python -m rushlight.cli` is the command `rushlight`."""

from . import main

if __name__ == "__main__":
    raise SystemExit(main())
