"""Contract suites: call them on your own rule, model, encoding or objective, and they say what is wrong with it.

from twoclocks.testing import check_rule
def test_my_rule():
    check_rule(MyRule(side=4))
"""

from twoclocks.testing.contracts import check_encoding, check_model, check_objective, check_rule

__all__ = ["check_encoding", "check_model", "check_objective", "check_rule"]
