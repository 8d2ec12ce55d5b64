"""What a transformer does between its matrix products: in plain PyTorch, and fused for the GPU."""

from twoclocks.kernels.plain import MIXED, PLAIN, Operations, Update

__all__ = ["MIXED", "PLAIN", "Operations", "Update"]
