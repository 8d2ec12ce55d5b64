"""Analyse the checkpoints of a run: views that measure each of them and return plain data."""

from twoclocks.core.discovery import import_all
from twoclocks.dissection import views
from twoclocks.dissection.execution import Dissection, choose_views, dissect, dissect_run
from twoclocks.dissection.subject import Models, RunSubject, Subject
from twoclocks.dissection.view import VIEWS, Info, View

import_all(views)

__all__ = [
    "VIEWS",
    "Dissection",
    "Info",
    "Models",
    "RunSubject",
    "Subject",
    "View",
    "choose_views",
    "dissect",
    "dissect_run",
]
