"""The views, one file each: what is measured at every checkpoint, and what the measurements say together."""
