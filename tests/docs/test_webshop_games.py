"""The smallest catalogue of docs/webshop-games.md, as a newcomer would copy it."""

import re
from pathlib import Path

import pytest

from envs.webshop import load_catalogue, make_goals

PAGE = Path(__file__).parents[2] / "docs" / "webshop-games.md"


def test_smallest_catalogue(tmp_path: Path) -> None:
    products, attributes = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "items_shuffle.json").write_text(products, encoding="utf-8")
    (tmp_path / "items_ins_v2.json").write_text(attributes, encoding="utf-8")
    catalogue = load_catalogue(tmp_path, strict=True)
    with pytest.warns(UserWarning, match="nouns"):
        goals = make_goals(catalogue)
    assert sorted(goal.goal_options["size"] for goal in goals) == ["large", "medium", "small"]
    assert all("lead free mugs" in goal.instruction_text for goal in goals)
