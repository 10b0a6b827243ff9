"""The benchmark of WebShop runs, and copies catalogues faithfully."""

import json
from pathlib import Path

import pytest

from benchmarks.webshop.__main__ import main
from benchmarks.webshop.measure import replicate
from envs.webshop import load_catalogue
from envs.webshop.generate import generate
from envs.webshop.task_settings import Difficulty


def test_replicates(tmp_path: Path) -> None:
    generate(tmp_path / "base", 0, Difficulty(products=20))
    replicate(tmp_path / "base", tmp_path / "copies", 50)
    base, copies = load_catalogue(tmp_path / "base"), load_catalogue(tmp_path / "copies")
    assert len(copies.products) == 50
    assert [product.title for product in copies.products[40:]] == [product.title for product in base.products[:10]]
    assert copies.products[20].instruction == base.products[0].instruction


def test_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    generate(tmp_path / "base", 0, Difficulty(products=20))
    given = ["--data", str(tmp_path / "base"), "--sizes", "40", "--slots", "3", "--steps", "60"]
    monkeypatch.setattr("sys.argv", ["benchmark", *given, "--json", str(tmp_path / "figures.json")])
    main()
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert [found["products"] for found in figures["catalogues"]] == [20, 40]
    assert all(found["steps"]["all"]["count"] >= 60 for found in figures["catalogues"])
    assert "ms a step" in capsys.readouterr().out
