"""Data sets of a run (training, held-out, cube) and how their symbols are encoded for a network."""

from twoclocks.data.encodings import ENCODINGS, Decoded, Encoding, Space, default_encoding
from twoclocks.data.omission import omitted_contents
from twoclocks.data.points import GaussianPoints
from twoclocks.data.sets import cube_set, disjoint_training_sets, held_out, holdout_set, training_set
from twoclocks.data.settings import DataSettings

__all__ = [
    "ENCODINGS",
    "DataSettings",
    "Decoded",
    "Encoding",
    "GaussianPoints",
    "Space",
    "cube_set",
    "default_encoding",
    "disjoint_training_sets",
    "held_out",
    "holdout_set",
    "omitted_contents",
    "training_set",
]
