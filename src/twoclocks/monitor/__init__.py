"""A monitor for any training loop: samples in, clocks and a stop decision out; numpy and scipy only at import."""

from twoclocks.clocks.series import Look
from twoclocks.monitor.copies import Distance, Exact, Hamming, Ratio
from twoclocks.monitor.monitor import Decision, Monitor

__all__ = ["Decision", "Distance", "Exact", "Hamming", "Look", "Monitor", "Ratio"]
