"""Contract suites: call them on your own rule, model, objective, metric or view, and they say what is wrong with it.

from twoclocks.testing import check_rule
def test_my_rule():
    check_rule(MyRule(side=4))
"""

from twoclocks.testing.contracts import check_encoding, check_model, check_objective, check_rule
from twoclocks.testing.metrics import check_metric
from twoclocks.testing.views import check_view

__all__ = ["check_encoding", "check_metric", "check_model", "check_objective", "check_rule", "check_view"]
