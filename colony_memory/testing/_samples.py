"""Texts and names that a vault has to keep exactly."""

from __future__ import annotations

SNAPSHOT = "cmem.default.20260101T000000000000Z-abcdef"
TEXTS = {
    "empty": "",
    "a blank": " ",
    "no newline at the end": "a\nb",
    "newlines at the end": "a\n\n\n",
    "CRLF and CR": "a\r\nb\rc\n",
    "other line ends": "a\u2028b\u2029c\u0085d\x0be\x0cf",
    "NUL": "a\x00b\x00",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f",
    "a byte order mark": "\ufeffa",
    "composed": "\u00e9",
    "decomposed": "e\u0301",
    "several scripts": "Grüße, 世界, привет, שלום, नमस्ते",
    "beyond the BMP": "\U0001f9e0 \U0001f3f3\ufe0f\u200d\U0001f308 \U0001d518 \U0010ffff",
    "noncharacters": "\ufffe\uffff\ufffd",
    "JSON": '{"a": "\\u0000\\ud83e", "b": [1e999]}',
    "percent and escapes": "%00 %2F \\n \\x00 &amp; ${HOME} %s {0}",
}
NAMES = (
    f"{SNAPSHOT}.p0.json",
    f"{SNAPSHOT}.p10.json",
    f"{SNAPSHOT}.manifest.json",
    "cmem.default.latest.json",
    "cmem.a-b_c.latest.json",
    "a b.json",
    "a%20b.json",
    "a%2Fb.json",
    "a+b.json",
    "a#b.json",
    "a&b=c.json",
    "'quoted'.json",
    "mémoire.json",
    "two..dots.json",
    "n" * 195 + ".json",
)
