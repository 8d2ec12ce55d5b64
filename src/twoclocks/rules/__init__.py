"""Rules that define which arrays are valid: one rule family per file."""

import sys

from twoclocks.core.discovery import import_all
from twoclocks.rules.base import RULES, Rule
from twoclocks.rules.code_book import CodeBook
from twoclocks.rules.counts import ExactK, GlobalK, RowK, RowVariableK
from twoclocks.rules.free import Free
from twoclocks.rules.latin import CyclicLatin, Latin, RowLatin
from twoclocks.rules.parity import Parity
from twoclocks.rules.rhm import RandomHierarchy
from twoclocks.rules.sudoku import CyclicSudoku, Sudoku

import_all(sys.modules[__name__])
create = RULES.create

__all__ = [
    "RULES",
    "CodeBook",
    "CyclicLatin",
    "CyclicSudoku",
    "ExactK",
    "Free",
    "GlobalK",
    "Latin",
    "Parity",
    "RandomHierarchy",
    "RowK",
    "RowLatin",
    "RowVariableK",
    "Rule",
    "Sudoku",
    "create",
]
