"""Pages, tables and progress: what a person sees of runs. Drawing never computes: data(run) -> Info, draw(Info)."""
