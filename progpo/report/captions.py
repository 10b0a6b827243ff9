"""The figures' names, titles and captions: what one should see in them (the workflow's own report has the same)."""

#: Title and caption by the figure's name, which is that of its files.
CAPTIONS = {
    "success": (
        "Success by arm",
        "Share of the evaluated episodes that succeeded, pooled over training seeds, with its Wilson interval; the "
        "small bars below are the seeds. An arm has learnt where its interval lies right of the warm-up's; arms "
        "whose intervals overlap are not told apart here (the comparison of arms pairs them by seed and task, which "
        "tells more).",
    ),
    "types": (
        "Success by task type",
        "The same by family of tasks. Few episodes stand behind each, so look for what is consistently left or "
        "right of the others, and for families in which no arm succeeds.",
    ),
    "learning": (
        "Learning curves",
        "Success over the iterations: the line is the mean over seeds, the band reaches from the worst seed to the "
        "best. The sampled trajectories are of train tasks, other ones each time, at the temperature of training: "
        "expect them to go up and down. Validation, where there is one, plays the same tasks each time.",
    ),
    "groups": (
        "What groups have to say",
        "Groups in which all trajectories failed give an outcome-based estimator nothing to compare. ProGPO applies "
        "its progress term to just those, so its share of groups without signal should stay below the others' "
        "wherever many groups fail; solved groups give no signal either, and come with success.",
    ),
    "exploration": (
        "What trajectories do",
        "Coverage is the share of steps that reach an observation new to their trajectory: a policy in the credit "
        "trap repeats itself, and coverage falls with success. Anchor groups are the steps of one group that share "
        "an observation, which step-level estimators compare: of size 1 they say nothing. Valid actions should not "
        "fall. Prompts that left out steps had no room for them: if they are many, give the context more tokens.",
    ),
    "update": (
        "The policy update",
        "Entropy that collapses ends exploration. KL says how far the policy went from the warm-up, and from the "
        "policy that sampled, in one update; the mean importance ratio should stay near 1, and few tokens be "
        "clipped. A gradient norm that grows from iteration to iteration announces trouble.",
    ),
    "time": (
        "Time and memory",
        "What the stages took, all jobs together. Where processors worked much less than the time that went by, "
        "jobs waited, for one another's processors or for the disk.",
    ),
}
