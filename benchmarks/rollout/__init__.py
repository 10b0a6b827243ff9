"""How fast the default policy plays, beside the two usual ways to sample: `python -m benchmarks.rollout`."""
