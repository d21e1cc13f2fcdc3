"""Tell where the time of a run goes, kernel by kernel."""
