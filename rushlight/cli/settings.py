"""`rushlight settings`: every setting, its value here and where that comes from."""

import argparse
import sys

from rushlight.base.config import SettingError, format_table

NAME = "settings"
HELP = "show every setting, its environment variable, its value and where that comes from"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command has no options."""


def run(args: argparse.Namespace) -> int:
    try:
        print(format_table())
    except SettingError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
