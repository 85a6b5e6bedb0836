import base64
import hashlib
import json
import pickle
import random
import re
import string
import subprocess
import sys
import time
import uuid

import pytest
from capture_trees import make, metadata, posix
from secret_samples import sample

from colony_memory.capture import SecretFinding, find_secrets, mask_secrets, masked_names, read_folder, read_paths
from colony_memory.capture._metadata import METADATA_NAME, Metadata, dump_metadata, split_documents
from colony_memory.capture._secret_kinds import KINDS
from colony_memory.capture.secrets import RULES
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, SecretsFound
from colony_memory.shell.app.options import BackupOptions

DRAW = random.Random(5)
ALNUM = string.ascii_letters + string.digits
URLSAFE = ALNUM + "-_"


def drawn(length, alphabet=ALNUM):
    """Some characters with a digit among them, and none at the ends that would end a word."""
    return f"a{''.join(DRAW.choices(alphabet, k=length - 3))}7Z"


BODY = "\n".join(base64.b64encode(DRAW.randbytes(48)).decode() for _ in range(5))
# Made here, so that no scanner of this repository takes them for real ones.
SECRETS = [
    ("private key", f"-----BEGIN {kind}PRIVATE KEY-----\n{BODY}\n-----END {kind}PRIVATE KEY-----")
    for kind in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ")
] + [
    (
        "private key",
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\n{BODY}\n-----END PGP PRIVATE KEY BLOCK-----",
    ),
    (
        "private key",
        (
            f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES,0A\n\n{BODY}\n"
            "-----END RSA PRIVATE KEY-----"
        ),
    ),
    ("PuTTY private key", f"PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 2\n{BODY}\n"),
    ("Colony API key", f"col_{drawn(43, URLSAFE)}"),
    ("Colony API key", f"col_{'f0e1d2c3b4a59687' * 2}"),
    ("Telegram bot token", f"123456789:AA{drawn(33, URLSAFE)}"),
    ("Telegram bot token", f"https://api.telegram.org/bot123456789:AA{drawn(33)}/getMe"),
]


AROUND = ["{}", "a\n\nkey={}\n", 'export KEY="{}";', "(`{}`),", "{}\n{}"]


@pytest.mark.parametrize(("kind", "secret"), SECRETS, ids=[kind for kind, _ in SECRETS])
def test_each_kind_is_found_and_masked(kind, secret):
    for around in AROUND:
        check_found_and_masked(kind, secret, around)


def check_found_and_masked(kind, secret, around):
    text = around.format(secret, secret)
    documents = {"a.md": "nothing", "notes/b.md": text}
    findings = find_secrets(documents)
    first = SecretFinding("notes/b.md", text.count("\n", 0, text.index(secret)) + 1, kind)
    assert findings[0] == first
    assert {finding.kind for finding in findings} == {kind}
    assert len(findings) == around.count("{}")
    masked, found = mask_secrets(documents)
    assert found == findings
    assert secret not in masked["notes/b.md"]
    assert f"[masked: {kind}]" in masked["notes/b.md"]
    assert find_secrets(masked) == ()
    assert masked["a.md"] == "nothing"
    assert masked_names(masked) == ("notes/b.md",)
    assert secret[-12:] not in repr(findings) + str(findings[0])


def test_a_key_in_another_notation_is_found():
    deep = key = f"-----BEGIN PRIVATE KEY-----\n{BODY}\n-----END PRIVATE KEY-----\n"
    for _ in range(8):
        deep = json.dumps(deep)
    indented = [key.replace("\n", ending) for ending in ("\r\n", "\n    ")]
    for text in (json.dumps({"private_key": key}), deep, *indented, key[:200]):
        masked = mask_secrets({"a": text})[0]["a"]
        assert "[masked: private key]" in masked
        assert BODY[:40] not in masked
        assert BODY[-40:] not in masked


ORDINARY = {
    "prose": "The sk-learn tutorial says AKIA keys start with AKIA. Rotate ghp_ tokens and col_ keys. " * 20,
    "headings": "A PEM file begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----.\n"
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n",
    "public keys": f"-----BEGIN PUBLIC KEY-----\n{BODY}\n-----END PUBLIC KEY-----\n"
    f"-----BEGIN CERTIFICATE-----\n{BODY}\n-----END CERTIFICATE-----\n"
    f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{drawn(40)}\n",
    "placeholders": f"col_...\ncol_your_api_key_goes_here_1\nghp_{'x' * 36}\nsk-ant-api03-{'X' * 95}\n"
    "AKIAIOSFODNN7EXAMPLE\n"
    f"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\nsk_test_{'0' * 24}\nhf_{'a' * 34}\nnpm_{'1234567890' * 4}\n",
    "columns": "SELECT col_customer_address_line_2_and_more, col_00000000000000000000 FROM col_table_of_customers_v2\n"
    "col_LevelTypeScoreItemWrap19 col_MainHeadTypeCenterItem77 col_BaseFlagHeadBlockCustomer2\n",
    "names of keys": "OPENAI_API_KEY=your_openai_api_key_here_please_replace\nMISTRAL_API_KEY=${MISTRAL_API_KEY}\n"
    "A_API_KEY=a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4\nB_API_KEY=/run/secrets/openai-api-key-for-production-2024\n"
    "C_API_KEY=00000000-0000-0000-0000-000000000000\nD_API_KEY=os.environ.get('X')\nNEXT_PAGE_TOKEN=" + drawn(40) + "\n"
    "Authorization: Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9...\nAuthorization: Bearer $TOKEN\n"
    "headers.Authorization = `Bearer ${accessTokenFromTheServer}`\nAuthorization: Bearer YOUR_API_KEY_FROM_THE_PAGE_2\n"
    "PGPASSWORD=$PGPASSWORD psql\nsshpass -p password ssh host\n",
    "hashes": "\n".join(
        f"{hashlib.new(kind, str(n).encode()).hexdigest()}  file{n}"
        for kind in ("md5", "sha1", "sha256")
        for n in range(200)
    ),
    "uuids": "\n".join(str(uuid.UUID(int=DRAW.getrandbits(128))) for _ in range(500)),
    "snapshots": "20261127T081500000000Z-0a1b2c cmem.default.20261127T081500000000Z-0a1b2c.p0.json\n" * 50,
    "did": "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd\n" * 50,
    "addresses": "@ada @\n@ ada@example.invalid @" + "x" * 500 + "@",
    "times": "12:34:56 20261127:AAxx 1234567890:AA short\n" * 50,
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_text_is_left_alone(name):
    assert find_secrets({name: ORDINARY[name]}) == ()
    assert mask_secrets({name: ORDINARY[name]}) == ({name: ORDINARY[name]}, ())


def test_a_megabyte_of_pictures_in_base64_is_left_alone():
    data = DRAW.randbytes(1_000_000)
    pictures = {
        "standard": base64.b64encode(data),
        "lines": base64.encodebytes(data),
        "url": base64.urlsafe_b64encode(data),
    }
    assert find_secrets({name: text.decode() for name, text in pictures.items()}) == ()
    assert find_secrets({METADATA_NAME: dump_metadata(Metadata({"face.png": data}))}) == ()


def test_the_rules_have_a_name_that_is_the_same_in_each_process():
    code = "from colony_memory.capture.secrets import RULES; print(RULES)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [RULES]
    assert re.fullmatch(r"[0-9a-f]{16}", RULES)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_files_that_are_not_text_are_searched(encoding):
    data = f"caf\xe9 ghp_{drawn(36)}".encode(encoding)
    documents = {"b.md": "b", METADATA_NAME: dump_metadata(Metadata({"a.txt": data}))}
    (finding,) = find_secrets(documents)
    assert finding == SecretFinding("a.txt", None, "GitHub token")
    assert str(finding) == "a.txt: GitHub token"
    with pytest.raises(ColonyMemoryError, match=r"in text only.*exclude.*: a\.txt: GitHub token; try") as caught:
        mask_secrets(documents)
    assert isinstance(caught.value, SecretsFound)
    assert caught.value.findings == (finding,)
    assert mask_secrets(documents, allow=finding.id) == (documents, ())


@pytest.mark.parametrize(
    ("name", "size", "found"), [("agent.key", 32, 1), ("SEED", 32, 1), ("a.bin", 32, 0), ("k.key", 33, 0)]
)
def test_a_raw_seed_is_known_by_its_name_and_size(name, size, found):
    documents = {METADATA_NAME: dump_metadata(Metadata({f"keys/{name}": b"\xff" * size}))}
    assert [each.kind for each in find_secrets(documents)] == ["raw private key"] * found


def test_what_this_package_writes_as_a_key_is_found(tmp_path):
    pytest.importorskip("cryptography")
    from colony_memory import Ed25519Signer

    signer = Ed25519Signer.generate()
    signer.save(tmp_path / "agent.pem")
    signer.save(tmp_path / "agent.key", encoding="raw")
    with pytest.warns(ColonyMemoryWarning) as warned:
        assert len(read_folder(tmp_path).secrets) == 2
    assert [str(each.message).split(": ")[1] for each in warned] == ["agent.key", "agent.pem:1"]


def test_masking_keeps_the_rest():
    documents = {
        "a": f"x ghp_{drawn(36)} y",
        "b": "b",
        METADATA_NAME: dump_metadata(Metadata({"c": b"\xff"}, ("d",), frozenset({"b"}), ("b",))),
    }
    masked, _ = mask_secrets(documents)
    assert masked["a"] == "x ghp_[masked: GitHub token] y"
    assert list(masked) == sorted(masked)
    _, kept = split_documents(masked)
    assert kept == Metadata({"c": b"\xff"}, ("d",), frozenset({"b"}), ("a", "b"))
    assert masked_names(masked) == ("a", "b")
    assert masked_names({"a": "a"}) == masked_names(metadata(files={})) == ()
    assert documents["a"].startswith("x ghp_")


def test_the_choices(tmp_path):
    token = f"ghp_{drawn(36)}"
    src = make(tmp_path / "src", {"a.md": f"x\n{token}\n".encode(), "b.md": b"b"})
    finding = (SecretFinding("a.md", 2, "GitHub token"),)
    with pytest.raises(
        ColonyMemoryError, match=r"^nothing was saved: 1 likely secret; .*: a\.md:2: GitHub token; try .*mask"
    ) as caught:
        read_folder(src, secrets="stop")
    assert token not in str(caught.value)
    with pytest.warns(ColonyMemoryWarning, match=r"saved: a\.md:2: GitHub token; .*; try read_folder") as warned:
        capture = read_folder(src)
    assert warned[0].filename == __file__
    assert capture.secrets == finding
    assert token in capture.documents["a.md"]
    allowed = read_folder(src, secrets="allow")
    assert allowed.secrets == ()
    assert allowed.documents == capture.documents
    masked = read_folder(src, secrets="mask")
    assert masked.secrets == finding
    assert masked.documents["a.md"] == "x\nghp_[masked: GitHub token]\n"
    assert masked_names(masked.documents) == ("a.md",)
    assert masked.documents == mask_secrets(allowed.documents)[0]
    with pytest.raises(ValueError, match="secrets must be one of 'stop', 'warn', 'mask', 'allow', not 'ignore'"):
        read_folder(src, secrets="ignore")


def test_the_first_ten_are_told(tmp_path):
    src = make(tmp_path, {f"{n:02}": f"ghp_{drawn(36)}".encode() for n in range(12)})
    with pytest.raises(SecretsFound) as caught:
        read_folder(src, secrets="stop")
    assert caught.value.message.endswith("09:1: GitHub token and 2 more")
    assert caught.value.message.startswith(f"{caught.value.summary}: 00:1: GitHub token, ")
    assert len(caught.value.findings) == 12
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.findings) == (str(caught.value), caught.value.findings)
    with pytest.warns(ColonyMemoryWarning) as warned:
        read_folder(src)
    assert len(warned) == 11
    assert "and 2 more likely secrets are saved" in str(warned[-1].message)
    ten = [finding.id for finding in caught.value.findings[:10]]
    with pytest.raises(
        SecretsFound, match=r"^nothing was saved: 2 likely secrets; .*: 10:1: GitHub token, 11:1: GitHub token; try"
    ):
        read_folder(src, secrets="stop", allow_secrets=ten)


def test_one_finding_is_allowed_by_name(tmp_path):
    one, other = f"ghp_{drawn(36)}", f"ghp_{drawn(36)}"
    src = make(tmp_path / "src", {"a b.md": f"x\n{one}\n".encode(), "c.md": one.encode()})
    first, second = find_secrets(read_folder(src, secrets="allow").documents)
    assert re.fullmatch(r"a b\.md:github-token:[0-9a-f]{6}", first.id)
    # Equal secrets in two files do not show as equal.
    assert first.id[-6:] != second.id[-6:]
    with pytest.raises(SecretsFound, match=r"^nothing was saved: 1 likely secret; .*: c\.md:1: GitHub token; try"):
        read_folder(src, secrets="stop", allow_secrets=first.id)
    capture = read_paths([src], secrets="stop", allow_secrets=[first.id, second.id, "gone.md:npm-token:0a1b2c"])
    assert (capture.secrets, capture.allowed) == ((), (first, second))
    assert one in capture.documents["a b.md"]
    # It stays allowed where it moves within its file, and another secret there is found.
    (src / "a b.md").write_text(f"edited\n\nkey={one}\n{other}\n{one}\n")
    with pytest.raises(SecretsFound) as caught:
        read_folder(src, secrets="stop", allow_secrets=[first.id, second.id])
    assert [str(each) for each in caught.value.findings] == ["a b.md:4: GitHub token"]
    masked = read_folder(src, secrets="mask", allow_secrets=first.id)
    assert masked.documents["a b.md"] == f"edited\n\nkey={one}\nghp_[masked: GitHub token]\n{one}\n"
    assert [str(each) for each in masked.secrets] == ["a b.md:4: GitHub token", "c.md:1: GitHub token"]
    assert [each.line for each in masked.allowed] == [3, 5]
    # Without the last part it is for all of the kind in the file.
    both = read_folder(src, secrets="stop", allow_secrets=["a b.md:github-token", "c.md:github-token"])
    assert len(both.allowed) == 4
    for name in ("b.md:github-token", "a b.md:npm-token", "a b.md:github-token:000000"):
        with pytest.raises(SecretsFound):
            read_folder(src, secrets="stop", allow_secrets=[name, second.id])
    documents = read_folder(src, secrets="allow").documents
    assert mask_secrets(documents, allow=["a b.md:github-token", "c.md:github-token"]) == (documents, ())


def scan_time(text):
    """Processor time of this thread."""
    start = time.thread_time()
    find_secrets({"note.md": text})
    return time.thread_time() - start


def grows_with_length(shorter, longer, *, factor=30):
    """One of three tries shows it: a machine that is busy can only make it look worse."""
    return any(scan_time(longer) < factor * scan_time(shorter) + 0.002 for _ in range(3))


BEGIN = "-----BEGIN PRIVATE KEY-----"
HOSTILE = {
    "header lines": f"{BEGIN}\nAb: " + "Ab: x" * 3 + " Ab: x",
    "headers over lines": f"{BEGIN}\n" + "Ab: x\n" * 9,
    "headings": BEGIN,
    "heading and blanks": BEGIN + " " * 400,
    "heading and quotes": BEGIN + "\"'>" * 40,
    "heading and base64": f"{BEGIN} {'A' * 16} ",
    "headings without end": "-----BEGIN AAA AAA AAA ",
    "dashes": "-----",
    "almost the end": f"{BEGIN}\n{'A' * 64}\n-----END PUBLIC KEY",
    "PuTTY": "PuTTY-User-Key-File-2: \n" + "x\n" * 19,
    "PuTTY lines": "PuTTY-User-Key-File-2: \nPrivate-Lines: 1\n",
    "dots": "glpat-aaaaaaaaaaaaaaaaaaaa.a.a.a.a/ xoxb-.xoxb-..",
    "joined": "sk-ant-sk-ant-api03-sk-col_col_ghp_whsec_=whsec_hf_",
    "words": "secret_access_key='secretaccesskey: AKIA",
    **{kind: secret[: len(secret) * 2 // 3] + "-" for kind, secret in SECRETS},
    **{f"{kind}, many": secret + "." for kind, secret in SECRETS},
    **{f"{kind.name}, drawn": sample(kind, random.Random(kind.form)) + "." for kind in KINDS[::4]},
}


@pytest.mark.parametrize("glue", ["", "."])
def test_the_time_to_search_grows_with_the_length_of_a_note(glue):
    """Eight times the length takes eight times the time, and not sixty-four times or a thousand times."""
    for name, text in HOSTILE.items():
        piece = text + glue
        # From below, so that powers show before they take for ever.
        for length in (500, 4_000):
            shorter, longer = (piece * (each // len(piece) + 1) for each in (length, 8 * length))
            assert grows_with_length(shorter, longer), (name, length)


@pytest.mark.parametrize("hint", ["FwoGZXIvYXdz=", "snyk_sat.", "xoxp.", "ATATT3="])
def test_a_literal_again_and_again_costs_about_what_json_does(hint):
    """What one begins may be thousands of characters long, and it begins anew in each of them."""
    told = '{"a": "b\\n"}, '
    # From 5 to 16 times, more under coverage; some hundreds where each of them is followed to its end.
    assert grows_with_length(told * (50_000 // len(told)), hint * (50_000 // len(hint)), factor=80)


def test_one_long_line_of_anything_is_searched_in_one_pass():
    for start in (
        "",
        BEGIN,
        f"{BEGIN} ",
        "PuTTY-User-Key-File-2: ",
        "sk-ant-api03-",
        "xoxb-",
        "ya29.",
        "glpat-",
        "col_",
    ):
        for part in ("a", "A", "-", ".", " ", "a-", "a.", "Ab: x ", "\\n", "/", "=", "_"):
            shorter, longer = (start + part * (length // len(part)) + "+" for length in (4_000, 32_000))
            assert grows_with_length(shorter, longer), (start, part)


ESCAPED = {
    "JSON": lambda secret: json.dumps(f"a\n{secret}\n"),
    "JSON in JSON": lambda secret: json.dumps(json.dumps(f'a\t"{secret}"')),
    "each letter in JSON": lambda secret: "".join(f"\\u{ord(char):04x}" for char in secret),
    "percent": lambda secret: f"next=%3D{secret}%26",
    "percent twice": lambda secret: f"%252F{secret.replace('_', '%255F')}%250A",
    "colour": lambda secret: f"\x1b[31m{secret[:9]}\x1b[1m{secret[9:]}\x1b[0m",
    "colour in JSON": lambda secret: json.dumps(f"\x1b[31m{secret}\x1b[0m"),
    "address": lambda secret: f"https://host.invalid/{secret}/x",
    "joiner": lambda secret: json.dumps(f"x\u200b{secret}"),
    "HTML": lambda secret: f"&#61;{secret}&quot;",
}


@pytest.mark.parametrize("name", ESCAPED)
def test_what_is_escaped_is_found_and_masked(name):
    secret = f"ghp_{drawn(36)}"
    text = f"before\n{ESCAPED[name](secret)}\nafter\n"
    masked, (finding,) = mask_secrets({"a": text})
    assert str(finding) == "a:2: GitHub token"
    assert find_secrets(masked) == ()
    assert secret[6:] not in masked["a"]
    assert masked["a"].startswith("before\n")
    assert masked["a"].endswith("\nafter\n")


@pytest.mark.parametrize(
    ("before", "after"), [("sha256~", ""), ("redis:", "//ada:{}@db.invalid/0"), ("redis://ada:", "{}@db.invalid/0")]
)
def test_a_secret_that_a_colour_parts_beside_a_sign_is_found(before, after):
    secret = drawn(43)
    after = after.format(secret) or secret
    assert find_secrets({"a": f"{before}{after}\n"})
    masked, findings = mask_secrets({"a": f"{before}\x1b[0m{after}\n"})
    assert findings
    assert secret not in masked["a"]


@posix
def test_names_and_links_and_text_without_a_mark_are_searched(tmp_path):
    secret = f"ghp_{drawn(36)}"
    src = make(tmp_path / "src", {f"{secret}.md": b"x", f"d/{secret}/a.md": b"x", "u.txt": secret.encode("utf-16-le")})
    (src / "link").symlink_to(f"{secret}.md")
    for choice in ("stop", "mask"):
        with pytest.raises(SecretsFound) as caught:
            read_folder(src, secrets=choice)
        names = {finding.name for finding in caught.value.findings}
        assert {"ghp_[masked: GitHub token].md", "d/ghp_[masked: GitHub token]", "link"} <= names
        assert ("u.txt" in names) == (choice == "stop")
        assert secret[4:] not in str(caught.value) + repr(caught.value.findings)
    ids = [finding.id for finding in find_secrets(read_folder(src, secrets="allow").documents)]
    assert len(read_folder(src, secrets="stop", allow_secrets=ids).allowed) == len(ids)


def test_a_secret_in_the_name_of_a_directory_is_one_finding_in_any_script():
    secret = f"ghp_{drawn(36)}"
    for directory in ("d", "\u00e9" * 12, "\udcff" * 12, "\u65e5\u672c" * 30):
        found = find_secrets({f"{directory}/{secret}/sub/{number}.md": "" for number in range(3)})
        assert [finding.name for finding in found] == [f"{directory}/ghp_[masked: GitHub token]"]


def test_no_part_of_a_character_is_left_behind_a_secret():
    for shift in range(4):
        text = "\udcff PGPASSWORD=a1" + "b" * shift + "\u00e98Q\u00fc" * 200  # longer than a password is followed
        masked = mask_secrets({"a": text})[0]["a"]
        before, hidden, rest = masked.partition("[masked: password in a variable]")
        assert (before, bool(hidden)) == ("\udcff PGPASSWORD=", True)
        assert text.endswith(rest)


@pytest.mark.parametrize(
    ("form", "size"),
    [
        *(("PGPASSWORD={} psql", 1000), ("sshpass -p '{}' ssh h", 1000), ("Server=db;Password={};Timeout=3", 1000)),
        *(("https://aws:{}@index.invalid/simple/", 2000), ("machine h\n login aws password {}\n", 4000)),
    ],
)
def test_a_token_in_place_of_a_password_is_hidden_to_its_end(form, size):
    """As a cloud's login to a database or an index of packages takes it."""
    masked = mask_secrets({"a": form.format(secret := drawn(size))})[0]["a"]
    assert not any(secret[at : at + 8] in masked for at in range(size - 8))


def test_of_secrets_within_another_all_are_hidden():
    secret = f"ghp_{drawn(36)}"
    address = f"otpauth://totp/{secret}?secret=ABCDQFGHKLMN234567XYZ"
    hidden = "otpauth://totp/ghp_[masked: one-time password secret]"
    assert mask_secrets({"a": address})[0]["a"] == hidden
    assert [finding.name for finding in find_secrets({address: ""})] == [hidden]


def test_notes_and_tags_are_searched():
    secret = f"ghp_{drawn(36)}"
    with pytest.raises(SecretsFound, match=r"2 likely secrets.*: note:1: GitHub token, tag: GitHub token"):
        BackupOptions(note=secret, tags=secret).cleared()
    with pytest.raises(SecretsFound, match="in text only"):
        BackupOptions(tags=secret, secrets="mask").cleared()
    assert BackupOptions(note=secret, secrets="mask").cleared().note == "ghp_[masked: GitHub token]"
    assert BackupOptions(note=secret, secrets="allow").cleared().note == secret
    allowed = BackupOptions(note=secret, tags=secret, allow_secrets=("note:github-token", "tag:github-token"))
    assert allowed.cleared() == allowed


DRAWN = 8
#: Some kinds in a test, of all that differ.
GROUPS = pytest.mark.parametrize("kinds", [KINDS[number::8] for number in range(8)], ids=range(8))


def kinds_in(text):
    return {finding.kind for finding in find_secrets({"a": text})}


@GROUPS
@pytest.mark.parametrize("drawn", [DRAWN, pytest.param(5 * DRAWN, marks=pytest.mark.once)])
def test_what_the_table_says_is_found_and_masked(kinds, drawn):
    for kind in kinds:
        draw = random.Random(kind.form)
        samples = [sample(kind, draw) for _ in range(drawn)]
        missed = [each for each in samples if kind.name not in kinds_in(each)]
        assert len(missed) <= 1, (kind.name, missed[:3])
        found = next(each for each in samples if each not in missed)
        for around in ("a {}\n", '"{}"', "'{}'", "<b>{}</b>", "({}),"):
            text = around.format(found)
            masked, findings = mask_secrets({"a": text})
            assert kind.name in {finding.kind for finding in findings}, around
            assert f"[masked: {kind.name}]" in masked["a"]
            assert find_secrets(masked) == ()


@GROUPS
def test_what_only_looks_like_it_is_left_alone(kinds):
    for kind in kinds:
        if kind.place or kind.by_hand:
            continue
        found = sample(kind, random.Random(kind.form))
        hint = next(each.decode() for each in kind.hints if each.decode() in found)
        before, _, rest = found.partition(hint)
        part = re.search(r"[A-Za-z0-9]{6,}", rest)
        assert part is not None
        for near in (
            f"{before}{hint}",
            f"{before}x{found}" if not before else hint,
            f"{before}{hint}{'x' * len(rest)}",
            f"{before}{hint}{re.sub(r'[A-Za-z0-9]', '*', rest)}",
            f"{before}{hint}{rest[: len(rest) // 3]}",
            f"{before}{hint}your_{rest[:6]}_here",
            hint + " " + rest,
        ):
            assert kind.name not in kinds_in(f"a {near} b"), near
