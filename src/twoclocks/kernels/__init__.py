"""Faster forms of networks, objectives and optimizers, each registered against the textbook code that it must equal."""

from twoclocks.kernels.registry import fused_forward, fusions, make_form

__all__ = ["fused_forward", "fusions", "make_form"]
