"""Registry, settings, seeds and errors: no knowledge of the field, imports nothing else of the package."""
