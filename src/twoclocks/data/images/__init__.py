"""Images from the user's disk, packed once into one checked file. Needs the extra ``images`` for decoding alone."""

from twoclocks.core.packed_images import PackedImages, duplicates, read_packed, write_packed
from twoclocks.data.images.fetch import fetch
from twoclocks.data.images.options import PackOptions
from twoclocks.data.images.pack import pack_dataset
from twoclocks.data.images.sources import pack

__all__ = [
    "PackOptions",
    "PackedImages",
    "duplicates",
    "fetch",
    "pack",
    "pack_dataset",
    "read_packed",
    "write_packed",
]
