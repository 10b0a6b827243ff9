"""Which tasks are drawn, by what earlier iterations showed of them."""

from collections import Counter

import numpy as np
import pytest

from envs import Task
from progpo.curriculum import DECAY, PRIOR, choose_tasks, estimate_success, replacements, without_signal
from progpo.errors import ProgpoError
from progpo.tasks import tasks_of_iteration
from progpo.trajectories.records import Trajectory

TASKS = [Task(f"task-{number}", "train", "easy" if number < 6 else "hard") for number in range(12)]


def shown(iteration: int, **counts: tuple[int, int]) -> dict:
    """An iteration's metrics: `task_3=(successes, episodes)`."""
    tasks = {
        name.replace("_", "-"): {
            "task_type": TASKS[int(name.split("_")[1])].task_type,
            "successes": successes,
            "episodes": episodes,
        }
        for name, (successes, episodes) in counts.items()
    }
    return {"iteration": iteration, "tasks_by_id": tasks}


def test_the_estimate_shrinks_towards_the_type() -> None:
    history = [shown(1, task_0=(8, 8), task_1=(0, 8), task_7=(0, 8))]
    easy, hard = (8 + 1) / (16 + 2), 1 / (8 + 2)
    expected = np.full(12, easy)
    expected[6:] = hard
    expected[0] = (8 + PRIOR * easy) / (8 + PRIOR)
    expected[1] = PRIOR * easy / (8 + PRIOR)
    expected[7] = PRIOR * hard / (8 + PRIOR)
    assert estimate_success(TASKS, history, 2) == pytest.approx(expected)


def test_older_episodes_count_less() -> None:
    history = [shown(1, task_0=(8, 8)), shown(2, task_0=(0, 8))]
    successes, episodes = DECAY * 8, DECAY * 8 + 8
    kind = (successes + 1) / (episodes + 2)
    assert estimate_success(TASKS, history, 3)[0] == pytest.approx((successes + PRIOR * kind) / (episodes + PRIOR))
    assert (estimate_success(TASKS, history, 3) == estimate_success(TASKS, history[::-1], 3)).all()


def test_without_history_the_choice_is_the_uniform_one() -> None:
    for sampling in ("uniform", "learnable", "hard"):
        assert choose_tasks(TASKS, sampling, [], 3, 1, 5) == tasks_of_iteration(TASKS, 3, 1, 5)
    assert choose_tasks(TASKS, "uniform", [shown(1, task_0=(8, 8))], 3, 2, 5) == tasks_of_iteration(TASKS, 3, 2, 5)


@pytest.mark.parametrize(("sampling", "likelier", "less"), [("learnable", 1, 0), ("hard", 2, 0), ("hard", 2, 1)])
def test_weights_say_how_often_a_task_is_drawn(sampling: str, likelier: int, less: int) -> None:
    history = [shown(1, task_0=(80, 80), task_1=(40, 80), task_2=(0, 80))]
    drawn = Counter(choose_tasks(TASKS, sampling, history, seed, 2, 1)[0].id for seed in range(4000))
    chance = estimate_success(TASKS, history, 2)
    weights = chance * (1 - chance) if sampling == "learnable" else 1 - chance
    assert drawn[f"task-{likelier}"] > drawn[f"task-{less}"]
    # The first of a weighted choice without replacement has its weight's share.
    expected = 4000 * weights / weights.sum()
    counts = np.array([drawn[task.id] for task in TASKS])
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected.max())


def test_a_task_comes_once_while_there_are_others() -> None:
    history = [shown(1, task_0=(1, 8))]
    assert set(Counter(task.id for task in choose_tasks(TASKS, "learnable", history, 0, 2, 12)).values()) == {1}
    more = Counter(task.id for task in choose_tasks(TASKS, "learnable", history, 0, 2, 18))
    assert sorted(more.values()) == [1] * 6 + [2] * 6


def test_replacements_are_other_tasks() -> None:
    chosen = choose_tasks(TASKS, "uniform", [], 0, 1, 8)
    spare = replacements(TASKS, chosen, "uniform", [], 0, 1)
    assert {task.id for task in spare} | {task.id for task in chosen} == {task.id for task in TASKS}
    assert len(spare) == 4
    assert replacements(TASKS, TASKS, "uniform", [], 0, 1) == []
    assert spare != replacements(TASKS, chosen, "uniform", [], 1, 1)


def test_bad_history_is_refused() -> None:
    with pytest.raises(ProgpoError, match="iteration 2 for 2"):
        estimate_success(TASKS, [shown(2)], 2)
    with pytest.raises(ProgpoError, match="iteration 1 twice"):
        estimate_success(TASKS, [shown(1), shown(1)], 3)
    with pytest.raises(ProgpoError, match="without 'tasks_by_id'"):
        estimate_success(TASKS, [{"iteration": 1}], 2)


def group(*outcomes: float) -> list[Trajectory]:
    return [Trajectory(0, number, "task", "kind", outcome, outcome) for number, outcome in enumerate(outcomes)]


def test_groups_without_signal() -> None:
    for outcomes, solved, flat in [
        ((1, 1, 1), True, True),
        ((0, 0, 0), False, True),
        ((0, 1, 0), False, False),
        ((0.5, 0.5), False, True),
        ((0.5, 1), False, False),
    ]:
        assert without_signal(group(*outcomes), "solved") == solved
        assert without_signal(group(*outcomes), "flat") == flat
