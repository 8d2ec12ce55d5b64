"""The papers' figures and claims: the runs that they need, what is drawn, and the criterion that decides."""
