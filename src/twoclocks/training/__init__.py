"""The loop, its optimizer and the schedule of evaluations."""
