"""How long the advantages stage takes, and how it grows: `python -m benchmarks.advantages`."""
