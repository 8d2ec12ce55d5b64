"""Text files that the user names: one file, or all files below a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twoclocks.core.errors import UserError
from twoclocks.core.packed_text import PackedText
from twoclocks.data.folders import files_below
from twoclocks.data.text.documents import cut
from twoclocks.data.text.options import TextOptions
from twoclocks.data.text.packing import Event, Report, TextSource, pack_source
from twoclocks.data.text.reading import check_text, read_text

FILE_BITS = 40  # a document's number is the file's number, then its own in 40 bits


def pack(source: Path | str, out: Path | str, *, report: Report | None = None, **options: object) -> PackedText:
    """Pack text from the disk into the file ``out``; ``options`` are those of ``TextOptions``.

    ``source``: a UTF-8 file, or a folder: all files below it in the order of their names, except hidden ones.
    """
    chosen = TextOptions(**options)  # type: ignore[arg-type]
    return pack_source(open_source(source, chosen), out, chosen, report)


def open_source(source: Path | str, options: TextOptions) -> TextSource:
    """The documents of a file or folder; UserError if it has none. Every file is read once, to check it."""
    path = Path(source)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, ValueError):  # a name that is too long, or with a NUL character
        is_folder = exists = False
    if not exists:
        raise UserError(f"{path}: does not exist or cannot be reached; name a text file or a folder of text files")
    if not is_folder:
        return source_of_files(f"file {path.resolve().name}", {path.name: path}, options)
    skipped: list[str] = []
    found = sorted((file.relative_to(path).as_posix(), file) for file in files_below(path, skipped, hidden=False))
    if skipped and not options.skip_bad:
        raise UserError(skipped[0])
    if not found:
        raise UserError(f"{path}: has no files; name a folder of text files")
    return source_of_files(f"folder {path.resolve().name}", dict(found), options, path, skipped)


def source_of_files(
    words: str, files: dict[str, Path], options: TextOptions, root: Path | None = None, skipped: list[str] | None = None
) -> TextSource:
    """The documents of these files, by name; the packed file does not repeat ``root``, which is nobody's business."""
    good: list[tuple[str, Path]] = []
    size, bad = 0, sorted(skipped or [])
    for name, path in files.items():
        try:
            size += check_text(path)
            good.append((name, path))
        except UserError as error:
            if not options.skip_bad:
                raise
            bad.append(str(error))

    def events() -> Iterator[Event]:
        for number, (_, path) in enumerate(good):
            place = number << FILE_BITS
            for event in cut(read_text(path), options):
                if event is None:
                    yield place
                    place += 1
                else:
                    yield event

    def name_of(place: int) -> str:
        name = good[place >> FILE_BITS][0]
        return name if options.documents == "file" else f"{name}, document {place % (1 << FILE_BITS) + 1}"

    lines = tuple(line.replace(f"{root}/", "") for line in bad) if root else tuple(bad)
    is_running, paths = options.documents == "block", tuple(path for _, path in good)
    return TextSource(words, size, events, name_of, skipped=lines, is_running=is_running, files=paths)


def source_of_texts(words: str, texts: dict[str, str], options: dict[str, Any]) -> TextSource:
    """Documents that are in memory already, by name."""
    names, documents = list(texts), list(texts.values())

    def events() -> Iterator[Event]:
        for number, text in enumerate(documents):
            yield text
            yield number

    return TextSource(words, sum(map(len, documents)), events, names.__getitem__, options)
