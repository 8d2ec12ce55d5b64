"""What things cost: time and memory against the sizes that matter, measured on the device at hand."""
