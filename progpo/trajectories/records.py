"""Trajectories in memory, as the sampler and the expert make them."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Step:
    """One action and what came of it.

    Attributes:
        observation, next_observation: raw environment text before and after the action.
        state_key, next_state_key: the environment's digest of its state before and after, or None.
        action: what was executed (for an ill-formed response: its text).
        valid: well-formed and admissible.
        reward: of this step.
        terminated, truncated: as Gymnasium returned them.
        context_tokens: what the policy read since its last action (append), or the whole prompt (window).
        response_tokens: what it sampled, the end token included when it was sampled.
        response_logprobs: of response_tokens, at the sampling temperature; same length.
        admissible: what prompts list as admissible before the action, where that was asked for: in demonstrations,
            and of a constrained policy.
        history_cut: past steps that the prompt should have told, and left out for want of room; None where prompts
            are no windows.
        imitate: whether an imitator should learn the action (False: noise that was injected).
    """

    observation: str
    next_observation: str
    action: str
    valid: bool
    reward: float
    terminated: bool
    truncated: bool
    state_key: str | None = None
    next_state_key: str | None = None
    context_tokens: Sequence[int] = ()
    response_tokens: Sequence[int] = ()
    response_logprobs: Sequence[float] = ()
    admissible: Sequence[str] = ()
    history_cut: int | None = None
    imitate: bool = True


@dataclass(slots=True)
class Trajectory:
    """One episode.

    Attributes:
        group: index of the group within the iteration (for an evaluation: of the task in its list).
        trajectory: index within the group.
        task, task_type: id of the task, its family.
        outcome: what the estimators compare (success 1/0, or a score), set when the episode ends.
        score: the environment's own score in [0, 1] at the end.
        steps: in time order.
    """

    group: int
    trajectory: int
    task: str
    task_type: str
    outcome: float = 0.0
    score: float = 0.0
    steps: list[Step] = field(default_factory=list)
