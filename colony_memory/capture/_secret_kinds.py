"""What likely secrets look like.

The forms are those that the services document or that their scanners' rules show (GitHub's list of supported secret
scanning patterns, the rule set of gitleaks); each has a part that is always the same, which is looked for first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Span(NamedTuple):
    """A place in a text.

    Attributes:
        start: Where what was found begins.
        end: Where it ends.
        hidden: The part of it that no person makes up and that masking hides.
    """

    start: int
    end: int
    hidden: tuple[int, int]


@dataclass(frozen=True)
class Kind:
    """One kind of secret.

    Attributes:
        name: What it is.
        hints: One of these is in each, which is quick to find out: a literal, or a pattern that begins with one.
        search: Finds what looks like it, in one pass over a text.
        form: The pattern that it is found by, if it has one.
    """

    name: str
    hints: tuple[str | re.Pattern[str], ...]
    search: Callable[[str], Iterator[Span]]
    form: str = ""

    def find(self, text: str) -> Iterator[Span]:
        """Yield what looks like it."""
        if any(hint in text if isinstance(hint, str) else hint.search(text) for hint in self.hints):
            yield from self.search(text)


_PLACEHOLDER = re.compile(r"(?i)example|placeholder|redacted|changeme|your|x{5}|\*{3}|1234567890|abcdefgh")
_DIFFERENT = 10  # characters, at least, in what is drawn at random


def _is_random(text: str) -> bool:
    return len(set(text)) >= _DIFFERENT and not _PLACEHOLDER.search(text)


def _has_digits(text: str) -> bool:
    return _is_random(text) and any(map(str.isdigit, text))


def _is_no_identifier(text: str) -> bool:
    """Names of columns begin like keys of the Colony; such words are in lower case and joined by underscores."""
    words = "_" in text or "-" in text
    return _has_digits(text) and not (words and text == text.lower()) and not text.isdigit()


def _kind(
    name: str, hints: str | re.Pattern[str], pattern: str, is_likely: Callable[[str], bool] = _has_digits
) -> Kind:
    """A kind that a pattern tells: it begins with a literal, and of what may repeat nothing can match in two ways."""
    compiled = re.compile(pattern)

    def search(text: str) -> Iterator[Span]:
        for match in compiled.finditer(text):
            hidden = "random" if match["random"] else 0
            if is_likely(match[hidden]):
                yield Span(match.start(), match.end(), match.span(hidden))

    return Kind(name, tuple(hints.split()) if isinstance(hints, str) else (hints,), search, pattern)


# A pattern for all of a private key would try its parts in many ways. So its parts are looked for one after the other.
# RFC 7468, RFC 4716 (as OpenSSH has it), RFC 9580. In a key's text the lines may be joined by escapes, quoted or
# indented.
_BEGIN = re.compile(r"-----BEGIN (?P<type>(?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?)-----")
_GAP = re.compile(r"(?:\\[nrt]|[\s>\"',+|#*]){1,40}")
_HEADER = re.compile(r"[A-Z][A-Za-z-]{1,40}: [^\n\\]{1,200}(?=[\n\\])")
_BODY = re.compile(r"[A-Za-z0-9+/]{16}")
_MORE = re.compile(r"[A-Za-z0-9+/=]*")
_HEADERS = 5
_LONGEST_KEY = 20_000
_PUTTY = re.compile(r"PuTTY-User-Key-File-\d: ")
_PUTTY_BODY = re.compile(r"Private-Lines: \d{1,4}\r?\n(?=[A-Za-z0-9+/=])[A-Za-z0-9+/=\r\n]*")


def _private_keys(text: str) -> Iterator[Span]:
    """A heading alone, as a text about keys has it, is none: some of the key has to follow."""
    place = 0
    while (begin := _BEGIN.search(text, place)) is not None:
        place = begin.end()
        gap = _GAP.match(text, place)
        for _ in range(_HEADERS):
            header = gap and _HEADER.match(text, gap.end())
            if header:
                gap = _GAP.match(text, header.end())
        if not gap or not _BODY.match(text, gap.end()):
            continue
        dashes = text.find("-----", gap.end(), gap.end() + _LONGEST_KEY)
        end = f"-----END {begin['type']}-----"
        if dashes >= 0 and text.startswith(end, dashes):
            place = dashes + len(end)
        else:
            more = _MORE.match(text, gap.end())
            place = more.end() if more else gap.end()
        yield Span(begin.start(), place, (begin.start(), place))


def _putty_keys(text: str) -> Iterator[Span]:
    place = 0
    while (begin := _PUTTY.search(text, place)) is not None:
        place = begin.end()
        following = _PUTTY.search(text, place, place + _LONGEST_KEY)
        body = _PUTTY_BODY.search(text, place, following.start() if following else place + _LONGEST_KEY)
        if body is not None:
            place = body.end()
            yield Span(begin.start(), place, (begin.start(), place))


# No part of a longer word, path or base64 text. An assignment, a quote or a bracket may stand before it.
_B = r"(?<![A-Za-z0-9_+/-])"
_E = r"(?![A-Za-z0-9_+/-])"

KINDS = (
    Kind("private key", ("PRIVATE",), _private_keys),
    Kind("PuTTY private key", ("PuTTY-User-Key-File-",), _putty_keys),
    _kind("age secret key", "AGE-SECRET-KEY-1", r"\bAGE-SECRET-KEY-1(?P<random>[02-9AC-HJ-NP-Z]{58})\b"),
    # The form is not documented: the prefix and a long token of URL-safe characters.
    _kind("Colony API key", "col_", rf"{_B}col_(?P<random>[A-Za-z0-9_-]{{20,}}){_E}", _is_no_identifier),
    _kind("AWS access key", "AKIA ASIA ABIA", rf"{_B}A(?:KI|SI|BI)A(?P<random>[A-Z2-7]{{16}}){_E}", _is_random),
    _kind(
        "AWS secret key",
        "ecret_access_key ECRET_ACCESS_KEY ecretAccessKey",
        r"(?i:secret_?access_?key)[\"']?\s{0,3}[=:]\s{0,3}[\"']?(?P<random>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    _kind("GitHub token", re.compile("gh[pousr]_"), rf"{_B}gh[pousr]_(?P<random>[A-Za-z0-9]{{36,255}}){_E}"),
    _kind("GitHub token", "github_pat_", rf"{_B}github_pat_(?P<random>[A-Za-z0-9]{{22}}_[A-Za-z0-9]{{59}}){_E}"),
    _kind(
        "GitLab token",
        re.compile("gl[a-z]{2,5}-"),
        rf"{_B}gl(?:pat|dt|rt|ptt|cbt|agent|oas|soat|ffct|imt|ft)-(?P<random>[A-Za-z0-9_-]{{20,300}}(?:\.[a-z0-9.]+)?){_E}",
    ),
    _kind(
        "Slack token",
        "xox",
        rf"{_B}xox[abeprs][.-](?P<random>[A-Za-z0-9.-]{{20,}}){_E}",
    ),
    _kind("Slack app token", "xapp-", rf"{_B}xapp-\d-(?P<random>[A-Za-z0-9-]{{20,}}){_E}"),
    _kind(
        "Slack webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<random>[A-Za-z0-9]+/[A-Za-z0-9]+/[A-Za-z0-9/]{20,})",
    ),
    _kind("Stripe key", "sk_ rk_", rf"{_B}[sr]k_(?:live|test|prod)_(?P<random>[A-Za-z0-9]{{16,250}}){_E}"),
    _kind("Stripe webhook secret", "whsec_", rf"{_B}whsec_(?P<random>[A-Za-z0-9+/=]{{32,}}){_E}"),
    _kind("Anthropic API key", "sk-ant-", rf"{_B}sk-ant-[a-z]{{3,8}}\d\d-(?P<random>[A-Za-z0-9_-]{{32,}}){_E}"),
    _kind("OpenRouter API key", "sk-or-v1-", rf"{_B}sk-or-v1-(?P<random>[0-9a-f]{{64}}){_E}"),
    _kind(
        "OpenAI API key",
        "sk-",
        rf"{_B}sk-(?:(?:proj|svcacct|admin|None)-(?P<random>[A-Za-z0-9_-]{{40,}})|(?:[A-Za-z0-9]{{20}}T3BlbkFJ)?[A-Za-z0-9]{{20}}"
        rf"(?:[A-Za-z0-9]{{28}})?){_E}",
    ),
    _kind("Google API key", "AIza", rf"{_B}AIza(?P<random>[A-Za-z0-9_-]{{35}}){_E}"),
    _kind("Google OAuth secret", "GOCSPX-", rf"{_B}GOCSPX-(?P<random>[A-Za-z0-9_-]{{28}}){_E}"),
    _kind("Google OAuth token", "ya29.", rf"{_B}ya29\.(?P<random>[A-Za-z0-9_-]{{40,}}){_E}"),
    _kind("npm token", "npm_", rf"{_B}npm_(?P<random>[A-Za-z0-9]{{36}}){_E}"),
    # A macaroon, in base64, whose location is the index.
    _kind("PyPI token", "pypi-AgE", rf"{_B}pypi-AgE(?P<random>[A-Za-z0-9_-]{{60,}}){_E}"),
    _kind("Hugging Face token", "hf_ api_org_", rf"{_B}(?:hf|api_org)_(?P<random>[A-Za-z0-9]{{34}}){_E}", _is_random),
    _kind(
        "Telegram bot token",
        ":AA",
        r"(?:(?<![A-Za-z0-9_+/-])|(?<=/bot))\d{8,10}:AA(?P<random>[A-Za-z0-9_-]{33})(?![A-Za-z0-9_+-])",
    ),
    _kind(
        "Discord webhook",
        "/api/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/\d{17,20}/(?P<random>[A-Za-z0-9_-]{60,80})",
    ),
    _kind("SendGrid API key", "SG.", rf"{_B}SG\.(?P<random>[A-Za-z0-9_-]{{22}}\.[A-Za-z0-9_-]{{43}}){_E}"),
    _kind("xAI API key", "xai-", rf"{_B}xai-(?P<random>[A-Za-z0-9]{{80}}){_E}"),
    _kind("Groq API key", "gsk_", rf"{_B}gsk_(?P<random>[A-Za-z0-9]{{52}}){_E}"),
    _kind("Perplexity API key", "pplx-", rf"{_B}pplx-(?P<random>[A-Za-z0-9]{{48}}){_E}"),
    _kind("Replicate token", "r8_", rf"{_B}r8_(?P<random>[A-Za-z0-9]{{37}}){_E}"),
    _kind("DigitalOcean token", "_v1_", rf"{_B}do[opr]_v1_(?P<random>[0-9a-f]{{64}}){_E}"),
    _kind("Docker Hub token", "dckr_", rf"{_B}dckr_(?:pat|oat)_(?P<random>[A-Za-z0-9_-]{{27,}}){_E}"),
    _kind("Databricks token", "dapi", rf"{_B}dapi(?P<random>[0-9a-f]{{32}})(?:-\d)?{_E}"),
    _kind("HashiCorp Vault token", "hvs. hvb.", rf"{_B}hv[sb]\.(?P<random>[A-Za-z0-9_-]{{24,}}){_E}"),
    _kind("Linear API key", "lin_api_", rf"{_B}lin_api_(?P<random>[A-Za-z0-9]{{40}}){_E}"),
    _kind("Notion token", "ntn_", rf"{_B}ntn_(?P<random>[A-Za-z0-9]{{46}}){_E}"),
    _kind("Azure storage key", "AccountKey=", r"AccountKey=(?P<random>[A-Za-z0-9+/]{86}==)"),
)
