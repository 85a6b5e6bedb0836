"""The forms of likely secrets, from ``secret_kinds.txt``, and the search for them.

A kind whose literal begins a word is searched at the start of long words, the few others by their literal. Each pattern
is bounded, so that the time grows with the length of a text, whatever its content.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from colony_memory._values import NamedTuple, cached_property
from colony_memory.capture._secret_rules import TABLE


class Place(NamedTuple):
    """The place of a likely secret in a text."""

    start: int
    end: int
    hidden: tuple[int, int]  # the secret part of it, which masking hides
    kind: Kind
    secret: bytes  # that part, as a reader sees it
    is_wide: bool = False  # it has a zero next to each letter, as in text of Windows

    def in_source(self, source: Callable[[int, int], tuple[int, int]]) -> Place:
        """The place in the text from which the searched one was made."""
        start, end = source(self.start, self.end)
        return self._replace(start=start, end=end, hidden=source(*self.hidden))

    def shifted(self, by: int, *, times: int = 1) -> Place:
        return self.in_source(lambda start, end: (times * start + by, times * end + by))


class Kind:
    """One line of the table: the name, the literals of which each secret has one, the pattern, and conditions."""

    def __init__(self, line: str) -> None:
        self.name, hints, self.form, *flags = re.split(r" {2,}", line)
        self.flags = frozenset(flags[0].split(",")) if flags else frozenset[str]()
        self.is_last = "last" in self.flags  # it counts only if no other kind is found there
        self.by_hand = self.form.startswith("=")  # matched by a function, not by a pattern
        # `~`: its literals may be anywhere, else they begin a word; `*`: it has none, but a length.
        self.place = hints[0] if hints[0] in "*~" else ""
        literals = [hint[len(self.place) :].replace(r"\x20", " ") for hint in hints.split()]
        self.hints = tuple(literal.encode("ascii") for literal in literals)
        # Bytes before and after the literal, in which escapes are undone.
        self.reach = _BY_HAND[self.form][1] if self.by_hand else (32, 160) if self.place == "~" else (0, 0)
        self._judges = [_JUDGES[flag] for flag in self.flags if flag in _JUDGES] or [_is_likely]

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        form = _SHORTHAND.sub(lambda match: _SHORT[match[0]], self.form.replace("<uuid>", _UUID).replace("<is>", _IS))
        if self.place != "~":
            hints = "|".join(map(re.escape, map(bytes.decode, self.hints))) if not self.place else ""
            form = f"{_BEFORE}(?:{hints}){form}{_AFTER}"
        return re.compile(form.encode("ascii"))

    def match(self, text: bytes, place: int) -> Iterable[Place]:
        """The secret at a place with one of the literals, if it passes the kind's conditions."""
        if self.by_hand:
            found = [*_BY_HAND[self.form][0](text, place)]
        elif (match := self.pattern.match(text, place)) is None:
            return ()
        elif "whole" in self.flags:
            found = [(*match.span(), match.span())]
        elif self.pattern.groups:
            found = [(*match.span(), match.span(1))]
        else:
            hint = next((len(literal) for literal in self.hints if text.startswith(literal, place)), 0)
            found = [(*match.span(), (place + hint, match.end()))]
        return [
            Place(start, end, hidden, self, text[slice(*hidden)])
            for start, end, hidden in found
            if self.form in _KEYS or all(judge(text[slice(*hidden)]) for judge in self._judges)
        ]


def find(text: bytes, near: list[tuple[int, int]] | None = None) -> list[Place]:
    """Find likely secrets; windows around literals, in which escapes may hide one, are added to ``near``."""
    words = _Words(text)
    found, start, lowered = words.find(), 0, text.lower()
    for first, last in (*words.base64, (len(text), len(text))):
        _find_by_stem(text, lowered[:first], start, near, found)
        start = last
    return found


def _find_by_stem(
    text: bytes, lowered: bytes, first: int, near: list[tuple[int, int]] | None, found: list[Place]
) -> None:
    for stem, (pattern, hints) in _ANYWHERE.items():
        size, ends = len(stem), dict[Kind, int]()
        for match in pattern.finditer(lowered, first):
            at = match.start()
            # Looked up by the case of the stem, and by the byte before it.
            for shift, hint, kind in (*hints.get(text[at : at + size], ()), *hints.get(text[at - 1 : at + size], ())):
                place = at - shift
                if place < 0 or not text.startswith(hint, place):
                    continue
                if near is not None:
                    near.append((place - kind.reach[0], place + kind.reach[1]))
                for finding in kind.match(text, place) if ends.get(kind, 0) <= place else ():
                    ends[kind] = finding.end
                    found.append(finding)


class _Words:
    """The long words of a text, joined, each with the character before it: most kinds begin in these."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self.base64: list[tuple[int, int]] = []  # long stretches: after 60 characters of one, no kind begins
        self._starts, pieces = list[int](), list[bytes]()
        joined = b" " + text.translate(_JOINED) + b" "
        find_run = joined.find
        start = find_run(_RUN)
        while start >= 0:
            end = last = find_run(b" ", start + _SHORTEST_WORD)
            if end - start > _GIANT and not text[start : end - 1].rstrip(b"=").translate(None, _BASE64):
                end = start + _LONGEST_WORD
                self.base64.append((end - 1, last - 1 - _LONGEST_WORD))
            self._starts.append(start - 1)
            pieces.append(text[start - 2 : end - 1] if start > 1 else b" " + text[: end - 1])
            start = find_run(_RUN, last)
        self._parts = b"".join(pieces).translate(_DIVIDED).split(b" ")
        self._ends = [*accumulate(map(len, pieces))]

    def find(self) -> list[Place]:
        """The secrets that begin a word, follow a sign inside one, or fill the text between two signs."""
        found, ends, parts, text = list[Place](), dict[Kind, int](), self._parts, self._text
        likely = [at for at, part in enumerate(parts) if part[:3] in _HEADS or len(part) in _LENGTHS]
        places = [0, *accumulate(map(len, parts))] if likely else []
        end = 0
        for number in likely:
            place, part = places[number] + number, parts[number]
            if place >= end:
                word = bisect_right(self._ends, place)
                start, end = self._ends[word - 1] if word else 0, self._ends[word]
                left, quota, literals = dict[Kind, int](), _TRIES * (end - start) + _TRIED, (end - start) // _FEW + _FEW
                shift = self._starts[word] - start - 1
            # The tries of a kind are limited by the length of the word, however often its literal is there: so the time
            # grows with the length of the text, whatever its content.
            begins = [0] if not part.startswith(b"\\") else [2, 1] if part[1:2] in _OF_ESCAPES else [1]
            for skipped in begins if literals >= 0 else ():
                at = place + skipped + shift
                kinds = _BY_BEGIN.get(text[at : at + 3].translate(_SPACED), ())
                for kind in (*kinds, *_BY_LENGTH.get(len(part) - skipped, ())):
                    if ends.get(kind, 0) > at:
                        continue
                    if kind.place != "*":
                        if not text.startswith(kind.hints, at):
                            continue
                        literals -= 1
                        if left.setdefault(kind, quota) <= 0:
                            continue
                        left[kind] -= min(end - place, _TRIED)
                    # The letter of an escape before it does not belong to it.
                    rest, cut = (text[at : at + _TRIED + _LONGEST_WORD], at) if skipped > 1 else (text, 0)
                    for finding in kind.match(rest, at - cut):
                        found.append(finding.shifted(cut))
                        ends[kind] = found[-1].end
        return found


_IS = r"""[\\]{0,8}["']?\s{0,3}[:=]\s{0,3}[\\]{0,8}["']?"""
_UUID = "#{8}-#{4}-#{4}-#{4}-#{12}"
_SHORT = {"@": "[A-Za-z0-9]", "&": "[A-Za-z0-9_-]", "#": "[0-9a-f]", "!": "[a-z0-9]"}
_SHORTHAND = re.compile(r"[@&#]|(?<![?<])!")
# Not inside a longer word, nor in a long base64 text, where any few letters occur by chance.
_BEFORE = r"(?<![A-Za-z0-9_-])(?<![A-Za-z0-9+/]{60})"
_AFTER = r"(?![A-Za-z0-9_-])(?!\+[A-Za-z0-9+/]{24}|/[A-Za-z0-9+/]{60})"

# Words include dots and the signs of base64 here, as some secrets do; other secrets may follow such a sign.
_SHORTEST_WORD, _LONGEST_WORD = 17, 120
_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
# Limits for one kind in a word: the bytes matched, in multiples of the word's length, and those of one match.
_TRIES, _TRIED = 4, 3000
_FEW = 64  # literals tried in one word, and one more for each so many characters of it
_SPACED = bytes(code if code in _LETTERS or code == 92 else 46 if code in b"+/=" else 32 for code in range(256))
# Dots and signs of base64, in a word or before it, divide it; a backslash before it is kept.
_DIVIDED = bytes(code if (code in _LETTERS and code != 46) or code == 92 else 32 for code in range(256))
_OF_ESCAPES = b"ntr"  # letters of escapes, with which a word seems to begin
_GIANT = 1000  # letters of base64
_JOINED = bytes(97 if code in _LETTERS or code in b"+/=" else 32 for code in range(256))
_RUN = b"a" * _SHORTEST_WORD
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

_PLACEHOLDER = re.compile(rb"(?i)example|placeholder|redacted|changeme|your|x{5}|\*{3}|deadbeef|JBSWY3DPEHPK3PXP")
_COUNTED = re.compile(rb"(?i)0?1234567890?|0123456789abc(?:def)?|abcdefgh(?:ijkl)?")  # as in documented examples
_WORD = re.compile(rb"[A-Za-z][a-z]{4,}")
_VOWEL = re.compile(rb"(?i)[aeiouy]")
_WORDY = 0.45  # the least share of words in a made-up text; seldom does so much of a random one look like these
_CAMEL = re.compile(rb"[A-Z][a-z]{2,}|(?<![A-Za-z])[a-z]{4,}(?![A-Za-z])")
_CAMELS = 0.8  # the same for words joined by capitals or signs, which may be shorter
_PERIOD = 12  # the longest sequence of characters whose repetition makes a text not random
_DIFFERENT = 10  # the least number of different characters in a random text
_DIGIT, _UPPER, _LOWER = (re.compile(pattern) for pattern in (rb"[0-9]", rb"[A-Z]", rb"[a-z]"))


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
    return _is_cased(text) and not _is_wordy(text)


def _is_no_column(text: bytes) -> bool:
    """True if not like a database column, which may begin as a key of the Colony does: words, or joined lower case."""
    if not _is_random(text) or not _DIGIT.search(text) or _is_wordy(text) or text.isdigit():
        return False
    return text != text.lower() or not (b"_" in text or b"-" in text)


_UUID_TEXT = re.compile(rb"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _is_opaque(text: bytes) -> bool:
    """True if random, in a place for text of any kind: a file name, a call, joined words."""
    if not _is_random(text) or not _DIGIT.search(text) or _is_wordy(text) or text.isdigit():
        return False
    if any(text[period:] == text[:-period] for period in range(1, _PERIOD + 1)):
        return False
    parts = [part for part in re.split(rb"[-_./+~]", text) if part]
    return max(map(len, parts)) >= _LONG_PART or _is_mixed(text) or _UUID_TEXT.fullmatch(text) is not None


_MADE_UP = re.compile(
    rb"(?i)passw|secret|changeme|placeholder|example|redacted|your|^(?:my)?(?:pass|pwd?|token|key)\d*$"
)
_FILLED_IN = re.compile(rb"^[$<{%\[(*]|\$\{|\{\{|\{[a-z_]+\}|%s|\.\.\.")
_SHORTEST, _LONG, _LONG_PART = 6, 12, 14


def is_password(text: bytes) -> bool:
    """True if not a placeholder, a template, or a word as in examples."""
    if len(text) < _SHORTEST or len(set(text)) < _SHORTEST - 1 or _MADE_UP.search(text) or _FILLED_IN.search(text):
        return False
    return len(text) >= _LONG or re.search(rb"[0-9]|[a-z].*[A-Z]|[A-Z].*[a-z]|[^A-Za-z0-9 ]", text) is not None


def _is_basic(text: bytes) -> bool:
    """True for a user's name and password in base64, see RFC 7617."""
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

# One pattern for a whole private key would try its parts in many ways, so these are matched one after the other: see
# RFC 7468, RFC 4716 (as OpenSSH has it), RFC 9580. The lines of a key may be joined by escapes, quoted or indented.
_BEGIN = re.compile(rb"-----BEGIN (?P<type>(?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?)-----")
_GAP = re.compile(rb"(?:\\[nrt]|[\s>\"',+|#*]){1,40}")
_HEADER = re.compile(rb"[A-Z][A-Za-z-]{1,40}: [^\n\\]{1,200}(?=[\n\\])")
_BODY = re.compile(rb"[A-Za-z0-9+/]{16}")
_MORE = re.compile(rb"[A-Za-z0-9+/=]*")
_HEADING, _HEADERS = 100, 5
_LONGEST_KEY = 20_000
_PUTTY = re.compile(rb"PuTTY-User-Key-File-\d: ")
_PUTTY_BODY = re.compile(rb"Private-Lines: \d{1,4}\r?\n(?=[A-Za-z0-9+/=])[A-Za-z0-9+/=\r\n]*")
_PASSWORD = re.compile(rb"[Pp](?:assword|wd)=([^\s;&\"'<>\\]{3,1024})")
_SERVER = re.compile(rb"\b(?:(?:server|data source|host|address|addr|endpoint)\s?=|jdbc:[a-z]{2,12}:)[^\n]*[;?& ]\Z")
_BEFORE_FIELD = frozenset({b";", b"?", b"&", b" "})
_PRIVATE_PART = re.compile(rb"\"d\"\s{0,5}:\s{0,5}\"([A-Za-z0-9_-]{43,1400})\"")
_NETRC = re.compile(rb"(machine)\s{1,40}[^\s]{1,253}\s{1,40}login\s{1,40}[^\s]{1,128}\s{1,40}(password)")
_NETRC_PASSWORD = re.compile(rb"\s{1,40}((?:[^\s\\]|\\(?![nrt\"\\])){3,4096})")
# The password may be a cloud's login token, of some 2,000 characters.
_NEAR, _LONGEST_JWK, _LONGEST_URL, _LONGEST_NETRC = 300, 4000, 2200, 600

_Span = tuple[int, int, tuple[int, int]]


def _private_keys(text: bytes, place: int) -> Iterator[_Span]:
    """Private keys: some of the key has to follow the heading, which a text about keys may have alone."""
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


def _putty_keys(text: bytes, place: int) -> Iterator[_Span]:
    begin = _PUTTY.match(text, place)
    if begin is not None:
        limit = place + _LONGEST_KEY
        following = _PUTTY.search(text, begin.end(), limit)
        body = _PUTTY_BODY.search(text, begin.end(), following.start() if following else limit)
        if body is not None:
            yield place, body.end(), (place, body.end())


def _json_web_keys(text: bytes, place: int) -> Iterator[_Span]:
    start, end = text.rfind(b"{", max(0, place - _LONGEST_JWK), place), text.find(b"}", place, place + _LONGEST_JWK)
    match = _PRIVATE_PART.search(text, start, end) if 0 <= start < end else None
    if match is not None:
        yield *match.span(), match.span(1)


def _database_passwords(text: bytes, place: int) -> Iterator[_Span]:
    """Passwords after ``password=``, which counts only if a server is named before it."""
    match = _PASSWORD.match(text, place) if text[place - 1 : place] in _BEFORE_FIELD else None
    if match is None or not is_password(match[1]):
        return
    before = text[max(0, place - _NEAR) : place].lower()
    if _SERVER.search(before, before.rfind(b"\n") + 1):
        yield *match.span(1), match.span(1)


def _before_at(sign: bytes, form: str) -> Callable[[bytes, int], Iterator[_Span]]:
    pattern = re.compile(sign + form.encode("ascii") + b"@")

    def find_there(text: bytes, place: int) -> Iterator[_Span]:
        start = text.rfind(sign, max(0, place - _LONGEST_URL), place)
        if start >= 0 and (match := pattern.match(text, start)) and match.end() == place + 1:
            yield *match.span(), match.span(1)

    return find_there


def _netrc_passwords(text: bytes, place: int) -> Iterator[_Span]:
    if text.rfind(b"login", max(0, place - _NEAR), place) >= 0:
        found = _NETRC.finditer(text, max(0, place - _LONGEST_NETRC), place + len(b"password"))
        match = next((match for match in found if match.start(2) == place), None)
        if match is not None and (password := _NETRC_PASSWORD.match(text, match.end())):
            yield match.start(), password.end(), password.span(1)


_KEYS = ("=private_keys", "=putty_keys")  # without further conditions
_BY_HAND: dict[str, tuple[Callable[[bytes, int], Iterator[_Span]], tuple[int, int]]] = {
    "=private_keys": (_private_keys, (_HEADING, 3 * _LONGEST_KEY // 2)),
    "=putty_keys": (_putty_keys, (0, 3 * _LONGEST_KEY // 2)),
    "=json_web_keys": (_json_web_keys, (_LONGEST_JWK, _LONGEST_JWK)),
    "=database_passwords": (_database_passwords, (_NEAR, _NEAR)),
    "=netrc_passwords": (_netrc_passwords, (_LONGEST_NETRC, _NEAR)),
    # No common escape occurs in one.
    "=url_passwords": (_before_at(b"://", r"""[^\s/?#@:"'`<>\\]{0,128}:([^\s/@"'`<>\\]{3,2048})"""), (0, 0)),
    "=oracle_passwords": (_before_at(b"jdbc:oracle:", r"""[a-z]{2,6}:[^\s/:@]{1,64}/([^\s/@"'<>]{3,128})"""), (0, 0)),
}

KINDS = tuple(Kind(line) for line in TABLE.decode("ascii").splitlines() if line and not line.startswith("#"))
# Parts that literals which may be anywhere have in common; they are searched in lower case, in place of those.
_STEMS = (b"00d", b"xox", b"kty", b"ken", b"cret", b"key", b"uth", b"pass", b"wd", b"hook", b"~", b"@", b"g=")
_ANYWHERE: dict[bytes, tuple[re.Pattern[bytes], dict[bytes, list[tuple[int, bytes, Kind]]]]] = {}
_BY_BEGIN: dict[bytes, list[Kind]] = {}  # by the first three letters of a literal, or by the only one
_BY_LENGTH: dict[int, list[Kind]] = {}
_HEADS: set[bytes] = set()  # first bytes of the word parts at which there may be a literal
for _kind in KINDS:
    if _kind.place == "*":
        _shortest, _, _longest = _kind.hints[0].partition(b"-")
        for _length in range(int(_shortest), int(_longest or _shortest) + 1):
            _BY_LENGTH.setdefault(_length, []).append(_kind)
        continue
    for _hint in _kind.hints:
        if not _kind.place:
            for _before in (b"", b"\\", b"\\n", b"\\t", b"\\r"):
                _HEADS.add(re.split(rb"[.+/=]", _before + _hint)[0][:3])
            # A literal of two letters may be followed by any third one.
            for _third in [bytes([code]) for code in _LETTERS] if len(_hint) == 2 else [_hint[2:3]]:
                _HEADS.add((_hint[:2] + _third).split(b".")[0])
                _kinds = _BY_BEGIN.setdefault((_hint[:2] + _third).translate(_SPACED), [])
                if _kind not in _kinds:
                    _kinds.append(_kind)
            continue
        _low = _hint.lower()
        _stem = next((stem for stem in _STEMS if stem in _low), _low)
        _shift = _low.index(_stem)
        _pattern, _hints = _ANYWHERE.setdefault(_stem, (re.compile(re.escape(_stem)), {}))
        _hints.setdefault(_hint[max(0, _shift - 1) : _shift + len(_stem)], []).append((_shift, _hint, _kind))
# A part of a word may begin with a backslash and the letter of an escape.
_LENGTHS = frozenset(length + before for length in _BY_LENGTH for before in range(3))
