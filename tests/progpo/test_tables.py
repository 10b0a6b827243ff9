"""Tables as text."""

from progpo.tables import to_csv, to_markdown, to_text

HEADER, CELLS = ["arm", "all"], [["grpo", "5"], ["x", "12.5"]]


def test_formats() -> None:
    assert to_markdown(HEADER, CELLS) == ["| arm | all |", "|---|---|", "| grpo | 5 |", "| x | 12.5 |"]
    assert to_text(HEADER, CELLS) == ["arm    all", "grpo     5", "x     12.5"]
    assert to_csv([{"arm": "a,b", "rate": 0.5}, {"arm": "c", "rate": None}]) == 'arm,rate\n"a,b",0.5\nc,\n'
    assert to_csv([]) == ""
