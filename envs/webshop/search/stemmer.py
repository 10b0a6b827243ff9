"""The Porter stemmer (M. F. Porter, "An algorithm for suffix stripping", 1980) as Lucene has it.

With the two departures that Porter made himself later: `bli` is replaced by `ble` (not `abli` by `able`), and `logi`
by `log`. Words of one or two letters are left alone. Every character but a, e, i, o, u is a consonant, and `y` is one
where it starts the word or follows a vowel.
"""

from itertools import pairwise

#: Step 2 and step 3: suffix and replacement, by the letter that decides which are tried, in the order of trying.
_STEP_2 = {
    "a": (("ational", "ate"), ("tional", "tion")),
    "c": (("enci", "ence"), ("anci", "ance")),
    "e": (("izer", "ize"),),
    "l": (("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous")),
    "o": (("ization", "ize"), ("ation", "ate"), ("ator", "ate")),
    "s": (("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous")),
    "t": (("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")),
    "g": (("logi", "log"),),
}
_STEP_3 = {
    "e": (("icate", "ic"), ("ative", ""), ("alize", "al")),
    "i": (("iciti", "ic"),),
    "l": (("ical", "ic"), ("ful", "")),
    "s": (("ness", ""),),
}
#: Step 4: suffixes that fall, by the last letter but one, in the order of trying.
_STEP_4 = {
    "a": ("al",),
    "c": ("ance", "ence"),
    "e": ("er",),
    "i": ("ic",),
    "l": ("able", "ible"),
    "n": ("ant", "ement", "ment", "ent"),
    "o": ("ion", "ou"),
    "s": ("ism",),
    "t": ("ate", "iti"),
    "u": ("ous",),
    "v": ("ive",),
    "z": ("ize",),
}


def stem(word: str) -> str:
    """Return the stem of a lower-case word."""
    if not word.isascii() and any(character > "\uffff" for character in word):
        # Lucene counts UTF-16 code units: each half of a surrogate pair is a consonant of its own.
        units = word.encode("utf-16-le", "surrogatepass")
        split = "".join(chr(int.from_bytes(units[at : at + 2], "little")) for at in range(0, len(units), 2))
        return _stem(split).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _stem(word)


def _stem(word: str) -> str:
    if len(word) <= 2:
        return word
    word = _plural_and_participle(word)
    if word[-1] == "y" and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    if len(word) > 1:
        word = _replace(word, _STEP_2.get(word[-2], ()))
    word = _replace(word, _STEP_3.get(word[-1], ()))
    if len(word) > 1:
        word = _drop(word, _STEP_4.get(word[-2], ()))
    if word[-1] == "e":
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _short(word[:-1])):
            word = word[:-1]
    if word[-1] == "l" and _double_consonant(word) and _measure(word) > 1:
        word = word[:-1]
    return word


def _plural_and_participle(word: str) -> str:
    """Step 1: -s, -eed, -ed, -ing."""
    if word[-1] == "s":
        if word.endswith("sses") or word.endswith("ies"):
            word = word[:-2]
        elif word[-2] != "s":
            word = word[:-1]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    stem = word[:-2] if word.endswith("ed") else word[:-3] if word.endswith("ing") else ""
    if not _has_vowel(stem):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if _double_consonant(stem):
        return stem if stem[-1] in "lsz" else stem[:-1]
    if _measure(stem) == 1 and _short(stem):
        return stem + "e"
    return stem


def _replace(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    for suffix, other in rules:
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            return stem + other if _measure(stem) > 0 else word
    return word


def _drop(word: str, suffixes: tuple[str, ...]) -> str:
    for suffix in suffixes:
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            if suffix == "ion" and not stem.endswith(("s", "t")):
                continue
            return stem if _measure(stem) > 1 else word
    return word


def _consonants(word: str) -> list[bool]:
    kinds: list[bool] = []
    for letter in word:
        kinds.append(not kinds or not kinds[-1] if letter == "y" else letter not in "aeiou")
    return kinds


def _measure(word: str) -> int:
    """Return m, the number of times that a consonant follows a vowel."""
    kinds = _consonants(word)
    return sum(consonant and not before for before, consonant in pairwise(kinds))


def _has_vowel(word: str) -> bool:
    return not all(_consonants(word))


def _double_consonant(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _consonants(word)[-1]


def _short(word: str) -> bool:
    """Return whether the end is consonant, vowel, consonant, the last not w, x or y (hop, not snow)."""
    return len(word) > 2 and _consonants(word)[-3:] == [True, False, True] and word[-1] not in "wxy"
