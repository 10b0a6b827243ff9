"""A task in the terminal: played by a person, the expert or a policy, with what the policy would do."""
