"""Made-up secrets, drawn at random from what the table of kinds says, so that none stands in this repository."""

import base64
import json
import string
import sys
import uuid

if sys.version_info >= (3, 11):
    from re import _constants as sre
    from re import _parser as parser
else:
    import sre_constants as sre
    import sre_parse as parser


ALNUM = string.ascii_letters + string.digits
_SETS = {sre.CATEGORY_DIGIT: string.digits, sre.CATEGORY_SPACE: " ", sre.CATEGORY_WORD: ALNUM}


def drawn(draw, length, alphabet=ALNUM):
    return "".join(draw.choices(alphabet, k=length))


def sample(kind, draw):
    if kind.name in _BY_HAND and (kind.by_hand or {"password", "basic", "jwt", "opaque"} & kind.flags):
        return _BY_HAND[kind.name](draw)
    return _text(parser.parse(kind.pattern.pattern.decode("latin-1")), draw)


def _text(nodes, draw, text=""):
    for kind, value in nodes:
        if kind is sre.LITERAL:
            text += chr(value)
        elif kind is sre.IN:
            text += draw.choice(_members(value))
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, inner = value
            for _ in range(draw.randint(least, min(most, least + 8))):
                text = _text(inner, draw, text)
        elif kind is sre.BRANCH:
            text = _text(draw.choice(value[1]), draw, text)
        elif kind is sre.SUBPATTERN:
            text = _text(value[-1], draw, text)
        elif kind is sre.ASSERT and value[0] == -1:
            before = _text(value[1], draw)
            text = before if before.endswith(text) else text + before
        else:
            assert kind is sre.ASSERT_NOT, kind
    return text


def _members(members):
    members = list(members)
    if members[0][0] is sre.NEGATE:
        return ALNUM
    found = ""
    for kind, value in members:
        if kind is sre.LITERAL:
            found += chr(value)
        elif kind is sre.RANGE:
            found += "".join(map(chr, range(value[0], value[1] + 1)))
        else:
            found += _SETS[value]
    return found


def _web(draw, length):
    return base64.urlsafe_b64encode(draw.randbytes(length)).decode().rstrip("=")


def _jwt(draw):
    parts = ({"alg": "ES256", "typ": "JWT"}, {"sub": drawn(draw, 20)})
    return ".".join(
        [*(base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts), _web(draw, 32)]
    )


def _key(draw, kind):
    body = "\n".join(base64.b64encode(draw.randbytes(48)).decode() for _ in range(5))
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"


def _opaque(draw):
    return draw.choice([drawn(draw, 32, "0123456789abcdef"), drawn(draw, 40), str(uuid.UUID(bytes=draw.randbytes(16)))])


def _basic(draw):
    return base64.b64encode(f"ada:{drawn(draw, 14)}".encode()).decode()


_BY_HAND = {
    "private key": lambda draw: _key(draw, draw.choice(["RSA ", "EC ", "OPENSSH ", ""]) + "PRIVATE KEY"),
    "PuTTY private key": lambda draw: f"PuTTY-User-Key-File-3: x\nPrivate-Lines: 1\n{_web(draw, 48)[:64]}\n",
    "JSON Web Key": lambda draw: f'{{"kty": "EC", "crv": "P-256", "d": "{_web(draw, 32)}"}}',
    "JSON Web Token": _jwt,
    "password in a URL": lambda draw: (
        f"{draw.choice(['postgres', 'mysql', 'mongodb+srv', 'redis', 'amqps', 'https', 'smtp'])}"
        f"://{draw.choice(['ada', ''])}:{drawn(draw, 16)}@db.internal:5432/app"
    ),
    "database password": lambda draw: draw.choice(
        [
            "jdbc:postgresql://db.internal/app?user=ada&password={}",
            "Server=db.internal;Database=app;User Id=ada;Password={};",
            "Driver=x;Server=db;Uid=ada;Pwd={};",
            "host=db.internal port=5432 user=ada password={} dbname=app",
            "jdbc:oracle:thin:ada/{}@db.internal:1521/app",
        ]
    ).format(drawn(draw, 16)),
    "netrc password": lambda draw: f"machine api.internal login ada password {drawn(draw, 20)}",
    "Basic authorization": lambda draw: f"Authorization: Basic {_basic(draw)}",
    "password in a variable": lambda draw: f"PGPASSWORD={drawn(draw, 16)}",
    "password in a command": lambda draw: f"sshpass -p '{drawn(draw, 16)}' ssh ada@db.internal",
    "Authorization header": lambda draw: (
        f"Authorization: {draw.choice(['Bearer', 'token', 'Bot', 'SSWS', 'GenieKey'])} {_opaque(draw)}"
    ),
    "key in a header": lambda draw: f"{draw.choice(['x-api-key', 'X-Api-Key', 'Api-Key'])}: {_opaque(draw)}",
    "key in a variable": lambda draw: draw.choice(
        ["MISTRAL_API_KEY={}", "export TWILIO_AUTH_TOKEN='{}'", 'ADA_CLIENT_SECRET": "{}"', "JWT_SECRET: {}"]
    ).format(_opaque(draw)),
    "key in a field": lambda draw: draw.choice(
        ['{{"refresh_token":"{}"}}', "{{'api_key': '{}'}}", '{{"client_secret": "{}"}}']
    ).format(_opaque(draw)),
    "Docker registry password": lambda draw: f'{{"auths": {{"x": {{"auth": "{_basic(draw)}"}}}}}}',
}
