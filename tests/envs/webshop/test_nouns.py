"""The nouns of product names: from a file, guessed, or made."""

import json
import sys
import types
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from envs.base import EnvironmentDataError
from envs.webshop import load_catalogue
from envs.webshop.nouns import NounBook, find_nouns, guess_nouns
from progpo.cli import app, main


def test_read_beside_the_catalogue(write: Callable[..., Path]) -> None:
    catalogue = load_catalogue(write())
    assert catalogue.nouns.of("B000000001", "whatever") == ("oak", "table", "drawer")


def test_guessed_with_one_warning(write: Callable[..., Path]) -> None:
    catalogue = load_catalogue(write({}, {"asin": "B2", "name": "Red Shoes"}, nouns=None))
    with pytest.warns(UserWarning, match="progpo webshop nouns FOLDER"):
        first = catalogue.nouns.of("B000000001", "Oak Table for the Home")
    assert first == ("oak", "table", "home")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert catalogue.nouns.of("B2", "Red Shoes") == ("shoes",)


def test_guess() -> None:
    assert guess_nouns("2 Pack of the L'Or\u00e9al x Men's T-Shirts!") == (
        "pack",
        "l'or\u00e9al",
        "men's",
        "t-shirts",
    )


def test_bad_file(tmp_path: Path) -> None:
    path = tmp_path / "nouns.json"
    path.write_text('{"B1": "oak"}', encoding="utf-8")
    with pytest.raises(EnvironmentDataError, match="B1: expected a list"):
        NounBook.read(path)


class _Token(types.SimpleNamespace):
    """A word with its part of speech, as spaCy has it."""


def _language(exclude: Iterable[str]) -> object:
    assert "tagger" not in exclude
    kinds = {"Oak": "PROPN", "Table": "NOUN", "Drawer": "NOUN", "with": "ADP"}

    def pipe(names: Iterable[str]) -> Iterable[list[_Token]]:
        for name in names:
            yield [_Token(text=word, pos_=kinds.get(word, "ADJ")) for word in name.split()]

    return types.SimpleNamespace(pipe=pipe)


def test_made(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = []

    def load(model: str, exclude: Iterable[str]) -> object:
        loaded.append(model)
        return _language(exclude)

    monkeypatch.setitem(sys.modules, "spacy", types.SimpleNamespace(load=load))
    folder = write({}, {"asin": "B2", "name": "Table"}, nouns=None)
    app(["webshop", "nouns", str(folder)], standalone_mode=False)
    assert loaded == ["en_core_web_sm"]
    assert "nouns of 2 product names" in capsys.readouterr().out
    assert json.loads((folder / "nouns.json").read_text(encoding="utf-8")) == {
        "B000000001": ["oak", "table", "drawer"],
        "B2": ["table"],
    }
    assert load_catalogue(folder).nouns.of("B2", "") == ("table",)


def test_without_spacy(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    folder = write(nouns=None)
    monkeypatch.setattr(sys, "argv", ["progpo", "webshop", "nouns", str(folder)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 1
    assert "progpo: error: spaCy is not installed" in capsys.readouterr().err
    assert not list(folder.glob("nouns*"))


def test_without_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(model: str, exclude: Iterable[str]) -> object:
        raise OSError(f"[E050] Can't find model {model!r}")

    monkeypatch.setitem(sys.modules, "spacy", types.SimpleNamespace(load=load))
    with pytest.raises(EnvironmentDataError, match="python -m spacy download small"):
        list(find_nouns(["Oak"], "small"))
