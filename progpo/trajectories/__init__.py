"""The data contract: trajectories as rows of Parquet shards, one row a step."""
