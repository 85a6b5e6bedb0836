"""What likely secrets look like.

The forms are those that the services document or that their scanners' rules show (GitHub's list of supported secret
scanning patterns, the rule set of gitleaks); each has a part that is always the same, which is looked for first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class Kind:
    """One kind of secret.

    Attributes:
        name: What it is.
        hints: One of these is in each, which is quick to find out: a literal, or a pattern that begins with one.
        pattern: The secret; group ``random``, where there is one, is the part that no person makes up and that masking
            hides.
        is_likely: Looks at that part once more.
    """

    name: str
    hints: tuple[str | re.Pattern[str], ...]
    pattern: re.Pattern[str]
    is_likely: Callable[[str], bool]

    def find(self, text: str) -> Iterator[re.Match[str]]:
        """Yield what looks like it."""
        if any(hint in text if isinstance(hint, str) else hint.search(text) for hint in self.hints):
            for match in self.pattern.finditer(text):
                if self.is_likely(match.groupdict().get("random") or match.group()):
                    yield match


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


def _anything(_: str) -> bool:
    return True


def _kind(
    name: str, hints: str | re.Pattern[str], pattern: str, is_likely: Callable[[str], bool] = _has_digits
) -> Kind:
    return Kind(name, tuple(hints.split()) if isinstance(hints, str) else (hints,), re.compile(pattern), is_likely)


# No part of a longer word, path or base64 text. An assignment, a quote or a bracket may stand before it.
_B = r"(?<![A-Za-z0-9_+/-])"
_E = r"(?![A-Za-z0-9_+/-])"
# In a key's text the lines may be joined by escapes, quoted or indented.
_GAP = r"(?:\\[nrt]|[\s>\"',+|#*])"

KINDS = (
    # RFC 7468, RFC 4716 (as OpenSSH has it), RFC 9580. A heading alone, as a text about keys has it, is none.
    _kind(
        "private key",
        "PRIVATE",
        rf"-----BEGIN (?P<type>(?:[A-Z0-9]+ ){{0,3}}PRIVATE KEY(?: BLOCK)?)-----{_GAP}{{1,40}}"
        rf"(?:[A-Z][A-Za-z-]+: [^\n\\]{{1,200}}{_GAP}{{1,40}}){{0,5}}[A-Za-z0-9+/]{{16}}"
        r"(?:(?:(?!-----)[\s\S]){0,20000}?-----END (?P=type)-----|[A-Za-z0-9+/=]*)",
        _anything,
    ),
    _kind(
        "PuTTY private key",
        "PuTTY-User-Key-File-",
        r"PuTTY-User-Key-File-\d: (?:.*\r?\n){1,200}?Private-Lines: \d+\r?\n(?:[A-Za-z0-9+/=]+\r?\n?)+",
        _anything,
    ),
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
