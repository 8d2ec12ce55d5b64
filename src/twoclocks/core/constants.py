"""Numbers on which parts of the package that do not import each other must agree."""

MASK = -1  # the mask token: the symbol at this position is hidden
CHANCE_SAMPLES = 4096  # samples of the rule from which a chance level without a formula is estimated
