"""One intervention per file; every file of this folder is found automatically."""
