"""One drawing per view of a dissection, registered under the view's name."""

import sys

from twoclocks.core.discovery import import_all
from twoclocks.report.drawings.chapter import Section, WhyChapter, why_chapter
from twoclocks.report.drawings.drawing import DRAWINGS, Drawing
from twoclocks.report.drawings.film import Film

import_all(sys.modules[__name__])

__all__ = ["DRAWINGS", "Drawing", "Film", "Section", "WhyChapter", "why_chapter"]
