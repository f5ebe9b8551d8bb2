"""What strangers typed: requests to capOS's own tools that nobody's patterns made, as an evaluation set.

`data/strangers.jsonl` has them, written from the tools' descriptions alone by somebody who had seen none of
`phrasings/`. Some of them say, values aside, what a pattern of training says: those have `"trained": true` and are a
set of their own. None of the others may be trained on.
"""

import json
import random
import re
from functools import cache
from pathlib import Path

from . import answers, own_tools, phrasing
from .conversation import Call, Conversation, invoke, none, result, say, user
from .values import Values

FILE = Path(__file__).parents[2] / "data" / "strangers.jsonl"
# The sets that they make: sentences that training has not, and those that it has.
NEW, TRAINED = "strangers", "strangers-trained"
# Whose tools they are about.
_PROFILE = "operator"
# The sources of results.
SEED = 90_005
# A placeholder for values when sentences are compared.
_VALUE = "\0"
_SLOT = re.compile(r"\{\w+\}")


def read():
    """All of them: `text`, and `call` with `arguments`, or `decision` with the `answer` there is to small talk."""
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def conversations(split):
    """The conversations of a set, each of the class that the tool's name is."""
    found = [stranger for stranger in read() if stranger["trained"] == (split == TRAINED)]
    return [_conversation(stranger) for stranger in found]


def _conversation(stranger):
    tools, said = own_tools.PROFILES[_PROFILE], user(stranger["text"])
    if stranger.get("decision") == "none":
        return Conversation("none", tools, [said, none(answers.NO_TOOL)], True)
    if stranger.get("decision") == "say":
        found = answers.CHAT.get(stranger["answer"]) or answers.abilities(tools)
        return Conversation("say", tools, [said, say(found)], True)
    call = Call(stranger["call"], stranger["arguments"])
    # The same result whatever else is in the file.
    machine = own_tools.Machine(Values(random.Random(f"{SEED} {stranger['text']}")))
    found = machine.result(call.name, call.arguments)
    return Conversation(call.name, tools, [said, invoke(call), result(found), say(answers.to_result(found))], True)


def shapes(stranger):
    """A sentence without its values, capital letters and final punctuation; in full, and without courtesies."""
    text, values = stranger["text"], []
    for value in stranger.get("arguments", {}).values():
        values += value if isinstance(value, list) else [value]
    for value in sorted({str(value) for value in values} - {"."}, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", _VALUE, text)
    return _shapes(text)


def typed(sentence):
    """Whether a sentence whose values are still open is what a stranger typed and training does not have."""
    return not _shapes(_SLOT.sub(_VALUE, sentence)).isdisjoint(_untrained())


@cache
def texts():
    """The texts that they wanted to be written."""
    return {stranger["arguments"]["text"] for stranger in read() if stranger.get("call") == "write_file"}


@cache
def _untrained():
    return set().union(*(shapes(stranger) for stranger in read() if not stranger["trained"]))


def _shapes(text):
    text = text.lower().rstrip(".?! ")
    found = {text}
    for opening in phrasing.openings():
        found |= {text.removeprefix(opening) for text in found}
    for ending in phrasing.endings():
        found |= {text.removesuffix(ending) for text in found}
    return found


def matcher(pattern, values=_VALUE):
    """What finds the shapes of a pattern's sentences; where a request has no call, `values` says what its values are."""
    text = re.sub(r"\{\w+\}", _VALUE, pattern.text.lower().rstrip("?"))
    signs = {"(": "(?:", "[": "(?:", ")": ")", "]": ")?", "|": "|", " ": " *", _VALUE: values}
    return re.compile("".join(signs.get(sign, re.escape(sign)) for sign in text))
