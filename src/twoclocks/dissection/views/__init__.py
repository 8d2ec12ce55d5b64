"""The views of this package, one per file, each with its Info."""
