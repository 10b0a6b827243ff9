"""The advantages' definitions in plain Python, loop by loop, and random rollouts: a check on the vectorised code.

Nothing here is shared with `progpo.advantages`, and nothing is optimised.
"""

import math
import random
from collections import defaultdict
from typing import Any

import pyarrow as pa

Rows = list[dict[str, Any]]
Key = tuple[int, int, int]

TYPES = {"group": pa.int32(), "trajectory": pa.int32(), "step": pa.int32(), "reward": pa.float32()}
TYPES |= {"outcome": pa.float32(), "score": pa.float32()}


def as_table(rows: Rows) -> pa.Table:
    """Return rows as an Arrow table, in their order."""
    names = rows[0].keys()
    return pa.table({name: pa.array([row[name] for row in rows], TYPES.get(name)) for name in names})


def make_rows(seed: int, groups: int = 5, longest: int = 9, places: int = 4, kind: str = "success") -> Rows:
    """Return random rollouts: few distinct observations, groups of one, flat and all-failed groups among them.

    Args:
        kind: of outcomes: "success" (0/1), "score" (thirds), "dense" (thirds, and a reward at every step).
    """
    rng = random.Random(seed)
    rows: Rows = []
    for group in rng.sample([-7, 0, 1, 2, 3, 40, 2**31 - 1], groups):
        fate = rng.choice(["failed", "flat", "mixed", "mixed"])
        for trajectory in rng.sample(range(-2, 9), rng.randint(1, 5)):
            length = rng.randint(1, longest)
            levels = [0.0, 1.0] if kind == "success" else [0.0, 1 / 3, 2 / 3, 1.0]
            outcome = {"failed": 0.0, "flat": 1.0}.get(fate, rng.choice(levels))
            outcome = pa.scalar(outcome, pa.float32()).as_py()
            walk = [f"place {rng.randrange(places)}" for _ in range(length + 1)]
            walk[0] = "start"
            keys = [f"{place}, {rng.choice(['empty', 'holding'])}" for place in walk]
            for step in range(length):
                reward = outcome if step == length - 1 else 0.0
                if kind == "dense":
                    reward = pa.scalar(reward + rng.choice([0.0, 0.0, 0.25, -0.5]), pa.float32()).as_py()
                rows.append(
                    {
                        "group": group,
                        "trajectory": trajectory,
                        "step": step,
                        "task_type": "even" if group % 2 == 0 else "odd",
                        "observation": walk[step],
                        "next_observation": walk[step + 1],
                        "state_key": keys[step],
                        "next_state_key": keys[step + 1],
                        "valid": rng.random() < 0.8,
                        "reward": reward,
                        "outcome": outcome,
                        "score": outcome,
                    }
                )
    rng.shuffle(rows)
    return rows


def plain_advantages(rows: Rows, arm: dict[str, Any]) -> dict[Key, dict[str, Any]]:
    """Return the columns of the advantages table by (group, trajectory, step)."""
    progress = arm.get("progress")
    if progress is not None:
        progress = {"weight": 0.3, "schedule": "fail_fraction", "level": "trajectory", "key": "observation"} | progress
    groups: dict[int, dict[int, Rows]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=lambda row: row["step"]):
        groups[row["group"]][row["trajectory"]].append(row)
    failed = {g: all(abs(steps[0]["outcome"]) < 1e-3 for steps in group.values()) for g, group in groups.items()}
    fraction = sum(failed.values()) / len(groups)
    result = {}
    for number, group in groups.items():
        whole, part = _base(group, arm)
        visits = {i: _visits(steps, (progress or {}).get("key", "observation")) for i, steps in group.items()}
        share = {i: sum(seen) / len(seen) for i, seen in visits.items()}
        branch = "outcome"
        always = bool(progress and progress.get("always_on"))
        if progress and (failed[number] or always):
            scaled = progress["schedule"] == "fail_fraction" and not always
            weight = progress["weight"] * fraction if scaled else progress["weight"]
            whole_term, part_term, live = _term(group, visits, share, progress["level"], arm.get("gamma", 0.95))
            if live:
                branch = "progress"
            elif failed[number]:
                branch = "none"
            for i in group:
                whole[i] = (whole[i] if always else 0.0) + weight * whole_term[i]
            for key in part:
                part[key] = (part[key] if always else 0.0) + weight * part_term[key]
        for i, steps in group.items():
            for t, row in enumerate(steps):
                advantage = whole[i] + arm.get("step_weight", 1.0) * part[i, t]
                if not row["valid"]:
                    advantage -= arm.get("invalid_penalty", 0.0)
                result[number, i, t] = {
                    "first_visit": bool(visits[i][t]),
                    "progress": share[i],
                    "branch": branch,
                    "trajectory_advantage": whole[i],
                    "step_advantage": part[i, t],
                    "advantage": advantage,
                }
    return result


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _deviation(values: list[float], ddof: int) -> float:
    mean = _mean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - ddof))


def _norm(values: list[float], ddof: int, how: str) -> list[float]:
    if len(values) == 1 or max(values) - min(values) < 1e-9:
        return [0.0] * len(values)
    mean = _mean(values)
    if how == "mean":
        return [value - mean for value in values]
    deviation = _deviation(values, ddof)
    return [(value - mean) / (deviation + 1e-6) for value in values]


def _to_go(values: list[float], gamma: float) -> list[float]:
    return [math.fsum(gamma ** (k - t) * values[k] for k in range(t, len(values))) for t in range(len(values))]


def _alike(group: dict[int, Rows], length: int) -> list[list[tuple[int, int]]]:
    """Return the (i, t) of equal last `length` observations, together."""
    found = defaultdict(list)
    for i, steps in group.items():
        for t in range(length - 1, len(steps)):
            found[tuple(steps[s]["observation"] for s in range(t - length + 1, t + 1))].append((i, t))
    return list(found.values())


def _base(group: dict[int, Rows], arm: dict[str, Any]) -> tuple[dict[int, float], dict[tuple[int, int], float]]:
    base, how = arm["base"], arm.get("normalise", "mean_std")
    gamma = arm.get("gamma", 0.95)
    outcome = {i: steps[0]["outcome"] for i, steps in group.items()}
    to_go = {i: _to_go([row["reward"] for row in steps], gamma) for i, steps in group.items()}
    whole = dict.fromkeys(group, 0.0)
    part = {(i, t): 0.0 for i, steps in group.items() for t in range(len(steps))}
    if base in ("grpo", "gigpo"):
        whole = dict(zip(outcome, _norm(list(outcome.values()), 1, how), strict=True))
    if base == "rloo" and len(group) > 1:
        whole = {i: outcome[i] - _mean([outcome[j] for j in group if j != i]) for i in group}
    if base == "gigpo":
        for members in _alike(group, 1):
            for key, value in zip(members, _norm([to_go[i][t] for i, t in members], 1, how), strict=True):
                part[key] = value
    if base == "hgpo":
        sums, weights = defaultdict(float), defaultdict(float)
        for k in range(1, arm.get("history", 2) + 2):
            for members in _alike(group, k):
                for key, value in zip(members, _norm([to_go[i][t] for i, t in members], 0, how), strict=True):
                    if len(members) > 1 and abs(value) > 1e-9:
                        sums[key] += (k + 1) ** arm.get("alpha", 1.0) * value
                        weights[key] += (k + 1) ** arm.get("alpha", 1.0)
        part = {key: sums[key] / (weights[key] + 1e-6) for key in part}
    return whole, part


def _visits(steps: Rows, key: str) -> list[int]:
    here, there = ("state_key", "next_state_key") if key == "state" else ("observation", "next_observation")
    return [int(row[there] not in [other[here] for other in steps[: t + 1]]) for t, row in enumerate(steps)]


def _term(group: dict[int, Rows], visits: dict[int, list[int]], share: dict[int, float], level: str, gamma: float):
    whole = dict.fromkeys(group, 0.0)
    part = {(i, t): 0.0 for i, steps in group.items() for t in range(len(steps))}
    live = False
    if level in ("trajectory", "both"):
        deviation = _deviation(list(share.values()), 0)
        if deviation >= 1e-4:
            live = True
            whole = {i: (share[i] - _mean(list(share.values()))) / deviation for i in group}
    if level in ("step", "both"):
        to_go = {i: _to_go(seen, gamma) for i, seen in visits.items()}
        for members in _alike(group, 1):
            values = [to_go[i][t] for i, t in members]
            deviation = _deviation(values, 0)
            if len(members) > 1 and deviation >= 1e-4:
                live = True
                part |= {key: (value - _mean(values)) / deviation for key, value in zip(members, values, strict=True)}
    return whole, part, live
