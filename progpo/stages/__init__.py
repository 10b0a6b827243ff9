"""The stages: each reads files, writes files, and ends with a manifest."""
