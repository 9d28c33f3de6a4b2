"""`rushlight mask NAME`: a picture of a mask of the library, as text or as a PNG file.

    rushlight mask causal --png
    rushlight mask sliding_window window=100 --length 4096 --png window.png

Packages are imported by name when the command runs: the other commands do without them.
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

NAME = "mask"
HELP = "draw a mask of the library"
MOST_PIXELS = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="a mask, as causal or sliding_window; 'list' shows them all")
    parser.add_argument(
        "parameters", nargs="*", default=[], metavar="NAME=NUMBER",
        help="as in window=64 or lengths=20,12,32",
    )  # fmt: skip
    parser.add_argument("--length", type=_size, default=64, help="queries and keys (64)")
    parser.add_argument("--block", type=_size, help="size of a block in the text")
    parser.add_argument(
        "--png", nargs="?", const="", metavar="FILE", help="write a heat map (NAME.png) too"
    )


def run(args: argparse.Namespace) -> int:
    gallery: Any = importlib.import_module("rushlight.attention.gallery")
    if args.name == "list":
        for name, (_, parameters) in gallery.GALLERY.items():
            print(name, *(f"{key}={_text(value)}" for key, value in parameters.items()))
        return 0
    try:
        given = dict(_parse(text) for text in args.parameters)
        mask_mod = gallery.mask_by_name(args.name, args.length, **given)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    create: Any = importlib.import_module("rushlight.attention.create")
    size = args.block or max(1, args.length // 32)
    mask = create.create_block_mask(mask_mod, None, None, args.length, args.length, BLOCK_SIZE=size)
    # Without the line that says which batch element and head this is: there is one.
    print(mask.to_string(grid_size=(40, 40)).partition("\n")[2], end="")
    print(f"{args.length} x {args.length}, {mask.sparsity():.1f} % in absent blocks of {size}")
    if args.png is None:
        return 0
    try:
        _write(args, mask_mod, create)
    except OSError as error:
        print(f"mask: {error}", file=sys.stderr)
        return 1
    return 0


def _size(text: str) -> int:
    size = int(text)
    if size < 1:
        raise argparse.ArgumentTypeError(f"{size} is not at least 1")
    return size


def _write(args: argparse.Namespace, mask_mod: Any, create: Any) -> None:
    heat: Any = importlib.import_module("rushlight.attention.heat")
    if args.length <= MOST_PIXELS:
        kept = create.create_mask(mask_mod, None, None, args.length, args.length)
        density, scale = kept.numpy()[0, 0], max(1, MOST_PIXELS // 2 // args.length)
    else:
        size = -(-args.length // MOST_PIXELS)  # a block is a pixel
        blocks = create.create_block_mask(
            mask_mod, None, None, args.length, args.length, BLOCK_SIZE=size
        )
        density, scale = blocks.density(MOST_PIXELS), 1
    path = Path(args.png or f"{args.name}.png")
    path.write_bytes(heat.png_of(density, scale))
    print(f"wrote {path}")


def _parse(text: str) -> tuple[str, int | list[int]]:
    name, _, value = text.partition("=")
    try:
        numbers = [int(part) for part in value.split(",")]
    except ValueError:
        raise ValueError(f"{text!r} is not NAME=NUMBER or NAME=NUMBER,NUMBER,...") from None
    return name, numbers if "," in value else numbers[0]


def _text(value: int | list[int]) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
