"""Contexts: what people tell before or after they ask, for rows of training.

`data/contexts.txt` has patterns of them in four sections: sentences before a request, clauses that lead to it, sentences
after it, and clauses with a reason at its end. Any of them stands beside any request. So a model learns which words of a
message ask for something.
"""

import re
from functools import cache
from pathlib import Path

from . import phrasing

FOLDER = Path(__file__).parents[2] / "data"
# Shares of the requests that have a context: the first ones of a conversation, and later ones.
FIRST, LATER = 0.28, 0.2
BEFORE, LEADING, AFTER, REASON = "before", "leading", "after", "reason"
_SHARES = {BEFORE: 40, LEADING: 14, AFTER: 26, REASON: 20}
# Slots of things that a request could be about.
_THINGS = {"file", "folder", "service", "program"}
# Arguments behind which more words would be a part of them.
_TEXTS = {"text", "arguments", "pattern"}
_MARKS = (".", "?", "!")


@cache
def read():
    """The patterns by section."""
    return phrasing.parse((FOLDER / "contexts.txt").read_text(encoding="utf-8"), tuple(_SHARES))


class Contexts:
    """Puts requests into contexts."""

    def __init__(self, random, values):
        self.random, self.values = random, values

    def put(self, text, calls, plain):
        """A request for these calls in a context. A `plain` context names nothing that the request could be about."""
        arguments = [pair for call in calls for pair in call.arguments.items()]
        kind = self.random.choices(list(_SHARES), list(_SHARES.values()))[0]
        if kind in (AFTER, REASON) and _ends_with_text(text, arguments):
            kind = BEFORE
        if kind == REASON and text.endswith(_MARKS[1:]):
            kind = AFTER
        context = self._context(kind, plain, [str(value) for _, value in arguments])
        if kind == BEFORE:
            return f"{context} {text}"
        if kind == LEADING:
            return f"{context} {_lower(text, arguments)}"
        if kind == AFTER:
            text = text if text.endswith(_MARKS) else text + self.values.choose([".", ".", ".", ".", " -", ""])
            return f"{text} {context}"
        return text.rstrip(".") + ("" if context.startswith(",") else " ") + context + self.values.choose(["", "", "."])

    def _context(self, kind, plain, taken):
        """One that says nothing of what the calls are about."""
        while True:
            pattern = self.values.choose(read()[kind])
            slots = pattern.slots()
            if plain and not _THINGS.isdisjoint(slots):
                continue
            sentence = phrasing.careless(pattern.choose(self.random, phrasing.TRAIN), self.random)
            if self.values.chance(0.2):
                sentence = sentence.lower()
            found = {slot: str(self._value(slot)) for slot in slots}
            if not any(value.lower() in other.lower() for value in found.values() for other in taken):
                return pattern.fill(sentence, found)[0]

    def _value(self, slot):
        if slot in _THINGS or slot == "word" or slot.startswith("number"):
            return self.values.slot(slot)
        return self.values.part_of_text({"name": "person"}.get(slot, slot))


def _ends_with_text(text, arguments):
    end = text.rstrip(".?!\"' ")
    texts = [value for name, value in arguments if name in _TEXTS or " " in str(value)]
    texts = [part for value in texts for part in (value if isinstance(value, list) else [str(value)])]
    return any(end.endswith(part.rstrip(".?!\"' ")) for part in texts)


def _lower(text, arguments):
    """A request that goes on with a sentence: its first letter is small, unless that is a value's, or "I"."""
    first = text.split(" ", 1)[0]
    is_value = any(str(value).startswith(first.strip("\"',.:")) for _, value in arguments)
    return text if is_value or re.match(r"I\b", text) else text[:1].lower() + text[1:]
