"""The papers' claims: one recipe per claim, which runs what it needs and decides if the claim is reproduced."""
