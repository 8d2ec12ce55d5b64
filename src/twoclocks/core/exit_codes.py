"""What the command line returns to the shell besides 0."""

EXIT_BAD_INPUT = 2
EXIT_DIVERGED = 3
EXIT_STOPPED = 4  # by a signal; the same command continues
EXIT_DISK = 5
EXIT_DAMAGED = 6
EXIT_FAILED = 7  # of a sweep: some cells
EXIT_INTERRUPTED = 130
