"""Numbers on which parts of the package that do not import each other must agree."""

MASK = -1  # the token that stands for "nothing is known here"
CHANCE_SAMPLES = 4096  # true samples on which a chance level is estimated where it has no formula
