"""What a transformer does between its matrix products: in plain PyTorch, lean for the CPU, and fused for the GPU."""

from twoclocks.kernels.plain import MIXED, PLAIN, Branch, Modulation, Operations, Update

__all__ = ["MIXED", "PLAIN", "Branch", "Modulation", "Operations", "Update"]
