"""What is seen: the data sets of a run and their encodings."""

from twoclocks.data.encodings import ENCODINGS, Decoded, Encoding
from twoclocks.data.sets import cube_set, held_out, training_set

__all__ = ["ENCODINGS", "Decoded", "Encoding", "cube_set", "held_out", "training_set"]
