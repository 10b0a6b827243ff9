"""Advantage estimation, by numpy over Arrow columns: GRPO, RLOO, GiGPO, HGPO, and ProGPO over each of them."""

from progpo.advantages.estimate import Advantages, estimate
from progpo.advantages.table import SCHEMA, read_advantages

__all__ = ["SCHEMA", "Advantages", "estimate", "read_advantages"]
