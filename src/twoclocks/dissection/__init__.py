"""Why the clocks tick: views of a model at many moments of its training, each a measurement that returns plain data."""

import sys

from twoclocks.core.folders import import_all
from twoclocks.dissection.looks import Dissection, choose_views, dissect, dissect_run
from twoclocks.dissection.subject import Models, RunSubject, Subject
from twoclocks.dissection.twins import compare_twins
from twoclocks.dissection.twins_info import TwinsInfo
from twoclocks.dissection.view import VIEWS, Info, View

import_all(sys.modules[__name__])

__all__ = [
    "VIEWS",
    "Dissection",
    "Info",
    "Models",
    "RunSubject",
    "Subject",
    "TwinsInfo",
    "View",
    "choose_views",
    "compare_twins",
    "dissect",
    "dissect_run",
]
