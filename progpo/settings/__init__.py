"""Settings: one YAML, validated once; each stage's own part of it as canonical JSON."""

from progpo.settings.base import Settings, canonical, load_json

__all__ = ["Settings", "canonical", "load_json"]
