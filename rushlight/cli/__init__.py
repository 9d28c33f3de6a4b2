"""The command `rushlight`: one subcommand per file of this folder.

    rushlight compare model.py --backends llvm,c
    rushlight conformance BACKEND
    rushlight demo [options of examples/gpt.py]
    rushlight doctor
    rushlight explain script.py:LINE [options of the script]
    rushlight mask NAME [--png]
    rushlight names [--summary]
    rushlight package script.py --out FOLDER
    rushlight run script.py [options of the script]
    rushlight settings

To add a subcommand, write a module with `NAME`, `HELP`, `add_arguments(parser)` and `run(args) ->
int`, and add it to `COMMANDS`.
"""

import argparse
import sys

from rushlight.names.version import API, OWN

from . import compare, conformance, demo, doctor, explain, mask, names, package, run, settings

COMMANDS = (compare, conformance, demo, doctor, explain, mask, names, package, run, settings)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rushlight", description="Tools of Rushlight.")
    parser.add_argument(
        "--version", action="version", version=f"rushlight {OWN}, for PyTorch {API}"
    )
    subparsers = parser.add_subparsers(dest="command", metavar="command")
    for command in COMMANDS:
        # A command that hands its options on shows the help of their owner, not argparse's.
        passes_options = getattr(command, "PASSES_OPTIONS", False)
        sub = subparsers.add_parser(command.NAME, help=command.HELP, add_help=not passes_options)
        command.add_arguments(sub)
        sub.set_defaults(run=command.run, rest=[], passes_options=passes_options)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; gives the exit status."""
    parser = build_parser()
    args, rest = parser.parse_known_args(argv)
    if args.command is None:
        parser.print_help()
        return 2
    if rest and not args.passes_options:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    args.rest = rest
    try:
        return args.run(args)
    except BrokenPipeError:
        # The reader (`rushlight doctor | head`) has seen enough.
        sys.stderr.close()
        return 0
