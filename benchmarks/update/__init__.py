"""How long the policy update takes, beside a padded loop over the stock model: `python -m benchmarks.update`."""
