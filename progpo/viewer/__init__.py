"""The trajectory viewer: one HTML page, made of shards and advantages, that opens without a server."""
