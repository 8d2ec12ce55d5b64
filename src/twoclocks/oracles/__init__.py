"""What is ideal: exact denoisers of the cube, the rule and the training set."""

from twoclocks.oracles.denoisers import cube_denoiser, empirical_denoiser, rule_denoiser

__all__ = ["cube_denoiser", "empirical_denoiser", "rule_denoiser"]
