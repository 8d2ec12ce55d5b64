"""How text becomes documents and tokens when it is packed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twoclocks.core.errors import SettingError

TOKENS = ("letters", "characters", "bytes")
DOCUMENTS = ("file", "line", "paragraph", "block")
BLOCK = 65_536  # characters; a multiple of the usual lengths of pieces, so that no piece of text8 is lost


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Options of ``pack``: the same options and the same source give the same file, byte by byte.

    >>> TextOptions(documents="sentence")
    Traceback (most recent call last):
    twoclocks.core.errors.SettingError: documents: 'sentence' is not allowed; use one of file, line, paragraph, block
    """

    tokens: str = "letters"  # letters, characters, bytes, or the path of a tokenizer.json
    documents: str = "file"
    block: int | None = None  # characters per document where documents are blocks; None there: BLOCK
    keep_duplicates: bool = False
    skip_bad: bool = False  # leave out and list files that cannot be used, instead of stopping at them

    def __post_init__(self) -> None:
        if self.documents not in DOCUMENTS:
            raise SettingError("documents", self.documents, f"use one of {', '.join(DOCUMENTS)}")
        block = self.block_length
        if not isinstance(block, int) or isinstance(block, bool) or not 1 <= block <= 1 << 30:
            raise SettingError("block", self.block, "use an integer from 1 to 1073741824")
        if self.block is not None and self.documents != "block":
            raise SettingError("block", self.block, f"documents are {self.documents}; add --documents block")
        if not str(self.tokens):
            raise SettingError("tokens", self.tokens, f"use one of {', '.join(TOKENS)} or a tokenizer.json")

    @property
    def block_length(self) -> int:
        """Characters per document, where documents are blocks."""
        return BLOCK if self.block is None else self.block

    def in_words(self) -> dict[str, Any]:
        """What was done to the text, for the header of the packed file; of a tokenizer only the file's name."""
        tokens = self.tokens if self.tokens in TOKENS else Path(self.tokens).name
        block = self.block_length if self.documents == "block" else None
        return {"tokens": tokens, "documents": self.documents, "block": block}
