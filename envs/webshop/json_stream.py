"""Reading JSON files item by item, so that a file of gigabytes never stands in memory whole."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from envs.base import EnvironmentDataError

_SPACE = " \t\r\n"
#: Characters read at a time; doubled as long as one item does not fit.
_CHUNK = 1 << 20


def read_items(path: Path) -> Iterator[Any]:
    """Yield the items of the array that a JSON file (which may be gzipped) holds.

    Raises:
        EnvironmentDataError: the file can't be read, is not such a file, or ends too early.
    """
    with _Scanner(path) as scanner:
        scanner.expect("[", "a list")
        if scanner.skip("]"):
            scanner.end()
            return
        while True:
            yield scanner.value()
            if not scanner.skip(","):
                scanner.expect("]", "`,` or `]`")
                scanner.end()
                return


def read_pairs(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of the object that a JSON file (which may be gzipped) holds; raises as `read_items`."""
    with _Scanner(path) as scanner:
        scanner.expect("{", "an object")
        if scanner.skip("}"):
            scanner.end()
            return
        while True:
            key = scanner.value()
            if not isinstance(key, str):
                raise scanner.error("expected a key in quotes")
            scanner.expect(":", "`:`")
            yield key, scanner.value()
            if not scanner.skip(","):
                scanner.expect("}", "`,` or `}`")
                scanner.end()
                return


class _Scanner:
    """The text of a file from a place on, read as it is needed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decode = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._before = 0  # characters that were read and let go
        self._ended = False

    def __enter__(self) -> "_Scanner":
        try:
            opened = gzip.open if self._path.suffix == ".gz" else open
            self._file: IO[str] = opened(self._path, "rt", encoding="utf-8-sig")
        except OSError as error:
            raise EnvironmentDataError(f"{self._path}: {error.strerror or error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def error(self, what: str) -> EnvironmentDataError:
        """Return the error that says where and what."""
        return EnvironmentDataError(
            f"{self._path}: not valid JSON at character {self._before + self._at}: {what}; fetch or make the file anew"
        )

    def value(self) -> Any:
        """Return the next value."""
        self._peek()
        size = _CHUNK
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # The text at hand may just end within the value: then the fault is where the text ends, or a string.
                cut = error.msg.startswith("Unterminated string") or error.pos > len(self._text) - 32
                if self._ended or not cut:
                    raise self.error("the file ends too early" if self._ended and cut else error.msg) from error
            except RecursionError as error:
                raise self.error("nested too deep") from error
            else:
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
            self._read(size)
            size *= 2

    def skip(self, character: str) -> bool:
        """Step over a character where it is the next one, and return whether it was."""
        found = self._peek() == character
        self._at += found
        return found

    def expect(self, character: str, name: str) -> None:
        """Step over a character that must come."""
        if not self.skip(character):
            raise self.error(f"expected {name}" if self._peek() else "the file ends too early")

    def end(self) -> None:
        """Check that nothing follows."""
        if self._peek():
            raise self.error("something follows the end")

    def _peek(self) -> str:
        """Return the next character that is no white space, "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                return ""
            self._read(_CHUNK)

    def _read(self, size: int) -> None:
        try:
            more = self._file.read(size)
        except UnicodeDecodeError as error:
            raise EnvironmentDataError(f"{self._path}: not UTF-8 text ({error.reason})") from error
        except (EOFError, zlib.error, OSError) as error:
            raise EnvironmentDataError(f"{self._path}: damaged or cut ({error}); fetch the file anew") from error
        self._ended = not more
        self._before += self._at
        self._text = self._text[self._at :] + more
        self._at = 0
