"""The model's words: one answer to each result, made of the result's own words, so that it can be right or wrong."""

import json

from .conversation import compact
from ..render import RESULT_CHARACTERS

NO_TOOL = "None of my tools does that. /tools lists what I have."
CHAT = {
    "greeting": "Hello. Tell me what to look at or to do on this machine.",
    "thanks": "You are welcome.",
    "who": "I am the small built-in model of capOS. I choose tools; I am no good at conversation.",
    "bye": "Goodbye. /exit ends the session.",
    "which": "Which one? Say its name, please.",
    "kept": "I leave it as it is.",
    "news": "Noted. Tell me if there is something to do.",
}

# Things of a list that an answer names.
_NAMED = 5
# Words of a text that an answer quotes.
_QUOTED = 14

_REFUSALS = {
    "deniedByUser": "You did not agree, so I did not do it.",
    "stepUpFailed": "Without your passphrase I cannot do that.",
    "cancelled": "It was cancelled.",
}
_FAILURES = {
    "executionError": "That failed",
    "refusedByPolicy": "The system does not permit that",
    "timedOut": "That took too long",
    "invalidArguments": "I asked for that in a wrong way",
    "unknownTool": "There is no such tool now",
}


def forbidden(tool):
    return f"{tool.name} is forbidden in this session, so I cannot do that."


def abilities(tools):
    """The possible actions, by the names of the tools that may run."""
    names = [tool.name for tool in tools if not tool.forbidden]
    if not names:
        return "I have no tools that I may use, so I can do nothing here."
    return f"I can use these tools: {_enumerated(names, False)}"


def to_result(text):
    """The answer to a tool's result."""
    outcome, _, why = text.partition(": ")
    if outcome in _REFUSALS:
        return _REFUSALS[outcome]
    if outcome in _FAILURES:
        return f"{_FAILURES[outcome]}: {_clause(why)}"
    if text == "done":
        return "Done."
    if text.startswith("{"):
        try:
            return _of_object(json.loads(text), len(text) > RESULT_CHARACTERS)
        except json.JSONDecodeError:
            pass
    return _quoted(text)


def failed(text):
    """Whether a result says that a call did not do what it was to do."""
    return text.partition(": ")[0] in (*_REFUSALS, *_FAILURES)


def join(texts):
    """The answer to several results at once."""
    return "\n".join(dict.fromkeys(to_result(text) for text in texts))


def _clause(text):
    """The error, without its kind and without the advice that may follow."""
    for kind in ("failed: ", "invalid argument: "):
        text = text.removeprefix(kind)
    return text.split(";")[0].split(": ")[0].split("\n")[0]


def _quoted(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "It is empty."
    words = lines[0].split()
    whole = len(lines) == 1 and len(words) <= _QUOTED
    return ("It says: " if whole else "It begins: ") + " ".join(words[:_QUOTED])


def _enumerated(names, more):
    ending = " and more." if more or len(names) > _NAMED else "."
    return ", ".join(names[:_NAMED]) + ending


def _of_object(value, cut):
    """The answer to a result in JSON. Of a cut one, only the part that the model sees is named."""
    # How much of a list there is besides.
    left_out = value.get("leftOut", 0)
    value = {name: part for name, part in value.items() if name not in ("leftOut", "notSearched")}
    if len(value) == 1:
        inside = next(iter(value.values()))
        if isinstance(inside, list):
            return _of_list(inside, cut or left_out > 0)
        if isinstance(inside, dict):
            value = inside
    if value.keys() == {"bytes"}:
        return f"Done: {value['bytes']} bytes."
    if {"freeBytes", "memoryBytes"} <= value.keys():
        return (
            f"{value['freeBytes']} of {value['memoryBytes']} bytes of memory are free, {value['processes']} processes "
            f"run, up {value['uptimeSeconds']} seconds."
        )
    if {"code", "output", "report"} <= value.keys():
        if value["code"] == 0:
            return _quoted(value["output"])
        return f"It failed: {_clause(value['report'])}"
    if {"name", "state", "restarts"} <= value.keys():
        restarts = f", restarted {value['restarts']} times" if value["restarts"] else ""
        return f"{value['name']} is {value['state']}{restarts}."
    if {"name", "kind", "bytes"} <= value.keys():
        size = f" of {value['bytes']} bytes" if value["kind"] == "file" else ""
        return f"{value['name']} is a {value['kind']}{size}."
    return ", ".join(f"{name} is {_plain(part)}" for name, part in list(value.items())[:3]) + "."


def _plain(value):
    return value if isinstance(value, str) else json.dumps(value)


def _of_list(items, cut):
    if not items:
        return "There is nothing."
    if all(isinstance(item, str) for item in items):
        return "There are: " + _enumerated(_seen(items, cut, compact), cut)
    for about in ("service", "path"):
        if {about, "text"} <= items[0].keys():
            return f"{items[0][about]}: {items[0]['text']}" + (" There is more." if len(items) > 1 else "")
    return "There are: " + _enumerated([item["name"] for item in _seen(items, cut, compact)], cut)


def _seen(items, cut, written):
    """The items of a list within its shown part."""
    if not cut:
        return items
    seen, used = [], 16
    for item in items:
        used += len(written(item)) + 1
        if used > RESULT_CHARACTERS:
            break
        seen.append(item)
    return seen
