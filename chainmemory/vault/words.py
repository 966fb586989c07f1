"""Words of a text, as search sees them: Unicode-aware, case-folded, scripts without spaces by pairs of
letters.

Only tokens are normalised (NFKC, case folding); what is stored and hashed never is (protocol §1).
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable
from typing import Final

# Han, kana, Hangul and the other scripts of East and South-East Asia that put no space between words.
_UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # kana
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)


# Every combining mark of Unicode is in here; variation selectors above carry nothing to search for.
_MAY_BE_MARKS: Final = range(0x300, 0x1F000)
# Letters in lower case, digits as they are, all else a space: ten times as fast as a regular expression.
_ASCII: Final = bytes(
    ord(chr(code).lower()) if chr(code).isalnum() and code < 128 else ord(" ") for code in range(256)
)
_RUN: Final = re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_HAS_UNSPACED: Final = re.compile(rf"[{_UNSPACED}]")


def words(text: str) -> list[str]:
    """Return the words of `text` in order, repeated as often as they occur.

    A run of letters of an unspaced script gives its overlapping pairs (one letter alone gives itself).
    """
    if text.isascii():
        return text.encode("ascii").translate(_ASCII).decode("ascii").split()
    # Folding can undo the normal form, so normalise once more (Unicode, 3.13 D146).
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    found = _word().findall(folded)
    if not _HAS_UNSPACED.search(folded):
        return found
    return list(_split_unspaced(found))


def _split_unspaced(found: Iterable[str]) -> Iterable[str]:
    for word in found:
        for run in _RUN.findall(word):
            if len(run) > 1 and _HAS_UNSPACED.match(run):
                yield from (run[at : at + 2] for at in range(len(run) - 1))
            else:
                yield run


@functools.cache
def _word() -> re.Pattern[str]:
    r"""Return the pattern of a word: letters, digits and combining marks.

    `\w` lacks the marks, and words of Indic scripts would fall apart at their vowels.
    """
    marks = "".join(chr(code) for code in _MAY_BE_MARKS if unicodedata.category(chr(code))[0] == "M")
    return re.compile(rf"(?:[^\W_]|[{marks}])+")
