"""Keys on their way in and out: PEM, files, environment variables, and signers whose key is elsewhere."""

import base64
import logging
import os
import pickle
import shutil
import stat
import subprocess
import traceback

import pytest

from colony_memory import ColonyMemory, ColonyMemoryError, Ed25519Signer, open_vault, signing

SEED = bytes(range(100, 132))
DID_KEY = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"

on_posix = pytest.mark.skipif(os.name == "nt", reason="POSIX permissions and links")
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")


@pytest.fixture
def signer():
    pytest.importorskip("cryptography")
    return Ed25519Signer(SEED)


@pytest.fixture
def key_file(tmp_path):
    pytest.importorskip("cryptography")

    def write(content, *, mode=0o600):
        path = tmp_path / "agent.key"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        return path

    return write


def pem_of(seed):
    """RFC 8410, section 10.3: the PKCS#8 of an Ed25519 key is a fixed head and the seed."""
    body = base64.b64encode(bytes.fromhex("302e020100300506032b657004220420") + seed).decode()
    return f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"


def spellings(seed):
    """How the seed could stand in a text; half of it is enough to tell."""
    for half in (seed[1:16], seed[16:31]):
        yield repr(half)[2:-1]
        yield half.hex()
        yield half.hex().upper()
        yield ", ".join(map(str, half))
    for start in range(3):
        piece = seed[start : start + 15]
        yield base64.b64encode(piece).decode()
        yield base64.urlsafe_b64encode(piece).decode()


def assert_hidden(seed, *texts):
    for text in texts:
        for spelling in spellings(seed):
            assert spelling not in text


def everything_of(error):
    """What an error shows wherever it is printed, logged or sent."""
    assert isinstance(error, Exception)
    try:
        shown = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except ModuleNotFoundError:  # Python 3.15 looks for what is missing, and stumbles over how that is played here
        shown = ""
    while True:
        shown += f"{error} {error!r} {error.args} {vars(error)} {pickle.dumps(error)!r}"
        if (cause := error.__cause__ or error.__context__) is None:
            return shown
        error = cause


# --- PEM


def test_what_is_no_pem_of_an_ed25519_key_is_refused_by_its_reason(signer):
    from cryptography.hazmat.primitives.asymmetric import ec, x25519
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    mine = Ed25519PrivateKey.from_private_bytes(SEED)
    plain, locked = NoEncryption(), BestAvailableEncryption(b"secret")
    pem, pkcs8, ssh, sec1 = Encoding.PEM, PrivateFormat.PKCS8, PrivateFormat.OpenSSH, PrivateFormat.TraditionalOpenSSL
    curve = ec.generate_private_key(ec.SECP256R1())
    body = pem_of(SEED).splitlines()[1]
    cases = [
        ("", "not PEM"),
        (None, "not PEM"),
        (pem_of(SEED).encode(), "not PEM"),
        (mine.private_bytes(pem, pkcs8, locked).decode(), "is encrypted; openssl pkey"),
        (curve.private_bytes(pem, sec1, locked).decode(), "is encrypted; openssl pkey"),
        (mine.private_bytes(pem, ssh, plain).decode(), "no private key"),
        (curve.private_bytes(pem, sec1, plain).decode(), "no private key"),
        (curve.private_bytes(pem, pkcs8, plain).decode(), "does not sign with Ed25519"),
        (x25519.X25519PrivateKey.from_private_bytes(SEED).private_bytes(pem, pkcs8, plain).decode(), "does not sign"),
        (mine.public_key().public_bytes(pem, PublicFormat.SubjectPublicKeyInfo).decode(), "no private key"),
        (pem_of(SEED).replace(body, body[:-8]), "damaged"),
        (pem_of(SEED).replace(body, body[:20] + "!" + body[21:]), "damaged"),
        (pem_of(SEED[:31]), "damaged"),
        (pem_of(SEED).partition("-----END")[0], "damaged"),
        (pem_of(SEED).replace("BEGIN PRIVATE", "BEGIN PRIVATE\ud800"), "no private key"),
    ]
    for given, reason in cases:
        with pytest.raises(ValueError, match=reason) as caught:
            Ed25519Signer.from_pem(given)
        assert_hidden(SEED, everything_of(caught.value))


# --- files


@on_posix
def test_a_saved_key_is_for_its_owner_alone_and_loads(signer, tmp_path):
    path = tmp_path / "keys" / "agent.pem"
    signer.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.read_text() == pem_of(SEED)
    assert [entry.name for entry in path.parent.iterdir()] == ["agent.pem"]
    assert Ed25519Signer.load(path).seed == SEED
    assert Ed25519Signer.load(str(path)).did_key == signer.did_key


def test_a_key_saved_raw_is_its_seed(signer, tmp_path):
    signer.save(tmp_path / "agent.key", encoding="raw")
    assert (tmp_path / "agent.key").read_bytes() == SEED
    assert Ed25519Signer.load(tmp_path / "agent.key").seed == SEED
    with pytest.raises(ValueError, match="encoding must be 'pem' or 'raw', not 'hex'"):
        signer.save(tmp_path / "other.key", encoding="hex")


@pytest.mark.parametrize("kind", ["file", "directory", "link", "link to nothing"])
def test_a_key_is_never_overwritten(signer, tmp_path, kind):
    path, other = tmp_path / "agent.pem", tmp_path / "other"
    if kind == "file":
        path.write_text("precious")
    elif kind == "directory":
        path.mkdir()
    else:
        if kind == "link":
            other.write_text("precious")
        path.symlink_to(other)
    with pytest.raises(ColonyMemoryError, match="already exists and is not overwritten") as caught:
        signer.save(path)
    assert str(path) in str(caught.value)
    assert_hidden(SEED, everything_of(caught.value))
    if kind == "file":
        assert path.read_text() == "precious"
    assert other.exists() == (kind == "link")
    assert kind != "link" or other.read_text() == "precious"


def test_a_file_in_the_place_of_the_directory_is_told(signer, tmp_path):
    (tmp_path / "keys").write_text("a file")
    with pytest.raises(ColonyMemoryError, match=r"the directory of key file .* cannot be made: File exists"):
        signer.save(tmp_path / "keys" / "agent.pem")


@pytest.mark.parametrize("path", ["", "a\0b", b"agent.pem"])
def test_a_path_that_is_none_is_refused(signer, path):
    for call in (lambda: signer.save(path), lambda: Ed25519Signer.load(path)):
        with pytest.raises(ValueError, match="path must be the name of a key file"):
            call()


@pytest.mark.parametrize(
    "content",
    [
        pem_of(SEED),
        pem_of(SEED).replace("\n", "\r\n"),
        SEED,
        bytes(31) + b"\n",
        SEED.hex(),
        SEED.hex() + "\n",
        SEED.hex() + "\r\n",
        "\ufeff" + SEED.hex() + "\r\n",
        b"\xff\xfe" + (SEED.hex() + "\r\n").encode("utf-16-le"),
        "\ufeff" + pem_of(SEED).replace("\n", "\r\n"),
        b"\xfe\xff" + pem_of(SEED).encode("utf-16-be"),
    ],
)
def test_a_key_file_is_a_pem_raw_bytes_or_hex_digits(key_file, content):
    expected = content if content == bytes(31) + b"\n" else SEED
    assert Ed25519Signer.load(key_file(content)).seed == expected


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not a PEM private key"),
        (b"\n", "not a PEM"),
        (SEED + b"\n", "not a PEM"),
        (SEED[:31], "not a PEM"),
        (SEED.hex()[:63] + "g", "not a PEM"),
        (SEED.hex()[:63] + "\N{ARABIC-INDIC DIGIT SIX}", "not a PEM"),
        ("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGbMFcG\n-----END ENCRYPTED PRIVATE KEY-----\n", "is encrypted"),
        (pem_of(SEED)[:60], "damaged"),
        (SEED * 300, "larger than 8192 bytes"),
        (pem_of(SEED) + " " * 8192, "larger than 8192 bytes"),
    ],
)
def test_a_file_that_holds_no_key_says_so_and_nothing_of_it(key_file, content, reason):
    path = key_file(content)
    with pytest.raises(ColonyMemoryError, match=reason) as caught:
        Ed25519Signer.load(path)
    assert str(path) in str(caught.value)
    assert_hidden(SEED, everything_of(caught.value))


@on_posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o620, 0o601, 0o666, 0o777])
def test_a_key_file_that_others_can_get_at_is_refused(key_file, mode):
    path = key_file(pem_of(SEED), mode=mode)
    with pytest.raises(ColonyMemoryError, match=rf"open to others \(mode {mode:04o}\).*chmod 600 ") as caught:
        Ed25519Signer.load(path)
    command = str(caught.value).partition("run: ")[2]
    assert command == f"chmod 600 {path}"
    subprocess.run(["sh", "-c", command], check=True)
    assert Ed25519Signer.load(path).seed == SEED


@on_posix
@pytest.mark.parametrize(
    ("mode", "owner", "group", "user", "taken"),
    [
        (0o440, 0, 7, 1000, True),  # what a cluster mounts for a group of the process
        (0o640, 0, 7, 1000, True),
        (0o440, 0, 0, 1000, True),  # what systemd mounts, with an access list
        (0o440, 0, 0, 0, True),  # the same, for a container that runs as root
        (0o640, 0, 0, 0, False),  # root's own file
        (0o440, 0, 8, 1000, False),  # a group of others
        (0o440, 1000, 7, 1000, False),  # one's own file, which a chmod ends
        (0o444, 0, 7, 1000, False),
        (0o460, 0, 7, 1000, False),
    ],
)
def test_a_secret_that_root_has_mounted_for_this_process_is_taken(
    key_file, monkeypatch, mode, owner, group, user, *, taken
):
    path = key_file(pem_of(SEED), mode=mode)
    real = os.fstat

    def fstat(descriptor):
        facts = list(real(descriptor))
        facts[4:6] = owner, group
        return os.stat_result(facts)

    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(os, "getegid", lambda: user)
    monkeypatch.setattr(os, "getgroups", lambda: [7])
    monkeypatch.setattr(os, "fstat", fstat)
    if taken:
        assert Ed25519Signer.load(path).seed == SEED
        return
    way = "chmod 600" if user in (0, owner) else "mount it with mode 0400, or with 0440"
    with pytest.raises(ColonyMemoryError, match=way):
        Ed25519Signer.load(path)


@on_posix
def test_the_command_in_the_message_is_quoted(tmp_path, key_file):
    path = key_file(pem_of(SEED), mode=0o644).rename(tmp_path / "my $(touch key)'s")
    with pytest.raises(ColonyMemoryError, match="chmod") as caught:
        Ed25519Signer.load(path)
    subprocess.run(["sh", "-c", str(caught.value).partition("run: ")[2]], check=True, cwd=tmp_path)
    assert Ed25519Signer.load(path).seed == SEED
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@on_posix
@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_of_a_link_what_it_leads_to_is_judged(tmp_path, key_file, mode):
    path = key_file(pem_of(SEED), mode=mode)
    link = tmp_path / "link"
    link.symlink_to(path)
    assert Ed25519Signer.load(link).seed == SEED
    path.chmod(0o644)
    with pytest.raises(ColonyMemoryError, match="open to others"):
        Ed25519Signer.load(link)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_told(key_file):
    with pytest.raises(ColonyMemoryError, match="cannot be read: Permission denied"):
        Ed25519Signer.load(key_file(pem_of(SEED), mode=0o000))


# --- openssl


def run_openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


@on_posix
@needs_openssl
def test_a_key_that_openssl_makes_loads_and_signs_for_openssl(signer, tmp_path):
    key, message, signature = (tmp_path / name for name in ("key.pem", "message", "signature"))
    run_openssl("genpkey", "-algorithm", "ed25519", "-out", key)
    key.chmod(0o600)
    loaded = Ed25519Signer.load(key)
    assert loaded.to_pem() == key.read_text()
    message.write_bytes(b"a message")
    signature.write_bytes(loaded.sign(b"a message"))
    printed = run_openssl("pkeyutl", "-verify", "-inkey", key, "-rawin", "-in", message, "-sigfile", signature)
    assert "Signature Verified Successfully" in printed


# --- environment variables


@pytest.mark.parametrize(
    "value",
    [
        SEED.hex(),
        SEED.hex().upper(),
        f"  {SEED.hex()}\n",
        base64.b64encode(SEED).decode(),
        base64.b64encode(SEED).decode().rstrip("="),
        base64.urlsafe_b64encode(SEED).decode(),
        pem_of(SEED),
        pem_of(SEED).strip(),
        pem_of(SEED).replace("\n", "\\n"),
    ],
)
def test_a_key_comes_from_an_environment_variable(signer, monkeypatch, value):
    monkeypatch.setenv("COLONY_MEMORY_KEY", value)
    assert Ed25519Signer.from_env().seed == SEED
    monkeypatch.setenv("COLONY_MEMORY_KEY", "another")
    monkeypatch.setenv("AGENT_KEY", value)
    assert Ed25519Signer.from_env("AGENT_KEY").seed == SEED


@pytest.mark.parametrize("value", [None, "", " \n"])
def test_a_variable_that_is_not_set_is_named(monkeypatch, value):
    if value is not None:
        monkeypatch.setenv("AGENT_KEY", value)
    with pytest.raises(ColonyMemoryError, match="the environment variable AGENT_KEY is not set: it should hold"):
        Ed25519Signer.from_env("AGENT_KEY")


# The two low bits of the last digit say nothing.
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
TIGHT = base64.b64encode(SEED).decode().rstrip("=")
SLACK = TIGHT[:-1] + DIGITS[DIGITS.index(TIGHT[-1]) + 1]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (SEED.hex()[:-1], "not a PEM private key, 64 hex digits"),
        (f"0x{SEED.hex()}", "not a PEM private key, 64 hex digits"),
        (base64.b64encode(SEED[:31]).decode(), "not a PEM private key, 64 hex digits"),
        (base64.b64encode(SEED).decode() + "=", "not a PEM private key, 64 hex digits"),
        (SLACK, "not a PEM private key, 64 hex digits"),
        (pem_of(SEED[:30]), "damaged"),
        ("/home/agent/key.pem", "not a PEM private key, 64 hex digits"),
    ],
)
def test_a_value_that_is_no_key_is_not_repeated(signer, monkeypatch, value, reason):
    monkeypatch.setenv("COLONY_MEMORY_KEY", value)
    with pytest.raises(
        ColonyMemoryError, match=f"the environment variable COLONY_MEMORY_KEY holds no key: .*{reason}"
    ) as caught:
        Ed25519Signer.from_env()
    assert value not in str(caught.value)
    assert_hidden(SEED, everything_of(caught.value))


# --- what shows


def test_the_seed_is_nowhere_but_in_its_own_attribute(signer, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    signer.save(tmp_path / "agent.pem")
    loaded = Ed25519Signer.load(tmp_path / "agent.pem")
    logging.getLogger("test").info("%s %r", loaded, vars(loaded))
    shown = [f"{one} {one!r} {vars(one)!r} {one.__dict__}" for one in (signer, loaded)]
    assert_hidden(SEED, caplog.text, *shown)
    assert all(value != SEED for value in vars(loaded).values())
    assert loaded.seed == SEED


def test_a_signer_is_not_pickled_by_accident(signer):
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(signer)


# --- a key that never leaves its hardware


class Module:
    """Stands in for an HSM or a KMS: keeps the key, gives a name and signatures."""

    def __init__(self):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._handle = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        self.calls = 0

    @property
    def did_key(self):
        return signing.encode_did_key(self._handle.public_key().public_bytes_raw())

    def sign(self, message):
        self.calls += 1
        return self._handle.sign(message)


def test_a_client_signs_with_a_key_that_is_elsewhere():
    pytest.importorskip("cryptography")
    module = Module()
    mem = ColonyMemory(backend=open_vault("memory:"), signer=module)
    info = mem.backup({"MEMORY.md": "signed"})
    assert (info.signed, info.issuer, module.did_key) == (True, DID_KEY, DID_KEY)
    assert module.calls > 0
    assert mem.restore() == {"MEMORY.md": "signed"}
    assert mem.verify().snapshots[0].signature == "ok"


def test_a_module_that_fails_saves_nothing():
    pytest.importorskip("cryptography")

    class Gone(Module):
        def sign(self, message):
            raise ConnectionError("the module does not answer")

    vault = open_vault("memory:")
    mem = ColonyMemory(backend=vault, signer=Gone())
    with pytest.raises(Exception, match="the module does not answer"):
        mem.backup({"MEMORY.md": "signed"})
    assert vault.vault_list_files()["items"] == []


# --- without the extra


@pytest.mark.usefixtures("without_cryptography")
def test_without_the_extra_every_way_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "agent.key"
    for content in (pem_of(SEED).encode(), SEED, SEED.hex().encode()):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(ColonyMemoryError, match=r"pip install 'colony-memory\[sign\]'") as caught:
            Ed25519Signer.load(path)
        assert_hidden(SEED, everything_of(caught.value))
    for value in (pem_of(SEED), SEED.hex()):
        monkeypatch.setenv("COLONY_MEMORY_KEY", value)
        with pytest.raises(ColonyMemoryError, match=r"pip install 'colony-memory\[sign\]'"):
            Ed25519Signer.from_env()
    for make in (Ed25519Signer.generate, lambda: Ed25519Signer(SEED), lambda: Ed25519Signer.from_pem(pem_of(SEED))):
        with pytest.raises(ColonyMemoryError, match=r"pip install 'colony-memory\[sign\]'"):
            make()
