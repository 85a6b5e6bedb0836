"""The forms of likely secrets, read from ``secret_kinds.txt``, and their places in a text.

Nothing is tried at each place of a text: where a secret is, a literal stands. A kind whose literal begins a word is
looked for where a long word begins, the few others by their literal. Each pattern is bounded, so that the time grows
with the length of a text, whatever it is made of.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, NamedTuple

from colony_memory._values import cached_property
from colony_memory.capture.secrets import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["KINDS", "Kind", "Span", "find", "find_behind_escapes"]


class Span(NamedTuple):
    """A place in a text."""

    start: int  # where what was found begins
    end: int  # where it ends
    hidden: tuple[int, int]  # the part of it that no person makes up and that masking hides
    kind: Kind  # what it looks like


class Kind:
    """One line of the table: the name, the literals one of which is in each, the pattern, and further conditions."""

    def __init__(self, line: str) -> None:
        columns = re.split(r" {2,}", line)
        self.name, hints, self.form = columns[:3]
        self.flags = frozenset(columns[3].split(",")) if len(columns) > 3 else frozenset[str]()
        self.by_hand = self.form.startswith("=")  # a function takes the place of a pattern
        self.place = hints[0] if hints[0] in "*~" else ""  # of the literals: in a word, anywhere, or at its beginning
        self.hints = tuple(each[len(self.place) :].encode("ascii") for each in hints.split())

    @property
    def is_last(self) -> bool:
        """It counts only where nothing else is found."""
        return "last" in self.flags

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """The pattern, compiled when it is first looked for."""
        form = _SHORTHAND.sub(lambda match: _SHORT[match[0]], self.form.replace("<uuid>", _UUID))
        if self.place != "~":
            hints = "|".join(map(re.escape, map(bytes.decode, self.hints))) if not self.place else ""
            form = f"{_BEFORE}(?:{hints}){form}{_AFTER}"
        return re.compile(form.encode("ascii"))

    def match(self, text: bytes, place: int) -> Iterator[Span]:
        """Yield what is at a place, where one of the literals stands."""
        if self.by_hand:
            for start, end, hidden in _BY_HAND[self.form](text, place):
                yield from self._judged(start, end, hidden, text)
        elif (match := self.pattern.match(text, place)) is not None:
            yield from self.matched(match, next((len(each) for each in self.hints if text.startswith(each, place)), 0))

    def matched(self, match: re.Match[bytes], hint: int) -> Iterator[Span]:
        """Yield what the pattern matches, unless it is not what it looks like; the literal has that length."""
        start, end = match.span()
        if "whole" in self.flags:
            hidden = (start, end)
        else:
            hidden = match.span(1) if self.pattern.groups else (start + hint, end)
        yield from self._judged(start, end, hidden, match.string)

    def _judged(self, start: int, end: int, hidden: tuple[int, int], text: bytes) -> Iterator[Span]:
        judges = [_JUDGES[flag] for flag in self.flags if flag in _JUDGES] or [_is_likely]
        if self.form in _KEYS or all(judge(text[slice(*hidden)]) for judge in judges):
            yield Span(start, end, hidden, self)


def find(text: bytes) -> list[Span]:
    """Find what looks like a secret, in no order; two may overlap, but for two of a kind with the same literal."""
    found: list[Span] = []
    lowered = text.lower()
    for stem, hints in _ANYWHERE.items():
        at, size, behind = lowered.find(stem), len(stem), dict[Kind, int]()
        while at >= 0:
            # Told by the case of the stem, and by what stands before it.
            for shift, hint, kinds in (*hints.get(text[at : at + size], ()), *hints.get(text[at - 1 : at + size], ())):
                place = at - shift
                for kind in kinds if text.startswith(hint, place) and place >= 0 else ():
                    if behind.get(kind, 0) <= place and (kind.by_hand or kind.pattern.match(text, place)):
                        for span in kind.match(text, place):
                            behind[kind] = span.end
                            found.append(span)
            at = lowered.find(stem, at + size)
    spaced = b" " + text.translate(_SPACED)
    words = _Words(text, spaced)
    for match in _STARTS.finditer(spaced):
        start, letters = match.start(), match[0][1:4]
        if letters in _BY_BEGIN or letters[:1] in _BY_BEGIN:
            found += words.matches_at(start, letters)
        end = words.end(start)
        if end - start > _LONG_WORD:
            found += _inside(text, spaced, start, end)
    words = _Words(text, spaced)
    for match in _BEHIND_SIGN.finditer(spaced):
        if match.start() >= words.passed:
            found += words.matches_at(match.start(), match[1])
    return found


def find_behind_escapes(text: bytes) -> Iterator[Span]:
    """Find what begins behind a backslash, with a letter that the two are an escape with."""
    windows = list[tuple[int, int]]()
    for match in _BEHIND_BACKSLASH.finditer(text):
        place = match.end()
        for kind in (*_BY_BEGIN.get(text[place : place + 3], ()), *_BY_BEGIN.get(text[place : place + 1], ())):
            if text.startswith(kind.hints, place):
                yield from kind.match(text, place)
        if text[max(0, place - _SHORTEST_WORD) : place].rstrip(b"\\ \t").endswith((b":", b"=")):
            first = max(0, place - _LONGEST_WORD)
            if windows and first < windows[-1][1]:
                first = windows.pop()[0]
            windows.append((first, place + _TRIED))
    for first, last in windows:
        for span in find(text[first:last]):
            if _ESCAPE.search(text, span.start + first, span.hidden[0] + first + 1):
                hidden = (span.hidden[0] + first, span.hidden[1] + first)
                yield Span(span.start + first, span.end + first, hidden, span.kind)


class _Words:
    """A text's words, in each of which one kind is tried about as often as the word is long, however often its literal
    stands there: so the time grows with the length of the text, whatever it is made of.

    Attributes:
        passed: Up to where nothing more is tried, in a word that is all literals.
    """

    def __init__(self, text: bytes, spaced: bytes) -> None:
        self._text, self._spaced, self._end, self.passed = text, spaced, 0, 0
        self._left, self._behind = dict[Kind, int](), dict[Kind, int]()

    def end(self, place: int) -> int:
        """The end of the word that a place is in."""
        if place >= self._end:
            end = self._spaced.find(b" ", place + 1)
            self._end, self._left = len(self._spaced) if end < 0 else end, {}
            self._whole = _TRIES * (self._end - place) + _TRIED
            self._literals = (self._end - place) // _FEW + _FEW
        return self._end

    def matches_at(self, place: int, word: bytes) -> list[Span]:
        """The matches at a place, where a literal may stand that begins so."""
        found, end = list[Span](), self.end(place)
        for kind in (*_BY_BEGIN.get(word, ()), *_BY_BEGIN.get(word[:1], ())):
            if self._text.startswith(kind.hints, place) and self._behind.get(kind, 0) <= place:
                self._literals -= 1
                left = self._left.get(kind, self._whole)
                if left > 0:
                    self._left[kind] = left - min(end - place, _TRIED)
                    found += kind.match(self._text, place)
        for span in found:
            self._behind[span.kind] = span.end
        if self._literals < 0:
            self.passed = end
        return found


def _inside(text: bytes, spaced: bytes, start: int, end: int) -> Iterator[Span]:
    """The places of a literal in a long word. Where several are near each other, they are searched at once."""
    windows: list[tuple[int, int, set[bytes]]] = []
    for hint in _HINT_INSIDE.finditer(spaced, start, end):
        first, last = max(0, hint.start() - _LONGEST_WORD), hint.end() + _LONGEST_WORD
        if windows and first < windows[-1][1]:
            first, _, hints = windows.pop()
            windows.append((first, last, hints | {hint[0]}))
        else:
            windows.append((first, last, {hint[0]}))
    for first, last, hints in windows:
        for kind in _INSIDE:
            if not hints.isdisjoint(kind.hints):
                for match in kind.pattern.finditer(text, first, last):
                    yield from kind.matched(match, 0)


_UUID = "#{8}-#{4}-#{4}-#{4}-#{12}"
_SHORT = {"@": "[A-Za-z0-9]", "&": "[A-Za-z0-9_-]", "#": "[0-9a-f]", "!": "[a-z0-9]"}
_SHORTHAND = re.compile(r"[@&#]|(?<![?<])!")
# No part of a longer word, nor of a long base64 text, where any few letters come up.
_BEFORE = r"(?<![A-Za-z0-9_-])(?<![A-Za-z0-9+/]{60})"
_AFTER = r"(?![A-Za-z0-9_-])(?!\+[A-Za-z0-9+/]{24}|/[A-Za-z0-9+/]{60})"

# Words hold dots here and the signs of base64, as some secrets do; others may stand behind one.
_SHORTEST_WORD, _LONG_WORD, _LONGEST_WORD = 15, 35, 120
_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
# Times its length that a word is gone through for one kind, and the length that one of them looks at, at most.
_TRIES, _TRIED = 4, 3000
_FEW = 64  # literals in one word, and one for each so many characters of it
_SPACED = bytes(code if code in _LETTERS else 46 if code in b"+/=" else 32 for code in range(256))

_PLACEHOLDER = re.compile(rb"(?i)example|placeholder|redacted|changeme|your|x{5}|\*{3}|deadbeef|JBSWY3DPEHPK3PXP")
_COUNTED = re.compile(rb"(?i)0?1234567890?|0123456789abc(?:def)?|abcdefgh(?:ijkl)?")  # as in documented examples
_WORD = re.compile(rb"[A-Za-z][a-z]{4,}")
_VOWEL = re.compile(rb"(?i)[aeiouy]")
_WORDY = 0.45  # of a text that has words in it; of what is drawn at random, seldom so much looks like these
_CAMEL = re.compile(rb"[A-Z][a-z]{2,}|(?<![A-Za-z])[a-z]{4,}(?![A-Za-z])")
_CAMELS = 0.8  # of what is joined by capitals or signs, whose words may be shorter
_PERIOD = 12  # characters that come again and again in what is made up
_DIFFERENT = 10  # characters, at least, in what is drawn at random
_DIGIT, _UPPER, _LOWER = (re.compile(each) for each in (rb"[0-9]", rb"[A-Z]", rb"[a-z]"))


def _is_random(text: bytes) -> bool:
    drawn = _COUNTED.sub(b"", text)
    if 2 * len(drawn) < len(text) or _PLACEHOLDER.search(text):
        return False
    return len(set(drawn)) >= min(_DIFFERENT, len(drawn) // 2)


def _is_wordy(text: bytes) -> bool:
    words = [word for word in _WORD.findall(text) if len(_VOWEL.findall(word)) > 1]
    if sum(map(len, words)) > _WORDY * len(text):
        return True
    return sum(len(word) for word in _CAMEL.findall(text) if _VOWEL.search(word)) > _CAMELS * len(text)


def _is_likely(text: bytes) -> bool:
    return _is_random(text) and (_DIGIT.search(text) is not None or not _is_wordy(text))


def _is_cased(text: bytes) -> bool:
    return _is_random(text) and _UPPER.search(text) is not None and _LOWER.search(text) is not None


def _is_mixed(text: bytes) -> bool:
    return _is_cased(text) and _is_likely(text) and not _is_wordy(text)


def _is_no_column(text: bytes) -> bool:
    """Names of columns begin like keys of the Colony; such words are of words, or in lower case and joined."""
    joined = b"_" in text or b"-" in text
    return (
        _is_likely(text)
        and _DIGIT.search(text) is not None
        and not (joined and text == text.lower())
        and not text.isdigit()
        and not _is_wordy(text)
    )


_UUID_TEXT = re.compile(rb"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _is_opaque(text: bytes) -> bool:
    """No person made it up, in a place where all else may stand: a name of a file, a call, words that are joined."""
    if not _is_random(text) or not _DIGIT.search(text) or _is_wordy(text) or text.isdigit():
        return False
    if any(text[each:] == text[:-each] for each in range(1, _PERIOD + 1)):
        return False
    parts = [part for part in re.split(rb"[-_./+~]", text) if part]
    return max(map(len, parts)) >= _LONG_PART or _is_mixed(text) or _UUID_TEXT.fullmatch(text) is not None


_MADE_UP = re.compile(
    rb"(?i)passw|secret|changeme|placeholder|example|redacted|your|^(?:my)?(?:pass|pwd?|token|key)\d*$"
)
_FILLED_IN = re.compile(rb"^[$<{%\[(*]|\$\{|\{\{|\{[a-z_]+\}|%s|\.\.\.")
_SHORTEST, _LONG, _LONG_PART = 6, 12, 14


def is_password(text: bytes) -> bool:
    """It is no placeholder, no template, and no word such as examples have."""
    if len(text) < _SHORTEST or len(set(text)) < _SHORTEST - 1 or _MADE_UP.search(text) or _FILLED_IN.search(text):
        return False
    return len(text) >= _LONG or re.search(rb"[0-9]|[a-z].*[A-Z]|[A-Z].*[a-z]|[^A-Za-z0-9 ]", text) is not None


def _is_basic(text: bytes) -> bool:
    """It is a user's name and password in base64, see RFC 7617."""
    name, colon, password = _unbase64(text).partition(b":")
    return bool(name and colon) and password.isascii() and is_password(password)


def _is_jwt(text: bytes) -> bool:
    header, payload = (_unbase64(part) for part in (b"eyJ" + text).split(b".")[:2])
    return (b'"alg"' in header or b'"typ"' in header) and not _PLACEHOLDER.search(payload)


def _unbase64(text: bytes) -> bytes:
    text = text.rstrip(b"=")
    try:
        return base64.urlsafe_b64decode(text.replace(b"+", b"-").replace(b"/", b"_") + b"=" * (-len(text) % 4))
    except binascii.Error:
        return b""


_JUDGES: dict[str, Callable[[bytes], bool]] = {
    "any": _is_random,
    "mixed": _is_mixed,
    "cased": _is_cased,
    "column": _is_no_column,
    "password": is_password,
    "basic": _is_basic,
    "jwt": _is_jwt,
    "opaque": _is_opaque,
}

# A pattern for all of a private key would try its parts in many ways. So its parts are looked for one after the other.
# RFC 7468, RFC 4716 (as OpenSSH has it), RFC 9580. In a key's text the lines may be joined by escapes, quoted or
# indented.
_BEGIN = re.compile(rb"-----BEGIN (?P<type>(?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?)-----")
_GAP = re.compile(rb"(?:\\[nrt]|[\s>\"',+|#*]){1,40}")
_HEADER = re.compile(rb"[A-Z][A-Za-z-]{1,40}: [^\n\\]{1,200}(?=[\n\\])")
_BODY = re.compile(rb"[A-Za-z0-9+/]{16}")
_MORE = re.compile(rb"[A-Za-z0-9+/=]*")
_HEADING, _HEADERS = 100, 5
_LONGEST_KEY = 20_000
_PUTTY = re.compile(rb"PuTTY-User-Key-File-\d: ")
_PUTTY_BODY = re.compile(rb"Private-Lines: \d{1,4}\r?\n(?=[A-Za-z0-9+/=])[A-Za-z0-9+/=\r\n]*")
_PASSWORD = re.compile(rb"[Pp](?:assword|wd)=([^\s;&\"'<>\\]{3,128})")
_SERVER = re.compile(rb"\b(?:(?:server|data source|host|address|addr|endpoint)\s?=|jdbc:[a-z]{2,12}:)[^\n]*[;?& ]\Z")
_BEFORE_FIELD = frozenset({b";", b"?", b"&", b" "})
_PRIVATE_PART = re.compile(rb"\"d\"\s{0,5}:\s{0,5}\"([A-Za-z0-9_-]{43,1400})\"")
_NEAR, _LONGEST_JWK = 300, 4000

Place = tuple[int, int, tuple[int, int]]


def _private_keys(text: bytes, place: int) -> Iterator[Place]:
    """A heading alone, as a text about keys has it, is none: some of the key has to follow."""
    start = text.rfind(b"-----BEGIN ", max(0, place - _HEADING), place)
    begin = _BEGIN.match(text, start) if start >= 0 else None
    if begin is None or begin.end() < place:
        return
    gap = _GAP.match(text, begin.end())
    for _ in range(_HEADERS):
        header = gap and _HEADER.match(text, gap.end())
        if header:
            gap = _GAP.match(text, header.end())
    if not gap or not _BODY.match(text, gap.end()):
        return
    dashes = text.find(b"-----", gap.end(), gap.end() + _LONGEST_KEY)
    last = b"-----END " + begin["type"] + b"-----"
    if dashes >= 0 and text.startswith(last, dashes):
        end = dashes + len(last)
    else:
        more = _MORE.match(text, gap.end(), gap.end() + _LONGEST_KEY)
        end = more.end() if more else gap.end()
    yield begin.start(), end, (begin.start(), end)


def _putty_keys(text: bytes, place: int) -> Iterator[Place]:
    begin = _PUTTY.match(text, place)
    if begin is not None:
        limit = place + _LONGEST_KEY
        following = _PUTTY.search(text, begin.end(), limit)
        body = _PUTTY_BODY.search(text, begin.end(), following.start() if following else limit)
        if body is not None:
            yield place, body.end(), (place, body.end())


def _json_web_keys(text: bytes, place: int) -> Iterator[Place]:
    start, end = text.rfind(b"{", max(0, place - _LONGEST_JWK), place), text.find(b"}", place, place + _LONGEST_JWK)
    match = _PRIVATE_PART.search(text, start, end) if 0 <= start < end else None
    if match is not None:
        yield *match.span(), match.span(1)


def _database_passwords(text: bytes, place: int) -> Iterator[Place]:
    """``password=`` says something only where a server is named before it."""
    match = _PASSWORD.match(text, place) if text[place - 1 : place] in _BEFORE_FIELD else None
    if match is None or not is_password(match[1]):
        return
    before = text[max(0, place - _NEAR) : place].lower()
    if _SERVER.search(before, before.rfind(b"\n") + 1):
        yield *match.span(1), match.span(1)


_KEYS = ("=private_keys", "=putty_keys")  # of which nothing else is asked
_BY_HAND: dict[str, Callable[[bytes, int], Iterator[Place]]] = {
    "=private_keys": _private_keys,
    "=putty_keys": _putty_keys,
    "=json_web_keys": _json_web_keys,
    "=database_passwords": _database_passwords,
}

KINDS = tuple(Kind(line) for line in TABLE.decode("ascii").splitlines() if line and not line.startswith("#"))
_INSIDE = [kind for kind in KINDS if kind.place == "*"]
_HINT_INSIDE = re.compile(b"|".join(re.escape(hint) for kind in _INSIDE for hint in kind.hints))
# What is looked for in place of the literals that may stand anywhere: of many there are these parts, in one case.
_STEMS = (b"token", b"secret", b"key", b"uth", b"pass", b"pwd", b"hook", b"~")
_ANYWHERE: dict[bytes, dict[bytes, list[tuple[int, bytes, list[Kind]]]]] = {}
_BY_BEGIN: dict[bytes, list[Kind]] = {}  # by the first three letters of a literal, or by the only one
_seconds: dict[str, set[str]] = {}
for _kind in KINDS:
    for _hint in _kind.hints if _kind.place != "*" else ():
        if _kind.place:
            _low = _hint.lower()
            _stem = next((each for each in _STEMS if each in _low), _low)
            _shift = _low.index(_stem)
            _hints = _ANYWHERE.setdefault(_stem, {}).setdefault(_hint[max(0, _shift - 1) : _shift + len(_stem)], [])
            _same = next((each for _, literal, each in _hints if literal == _hint), None)
            if _same is None:
                _hints.append((_shift, _hint, [_kind]))
            else:
                _same.append(_kind)
            continue
        # Of a literal of two letters, each third one may follow.
        for _third in [bytes([code]) for code in _LETTERS] if len(_hint) == 2 else [_hint[2:3]]:
            _kinds = _BY_BEGIN.setdefault(_hint[:2] + _third, [])
            if _kind not in _kinds:
                _kinds.append(_kind)
        _seconds.setdefault(chr(_hint[0]), set()).add(chr(_hint[1]) if len(_hint) > 1 else "")
_BEGINS = "|".join(
    re.escape(first) + (rf"[{re.escape(''.join(sorted(seconds)))}]." if "" not in seconds else "..")
    for first, seconds in _seconds.items()
)
_STARTS = re.compile(rf" (?=[^ ]{{{_SHORTEST_WORD}}})(?:{_BEGINS}|[^ .-][^ ]{{{_LONG_WORD - 1}}})".encode("ascii"))
_BEHIND_BACKSLASH = re.compile(rb"\\(?=[ntr][A-Za-z0-9_.+/=~-]{%d})" % (_SHORTEST_WORD - 1))
_ESCAPE = re.compile(rb"\\[ntr]")
# One may stand right behind another.
_BEHIND_SIGN = re.compile(rf"\.(?=[^ ]{{{_SHORTEST_WORD}}})(?=({_BEGINS}))".encode("ascii"))
