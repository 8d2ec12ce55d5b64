"""The loop, its optimizer and the cadence of evaluations."""
