"""What the pipeline asks of an environment."""

from envs import was_valid


def test_an_action_is_valid_if_listed_or_if_the_environment_says_so() -> None:
    before = {"admissible_commands": ["click[tea]"]}
    assert was_valid("click[tea]", before, {})
    assert not was_valid("search[green tea]", before, {})
    assert was_valid("search[green tea]", before, {"valid": True})
    assert not was_valid("click[tea]", before, {"valid": False})
