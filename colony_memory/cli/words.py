"""Pure: what was meant by words of other programs, and by mistyped ones, as a command of this one."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from colony_memory.app.pick import names_a_snapshot
from colony_memory.cli.commands import PROGRAM, WHERE, quoted
from colony_memory.cli.foreign import DIR, FLAGS, ID, NOTHING, OPTIONS, WORDS, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SHOWN = 40
_NEAR, _NEAR_OPTION = 0.7, 0.75
_LONGEST = 1000


@dataclass(frozen=True)
class Grammar:
    """What a verb takes.

    Attributes:
        options: Each of its options, with whether a value follows it.
        arguments: What stands beside options, as its help has it: ``[ID]`` may be missing, of ``PATH...`` there may be
            several.
    """

    options: Mapping[str, bool]
    arguments: tuple[str, ...] = ()

    def takes(self, number: int) -> bool:
        """Whether so many arguments are right."""
        least = sum(not each.startswith("[") for each in self.arguments)
        return least <= number and (self._many or number <= len(self.arguments))

    @property
    def _many(self) -> bool:
        return any("..." in each for each in self.arguments)

    def filled(self, words: Sequence[str]) -> list[str]:
        """These words as arguments, with the names of those that are missing."""
        needed = [each.replace("...", "") for each in self.arguments if not each.startswith("[")]
        if needed and len(words) == 1 and self.arguments[0] == "[ID]" and names_a_snapshot(words[0]):
            return [words[0], *needed]
        return list(words) if self.takes(len(words)) else needed


_HELP = frozenset({"-h", "--help"})
#: What says where the memory is is right whatever else was not understood.
_PLACE = frozenset({"--label", *WHERE})
#: Not given by another than the user: what answers a question beforehand.
_ANSWERS = frozenset({"--yes", "-y"})
_RULES = ("--keep", "--leftovers")
#: What says which folder or paths are meant.
_FOLDERS = frozenset({"--set", "--agent"})


@dataclass(frozen=True)
class Answer:
    """What is wrong with a command line, and the one that was meant."""

    what: str
    command: str


@dataclass(frozen=True)
class _Option:
    name: str
    value: str | None = None


def answer(argv: Sequence[str], verbs: Mapping[str, Grammar]) -> Answer | None:
    """What was meant, None where nothing of this kind is wrong.

    Args:
        argv: The arguments of the program.
        verbs: What each verb takes.
    """
    every = {option: follows for each in verbs.values() for option, follows in each.options.items()}
    options, words, before = _read(argv, {**_followed(), **every})
    if not words:
        strange = [each.name for each in options if each.name not in _HELP]
        return Answer(f"a command is missing{f' before {_cut(strange[0])}' if strange else ''}", _command("--help"))
    asked = words[0]
    if asked in ("help", "version"):
        return _about(asked, words[1:], verbs)
    verb, word, what = _verb(asked, words[1:], verbs)
    if verb is None:
        return Answer(what, _command("--help"))
    grammar = verbs[verb]
    options, words, before = _read(argv, {**_followed(), **every, **grammar.options})
    if any(each.name in _HELP for each in options):
        return None if verb == asked and not before else Answer(what or _order(before), _command(verb, "--help"))
    kept, places, lost = _translated(options, verb, verbs)
    arguments = _arguments(words[1:], places, kept, word)
    whole = not lost and (grammar.takes(len(arguments)) or not arguments)
    if not whole:
        # What was not understood may have been what made it harmless.
        kept = [each for each in kept if each.name in _PLACE]
        arguments = [each for each in arguments if names_a_snapshot(each)]
    kept += [_Option(*word.options[:2])] if word.options and word.options[0] in grammar.options else []
    given = _text(kept, verb)
    said = what or _no_option(verb, options, verbs) or _order(before)
    if not said:
        return None
    if lost and verb == asked:
        return Answer(said, _command(verb, "--help"))
    named = not arguments and "COMMAND..." not in grammar.arguments and any(each.name in _FOLDERS for each in kept)
    return Answer(
        said, _command(verb, *given, *_needed(verb, kept), *_after([] if named else grammar.filled(arguments)))
    )


def _read(argv: Sequence[str], follows: Mapping[str, bool]) -> tuple[list[_Option], list[str], list[str]]:
    """The options, the words, and which options stand before the first word."""
    options: list[_Option] = []
    words: list[str] = []
    before: list[str] = []
    left = list(argv)
    while left:
        each = left.pop(0)
        if each == "--":
            words += left
            break
        if not each.startswith("-") or each == "-":
            words.append(each)
            continue
        for name, value in _taken_apart(each, follows):
            if value is None and left and _is_followed(name, left[0], follows):
                options.append(_Option(name, left.pop(0)))
            else:
                options.append(_Option(name, value))
            before += [] if words else [name]
    return options, words, before


def _is_followed(name: str, word: str, follows: Mapping[str, bool]) -> bool:
    """Whether the word is the option's value. Of an option that nobody knows it may be: then it is lost with it."""
    known = name if name in follows else _near_option(name, follows)
    return not word.startswith("-") if known is None else follows[known]


def _taken_apart(text: str, follows: Mapping[str, bool]) -> list[tuple[str, str | None]]:
    """``--a=b``, ``-rFILE`` and ``-qn``."""
    if text.startswith("--"):
        name, equals, value = text.partition("=")
        return [(name, value if equals else None)]
    if follows.get(text[:2]):
        return [(text[:2], text[2:] or None)]
    letters = [f"-{letter}" for letter in text[1:]]
    if all(follows.get(each) is False for each in letters):
        return [(each, None) for each in letters]
    return [(text, None)]


def _followed() -> dict[str, bool]:
    return {**dict.fromkeys(OPTIONS, True), **dict.fromkeys(FLAGS, False)}


def _verb(asked: str, words: Sequence[str], verbs: Mapping[str, Grammar]) -> tuple[str | None, Word, str]:
    """Our verb, how the arguments are taken over, and what is to be said of the word."""
    if asked in verbs:
        word = WORDS.get(asked, Word((asked,)))
        if asked in word.verbs and not verbs[asked].takes(len(words)):
            other = _fitting(word, words, verbs)
            return other, word, "" if other == asked else f"{asked!r} takes no arguments"
        return asked, Word((asked,)), ""
    if asked in WORDS:
        word = WORDS[asked]
        return _fitting(word, words, verbs), word, f"there is no command {asked!r}"
    none = f"there is no command {_cut(asked)!r}"
    near = _nearest(asked.lower(), verbs)
    if near is None:
        return None, Word(()), none
    verb, word, _ = _verb(near, words, verbs)
    return verb, word, f"{none}, the nearest is {near!r}" if near == verb else none


def _fitting(word: Word, words: Sequence[str], verbs: Mapping[str, Grammar]) -> str | None:
    there = [each for each in word.verbs if each in verbs]
    return next((each for each in there if verbs[each].takes(len(words))), there[0] if there else None)


def _nearest(asked: str, verbs: Iterable[str]) -> str | None:
    """The one that is spelled most like it, verbs of ours before words of others."""
    if len(asked) > _SHOWN:
        return None
    begun = [each for each in verbs if each.startswith(asked)] if len(asked) > 1 else []
    near = begun if len(begun) == 1 else get_close_matches(asked, [*verbs, *WORDS], n=1, cutoff=_NEAR)
    return near[0] if near else None


def _translated(
    options: Sequence[_Option], verb: str, verbs: Mapping[str, Grammar]
) -> tuple[list[_Option], dict[str, str], list[_Option]]:
    """The options of our verb, the arguments that others were, and what is neither."""
    ours, slots = verbs[verb].options, verbs[verb].arguments
    kept: list[_Option] = []
    places: dict[str, str] = {}
    lost: list[_Option] = []
    for each in options:
        name = each.name if each.name in ours else _ours(each.name, ours)
        if name in ours and ours[name] == (each.value is not None):
            kept.append(_Option(name, each.value))
        elif name in (DIR, ID) and each.value and name in "".join(slots) and name not in places:
            places[name] = each.value
        elif name != NOTHING:
            lost.append(each)
    return kept, places, lost


def _ours(name: str, ours: Mapping[str, bool]) -> str:
    """What it is here; itself where it is nothing."""
    known = OPTIONS.get(name, FLAGS.get(name))
    return (_near_option(name, ours) or name) if known is None else known


def _near_option(name: str, options: Iterable[str]) -> str | None:
    if not name.startswith("--") or len(name) > _SHOWN:
        return None
    near = get_close_matches(name, [each for each in options if each.startswith("--")], n=1, cutoff=_NEAR_OPTION)
    return near[0] if near else None


def _arguments(words: Sequence[str], places: Mapping[str, str], kept: list[_Option], word: Word) -> list[str]:
    """What stands beside options. A repository before ``::``, as borg writes it, is put among the options."""
    found = []
    for each in words:
        repository, colons, archive = each.partition("::")
        if colons and repository:
            kept.append(_Option("--vault", repository))
            found += [archive] if names_a_snapshot(archive) else []
        elif word.same or names_a_snapshot(each):
            found.append(each)
    return [*([places[ID]] if ID in places else []), *found, *([places[DIR]] if DIR in places else [])]


def _needed(verb: str, kept: Sequence[_Option]) -> list[str]:
    """What the verb cannot do without, where it was not given: in its harmless form."""
    if verb == "prune" and not any(each.name.startswith(_RULES) for each in kept):
        return ["--keep", "5", "--dry-run"]
    if verb == "copy" and not any(each.name in ("--from", "--to") for each in kept):
        return ["--to", "URL"]
    return []


def _text(options: Sequence[_Option], verb: str) -> list[str]:
    found: list[str] = []
    for each in options:
        if each.name in _ANSWERS and verb in ("prune", "delete"):
            continue
        if each.value is None:
            found.append(each.name)
        else:
            found += [f"{each.name}={each.value}"] if each.value.startswith("-") else [each.name, each.value]
    return found


def _after(arguments: list[str]) -> list[str]:
    return ["--", *arguments] if any(each.startswith("-") and each != "-" for each in arguments) else arguments


def _no_option(verb: str, options: Sequence[_Option], verbs: Mapping[str, Grammar]) -> str:
    """Which option the verb does not have, and who has it."""
    strange = next((each.name for each in options if each.name not in verbs[verb].options), None)
    if strange is None:
        return ""
    have = [repr(each) for each, grammar in verbs.items() if strange in grammar.options]
    more = f", {' and '.join(have[:2])} {'have' if len(have) > 1 else 'has'} it" if have and len(have) < 4 else ""
    return f"{verb!r} has no option {_cut(strange)}{more}"


def _order(before: Sequence[str]) -> str:
    return f"{_cut(before[0])} stands after the command" if before else ""


def _about(asked: str, words: Sequence[str], verbs: Mapping[str, Grammar]) -> Answer:
    what = f"there is no command {asked!r}"
    if asked == "version":
        return Answer(what, _command("--version"))
    return Answer(what, _command(*(each for each in words[:1] if each in verbs), "--help"))


def _command(*words: str) -> str:
    text = " ".join(map(quoted, [PROGRAM, *words]))
    return text if len(text) <= _LONGEST else " ".join([PROGRAM, words[0], "--help"])


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}\u2026"
