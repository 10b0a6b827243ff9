"""The order of rows: by key, whatever order they stand in; and what a complete set of rows is."""

import numpy as np

from progpo.errors import ProgpoError


def time_order(group: np.ndarray, trajectory: np.ndarray, step: np.ndarray) -> np.ndarray | None:
    """Return the rows' order by (group, trajectory, step), each (rows,) int32; None if they are in it already."""
    same_group = group[1:] == group[:-1]
    same = same_group & (trajectory[1:] == trajectory[:-1])
    forward = (group[1:] > group[:-1]) | (same_group & (trajectory[1:] > trajectory[:-1]))
    if np.all(np.where(same, step[1:] >= step[:-1], forward)):
        return None
    return np.lexsort((step, trajectory, group))


def check_rows(group: np.ndarray, trajectory: np.ndarray, step: np.ndarray, where: str) -> None:
    """Refuse duplicate rows, and trajectories whose steps are not 0..T-1, once each.

    Args:
        group, trajectory, step: (rows,) int32, in time order.
        where: what the message begins with: the file.

    Raises:
        ProgpoError: naming the first row that is wrong.
    """
    if not len(step):
        return
    same = (group[1:] == group[:-1]) & (trajectory[1:] == trajectory[:-1])
    twice = np.flatnonzero(same & (step[1:] == step[:-1]))
    if twice.size:
        at = twice[0]
        raise ProgpoError(
            f"{where}: duplicate rows ({twice.size}), the first: group {group[at]}, trajectory {trajectory[at]}, "
            f"step {step[at]}"
        )
    starts = np.flatnonzero(np.concatenate(([True], ~same)))
    lengths = np.diff(np.append(starts, len(step)))
    wrong = np.flatnonzero(step != np.arange(len(step)) - np.repeat(starts, lengths))
    if wrong.size:
        at = wrong[0]
        raise ProgpoError(
            f"{where}: group {group[at]}, trajectory {trajectory[at]} is cut: its steps are not 0, 1, 2, ... "
            f"(step {step[at]} is out of place)"
        )
