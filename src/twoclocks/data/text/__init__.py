"""Text from the user's disk, packed once into one checked file. Needs the extra ``text`` for tokenizers alone."""

from twoclocks.core.packed_text import PackedText, read_packed_text, write_packed_text
from twoclocks.data.text.fetch import BUILT_IN_BOOKS, fetch
from twoclocks.data.text.options import TextOptions
from twoclocks.data.text.sources import pack

__all__ = ["BUILT_IN_BOOKS", "PackedText", "TextOptions", "fetch", "pack", "read_packed_text", "write_packed_text"]
