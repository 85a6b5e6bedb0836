"""What is encrypted, and what is made of age files that somebody else wrote."""

import base64
import subprocess
import sys

import age_keys as keys
import pytest
from age_files import locked_by, quick_passphrases

from colony_memory._format import age
from colony_memory._format.age import Identities, Lock, NoFit, NoRoom, Recipients

__all__ = ["quick_passphrases"]

SEALED = Lock((keys.RECIPIENT,)).seal(b"text")


def blob(data):
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("secret", [keys.SECRET, keys.SSH_SECRET], ids=["age", "ssh"])
def test_each_recipient_opens_it(secret):
    sealed = Lock(tuple(sorted((keys.RECIPIENT, keys.SSH_RECIPIENT)))).seal(b"text")
    assert Identities([secret]).open(sealed) == b"text"


def test_a_vault_full_of_keys_of_others_costs_no_more_than_a_few():
    identities = Identities(passphrases=["words"])
    theirs = [blob(locked_by(f"other {n}", b"x")) for n in range(40)]
    assert [identities.key_of(each) for each in theirs] == [None] * 40
    assert len(identities._keys) == age._MAX_TRIES


def test_many_recipients_are_refused_before_they_cost_anything(monkeypatch):
    monkeypatch.setattr(age._age(), "decrypt", lambda *_: pytest.fail("it was read"))
    flood = b"age-encryption.org/v1\n" + b"-> x\n\n" * 65 + b"--- x\n"
    with pytest.raises(ValueError, match="for 64 recipients"):
        Identities([keys.SECRET]).open(flood)


@pytest.mark.usefixtures("quick_passphrases")
def test_a_passphrase_opens_it_and_is_worked_on_once(monkeypatch):
    lock = Recipients((keys.RECIPIENT,), "words").lock()
    sealed, calls = lock.seal(b"text"), []
    decrypt = age._age().passphrase.decrypt
    monkeypatch.setattr(age._age().passphrase, "decrypt", lambda *given: calls.append(1) or decrypt(*given))
    identities = Identities(passphrases=["words"])
    assert [identities.open(sealed, lock.key.blob) for _ in range(3)] == [b"text"] * 3
    assert len(calls) == 1
    with pytest.raises(NoFit):
        Identities(passphrases=["other", "words "]).open(sealed, lock.key.blob)
    with pytest.raises(NoFit):
        Identities(passphrases=["words"]).open(sealed)


@pytest.mark.parametrize(
    "sealed",
    [
        b"",
        b"age-encryption.org/v1\n",
        b"age-encryption.org/v1\n--- \n",
        b"age-encryption.org/v2" + SEALED[21:],
        SEALED[:-1],
        SEALED[:-1] + bytes([SEALED[-1] ^ 1]),
        SEALED + b"\0",
        SEALED.replace(b"X25519", b"X2551\xff"),
        b"-----BEGIN AGE ENCRYPTED FILE-----\n" + base64.b64encode(SEALED),
        b"age-encryption.org/v1\n" + b"-> X25519 x\n" * 2000 + b"--- x\n",
        locked_by("words", b"text"),
    ],
    ids=range(11),
)
def test_what_is_no_age_file_or_is_damaged(sealed):
    with pytest.raises(ValueError, match=r"age file|passphrase") as raised:
        Identities([keys.SECRET]).open(sealed)
    assert not isinstance(raised.value, NoFit)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (locked_by("words", b"AGE-SECRET-KEY-1", claimed=22), r"work factor 2\^22"),
        (locked_by("words", b"AGE-SECRET-KEY-1", claimed=99), r"work factor 2\^99"),
        (locked_by("words", b"no key"), "not an identity"),
        (locked_by("words", b"AGE-SECRET-KEY-1"), "neither an AGE-SECRET-KEY"),
        (SEALED, "the age file is not encrypted with a passphrase"),
        (b"x", "not an age file"),
    ],
)
def test_a_hostile_key_is_refused_before_it_costs_anything(key, why):
    with pytest.raises(ValueError, match=why):
        Identities(passphrases=["words"]).open(SEALED, blob(key))


def test_a_large_header_is_refused_before_it_costs_anything(monkeypatch):
    monkeypatch.setattr(age._age(), "decrypt", lambda *_: pytest.fail("it was read"))
    stanza = SEALED.split(b"\n---")[0].partition(b"\n")[2]
    flood = b"age-encryption.org/v1\n" + (stanza + b"\n") * 400 + b"---" + SEALED.partition(b"\n---")[2]
    with pytest.raises(ValueError, match="header of at most 16384 bytes"):
        Identities([keys.SECRET]).open(flood)


def test_a_panic_of_the_library_is_damage(monkeypatch):
    panic = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})

    def decrypt(*_):
        raise panic("called `Option::unwrap()`")

    monkeypatch.setattr(age._age(), "decrypt", decrypt)
    with pytest.raises(ValueError, match="the age file is damaged"):
        Identities([keys.SECRET]).open(SEALED)


@pytest.mark.parametrize("text", [keys.SECRET[:-1], keys.SECRET.lower() + "x", "", "AGE-SECRET-KEY-1", "hunter2"])
def test_what_is_no_identity_is_not_repeated(text):
    with pytest.raises(ValueError, match="neither an AGE-SECRET-KEY-1") as raised:
        age.read_identity(text)
    assert raised.value.__cause__ is None
    assert not text or text == "AGE-SECRET-KEY-1" or text not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("age1qqq", "not a recipient: age1"),
        ("ssh-ed25519 AAAA", "not a recipient: ssh-ed25519 and ssh-rsa"),
        (keys.SECRET, "private key"),
        (keys.SSH_SECRET, "private key"),
    ],
)
def test_what_is_no_recipient(text, why):
    with pytest.raises(ValueError, match=why) as raised:
        age.spell_recipient(text)
    assert text not in str(raised.value)


def test_secrets_are_in_no_repr():
    recipients = Recipients((keys.RECIPIENT,), "hunter2")
    made = age.PassphraseKey("blob", keys.RECIPIENT, keys.SECRET, "hunter2")
    said = repr([Identities([keys.SECRET], ["hunter2"]), recipients, made, Lock((keys.RECIPIENT,), made)])
    assert "SECRET" not in said
    assert "hunter2" not in said


PLANTED = (
    b"age-encryption.org/v1\n-> scrypt " + b"A" * 22 + b" %d\n" + b"A" * 43 + b"\n--- " + b"A" * 43 + b"\n" + b"x" * 99
)


def test_a_key_that_takes_more_memory_than_there_is_is_not_tried(monkeypatch):
    monkeypatch.setattr(age._age().passphrase, "decrypt", lambda *_: pytest.fail("it was tried"))
    identities = Identities(passphrases=["words"], free_memory=lambda: 2**31)
    with pytest.raises(NoRoom, match="takes 2112 MiB of memory, and 2048 are free"):
        identities.open(SEALED, blob(PLANTED % 21))
    with pytest.raises(ValueError, match="more than"):
        identities.open(SEALED, blob(PLANTED % 22))


def test_keys_of_others_cost_no_more_than_four_of_the_dearest(monkeypatch):
    calls, identities = [], Identities(passphrases=["words"])

    def fits_not(*_):
        calls.append(1)
        raise NoFit

    monkeypatch.setattr(age, "_call", fits_not)
    assert [identities.key_of(blob(PLANTED % 21 + bytes([n]))) for n in range(12)] == [None] * 12
    assert len(calls) == 4


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process has no such limit")
def test_where_memory_is_limited_the_process_lives():
    child = (
        "import resource, sys; from colony_memory.encryption import Passphrase, read_identities\n"
        "identities = read_identities(Passphrase('words'))\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
        "try:\n    identities.key_of(sys.argv[1])\nexcept ValueError as error:\n    print(type(error).__name__)\n"
    )
    command = [sys.executable, "-c", child, blob(PLANTED % 21)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "NoRoom\n"), done.stderr
