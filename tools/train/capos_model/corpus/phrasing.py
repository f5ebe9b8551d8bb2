"""Wordings: patterns of sentences, read from `phrasings/`.

A line is a pattern: `(a|b)` is one of these, `[a]` and `[a|b]` may be left out, `{slot}` is a value. What follows `
=> ` says which arguments the sentence stands for, `name=text` each, separated by `; `; without it each slot is the
argument of its name. `<word>` stands for one of the synonyms that `data/synonyms.txt` gives. A file has the sections
`[train]` and `[held out]`, and may have `[rows]`: what only rows of training have, and no evaluation set. Held-out
sentences are never trained on: a sentence of the others that is among them is skipped.
"""

import math
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .words import meant

FOLDER = Path(__file__).parents[2] / "phrasings"
DATA = Path(__file__).parents[2] / "data"
TRAIN, HELD_OUT = "train", "held out"
# Additions to training rows that no evaluation set has: so sets stay the same when training gets more.
ROWS = "rows"

_SYNONYM = re.compile(r"<(\w+)>")
_GROUP = re.compile(r"\(([^()\[\]]*)\)|\[([^()\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")
# A text in quotes.
_QUOTED = re.compile(r'"(\{(?:text|errand)\})"')

_OPENINGS = {
    TRAIN: ["please ", "can you ", "could you ", "I want you to ", "now ", "hey, ", "you should ", "I need you to "],
    ROWS: ["pls ", "plz ", "can u ", "could u please ", "ok now ", "go ahead and ", "quick, ", "hi, ", "hello, please "],
    HELD_OUT: ["would you ", "kindly ", "I would like you to ", "time to ", "next, ", "just "],
}
_ENDINGS = {
    TRAIN: [" please", ", please", " now", " for me", ", thanks"],
    ROWS: [" pls", " plz", " thx", " ty", " asap", " mate"],
    HELD_OUT: [" right away", " if you can", ", will you", " quickly"],
}
# First words of sentences that are not requests, so that no courtesy precedes them.
_NO_ORDER = set("""
    i we it the a an is are was were has what which who how why when where there that this my please no all in and also
    now any number health free total memory status uptime services service log logs files folder file contents content
    size bytes info details properties program programs off on time good away there about let could can will for do to
    processors processes memory hello hi hey greetings howdy nice thanks thank great perfect well wonderful help bye
    goodbye see farewell hiya pleased cheers much excellent brilliant so until with
    """.split())
# The same for rows of training, which have more that starts with a reason or a question.
_NO_ORDER_ROWS = _NO_ORDER | set("""
    every each if once before after since because when whenever as ok okay ah oh hm hmm right good no not oops wait sorry better
    rather yes yea should did had does would am may might must they you your our he she his her whose whichever what's whats
    where's who's how's hows that's there's it's i'm i'd i've let's lets looks seems something someone somebody everything
    everyone nothing nobody users security same again another likewise both enough one two first second errors warnings
    entries lines messages names overview red number restarts background debugging curious bedtime lights
    reminder memo text line content message entry shopping size: size, bytes log? up? undo back second last 2nd 1st other rest
    others failed broken syslog uptime log: status: empty worked into newest top away useless rubbish fine, okay, hm, fine okay
    nah nah, nope, lol nvm, argh argh, argh. ugh ew, hah, ahh k gotcha. found found, its too teacher half whoever several everything's
    strange those he's she's they'll grandpa grandma final nr yo yo, bro bro, omg omg, dude dude, ls cd rm cp mv mkdir cat grep find stat
    head tail systemctl journalctl svc service= log log, uh um um, hmm, dear dear, dictation, memo todo: urgent urgent: fyi fyi: question: q: because
    things stuff somewhere without with for under at new in on so but until nobody people hello done ok, good, no, yes,
    oops, wait, sorry, ah, oh, hm, right, great, thanks, perfect, again, errors, don't dont do never off down be careful, forget leave keep whatever
    maybe yesterday honestly you're we're from of inside over while whether everybody have hello, well, so, status size date details pls plz please,
    """.split())


def openings():
    """Courtesies that may go before sentences of training."""
    return _OPENINGS[TRAIN] + _OPENINGS[ROWS]


def endings():
    """Courtesies that may end them."""
    return _ENDINGS[TRAIN] + _ENDINGS[ROWS]


@dataclass(frozen=True)
class Pattern:
    """A sentence with open places."""

    text: str
    arguments: tuple

    def slots(self):
        """The names of its values."""
        return list(dict.fromkeys(_SLOT.findall(self.text)))

    def count(self):
        """The number of its sentences, values aside."""
        return len(wordings(self.text))

    @cached_property
    def weight(self):
        """How often training takes it: roughly the logarithm of the number of its sentences, plus one."""
        weight, text = 1, self.text
        while found := _GROUP.search(text):
            weight += math.log2(len(_choices(*found.groups())))
            text = text[: found.start()] + text[found.end() :]
        return weight

    @cached_property
    def words(self):
        """How many words it has, with the first of each group of choices and one word for each open place."""
        text = self.text
        while found := _GROUP.search(text):
            text = text[: found.start()] + _choices(*found.groups())[0] + text[found.end() :]
        return len(text.split())

    def choose(self, random, section=HELD_OUT):
        """One of its sentences, values still open; for training one that is not held out."""
        while held_out(text := self._choose(random)) and section == TRAIN:
            pass
        return text

    def _choose(self, random):
        text = self.text
        while found := _GROUP.search(text):
            among, optional = found.groups()
            chosen = random.choice(_choices(among, optional))
            text = text[: found.start()] + chosen + text[found.end() :]
        return _spaced(text)

    def fill(self, sentence, values):
        """The sentence with its values, and the arguments of its call."""
        text = _filled(sentence, values)
        if self.arguments:
            return text, {name: _argument(value, values) for name, value in self.arguments}
        return text, {slot: values[slot] for slot in self.slots()}


def wordings(text):
    """All sentences of a pattern."""
    found = _GROUP.search(text)
    if not found:
        return {_spaced(text)}
    choices = _choices(*found.groups())
    return set().union(*(wordings(text[: found.start()] + choice + text[found.end() :]) for choice in choices))


def _spaced(text):
    """A text in which something may have been left out, with the spaces of a sentence."""
    return " ".join(text.split()).replace(" ,", ",").replace(" ?", "?")


def _choices(among, optional):
    """The alternatives of a group: one of these, or one of those that may be left out."""
    return among.split("|") if among is not None else [*optional.split("|"), ""]


def _filled(text, values):
    return _SLOT.sub(lambda slot: str(values[slot.group(1)]), text)


def _synonyms():
    """The synonyms of `data/synonyms.txt`, each as a group of a pattern."""
    lines = (DATA / "synonyms.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(": ", 1) for line in lines if line and not line.startswith("#")]
    return {name: f"({among})" for name, among in pairs}


SYNONYMS = _synonyms()


def _argument(text, values):
    """An argument as a pattern writes it: a number, `true`, a list, a slot's value, or a text with slots in it."""
    if text.startswith("["):
        inside = text[1:-1]
        return [str(_argument(part, values)) for part in inside.split(",")] if inside else []
    if text.isdigit():
        return int(text)
    if text == "true":
        return True
    whole = _SLOT.fullmatch(text)
    return meant(values[whole.group(1)]) if whole else _filled(text, values)


def parse(text, names=(TRAIN, ROWS, HELD_OUT)):
    """The patterns of a file, by section."""
    sections, current = {name: [] for name in names}, None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line[1:-1] in sections and line == f"[{line[1:-1]}]":
            current = sections[line[1:-1]]
        elif current is None:
            raise ValueError(f"line {number}: a pattern before the first section")
        else:
            pattern, _, arguments = line.partition(" => ")
            if current is sections.get(HELD_OUT) and _SYNONYM.search(pattern):
                raise ValueError(f"line {number}: synonyms in a sentence that is held out")
            pattern = _SYNONYM.sub(lambda found: SYNONYMS[found.group(1)], pattern)
            pairs = tuple(tuple(part.split("=", 1)) for part in arguments.split("; ")) if arguments else ()
            if any(len(pair) != 2 for pair in pairs):
                raise ValueError(f"line {number}: an argument is not name=text")
            current.append(Pattern(pattern, pairs))
    return sections


# Sentences that are held out, in small letters.
_held_out = set()


def read(name):
    """The patterns of one file, by section."""
    sections = parse((FOLDER / f"{name}.txt").read_text(encoding="utf-8"))
    for pattern in sections[HELD_OUT]:
        _held_out.update(text.lower() for text in wordings(pattern.text))
    return sections


def held_out(sentence):
    """Whether a sentence, its values still open, is kept from training."""
    return sentence.lower() in _held_out


_SHORT = {"what is": "what's", "how is": "how's", "do not": "don't", "I would": "I'd", "cannot": "can't", "it is": "it's"}
_FILLERS = """actually again also anyway basically finally first here just kindly maybe now once only perhaps possibly quickly
    really simply so soon still then there today too well""".split()
_SMALL = {"the", "a", "me", "all", "my", "of", "is", "are", "please", "now", "there"}


def careless(sentence, random):
    """A sentence whose values are still open, typed in a hurry: with short forms, without a small word, with a filler
    word, or with two letters exchanged."""
    if random.random() < 0.3:
        for long, short in _SHORT.items():
            sentence = re.sub(rf"\b{re.escape(long)}\b", short, sentence)
    words = sentence.split(" ")
    if random.random() < 0.06:
        small = [at for at, word in enumerate(words) if word in _SMALL]
        if small and len(words) > 3:
            del words[random.choice(small)]
    if random.random() < 0.06:
        # Not next to a value, so that copied text has clear ends.
        plain = [at for at in range(1, len(words)) if "{" not in words[at - 1] + words[at]]
        if plain:
            words.insert(random.choice(plain), random.choice(_FILLERS))
    if random.random() < 0.06:
        long = [at for at, word in enumerate(words) if word.isalpha() and len(word) > 3]
        if long:
            at = random.choice(long)
            place = random.randrange(1, len(words[at]) - 1)
            word = words[at]
            words[at] = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    return " ".join(words)


def unquoted(sentence, random):
    """A sentence whose values are still open, without quotes around a text, or with others."""
    # Text in the notation of a program or a shell keeps them.
    if any(sign in sentence for sign in "(<|"):
        return sentence
    chance = random.random()
    if chance < 0.5:
        return _QUOTED.sub(r"\1", sentence)
    return _QUOTED.sub(r"'\1'", sentence) if chance < 0.62 else sentence


_HASTE = {" you ": " u ", "please": "pls", "thanks": "thx", " are ": " r ", " and ": " & ", "want to": "wanna", "give me": "gimme"}


def hurried(sentence, random):
    """A sentence whose values are still open, typed in more of a hurry."""
    if random.random() < 0.3:
        # A value keeps its end: nothing in a call is a part of a word.
        sentence = re.sub("(?<!})'s ", "s ", sentence.lower())
        sentence = sentence.replace("n't", "nt").replace("i'd ", "id ").replace("i'm ", "im ")
    if random.random() < 0.1:
        long = random.choice(list(_HASTE))
        sentence = sentence.replace(long, _HASTE[long])
    if random.random() < 0.06 and sentence[-1:].isalpha():
        sentence += random.choice(_ENDINGS[ROWS])
    elif random.random() < 0.06 and sentence.split()[0].lower() not in _NO_ORDER_ROWS and not sentence.startswith(("{", '"', "'")):
        sentence = random.choice(_OPENINGS[ROWS]) + sentence
    if random.random() < 0.06:
        words = sentence.split(" ")
        long = [at for at, word in enumerate(words) if word.isalpha() and len(word) > 3]
        if long:
            at = random.choice(long)
            words[at] = _mistyped(words[at], random)
        sentence = " ".join(words)
    return sentence


def _mistyped(word, random):
    """A word with two letters in each other's place, one left out, or one twice."""
    at = random.randrange(1, len(word) - 1)
    return random.choice([word[:at] + word[at + 1] + word[at] + word[at + 2 :], word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:]])


def dressed(sentence, random, section, rows=False):
    """A sentence whose values are still open, as typed: with a courtesy, a capital letter, a full stop, or without
    them; `rows` if it is for rows of training."""
    question = sentence.endswith("?")
    no_order = _NO_ORDER_ROWS if rows else _NO_ORDER
    order = not question and " " in sentence and sentence.split()[0].lower() not in no_order
    order = order and not sentence.startswith(("{", '"'))
    if order and random.random() < 0.3:
        sentence = random.choice(_OPENINGS[section]) + sentence
    elif order and random.random() < 0.2:
        sentence += random.choice(_ENDINGS[section])
    # A value keeps its letters.
    if not sentence.startswith("{") and random.random() < 0.4:
        sentence = sentence[:1].upper() + sentence[1:]
    if question:
        return sentence if random.random() < 0.7 else sentence[:-1]
    # Training shows that a full stop after a value is not part of it. A text may end with one of its own, and sentences
    # that are held out have none there.
    ends = sentence[-1:].isalpha() or section == TRAIN and sentence.endswith("}") and not sentence.endswith("{text}")
    return sentence + "." if ends and random.random() < 0.2 else sentence
