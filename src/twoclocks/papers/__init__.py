"""The papers' claims: one recipe a claim, which runs what it needs and says whether the claim was reproduced."""
