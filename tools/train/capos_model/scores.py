"""Scores: what a model answered against what it should have, by class, with intervals."""

import math

from .corpus import unseen
from .corpus.conversation import CALL, FORBIDDEN

# Two standard deviations of a normal distribution, for intervals of 95 %.
_Z = 1.96

MEASURES = {
    "decision": "turns whose kind is right: a call, an answer, no fitting tool, a forbidden one",
    "tool": "turns with calls that call the right tools",
    "calls": "conversations whose calls are all exact",
    "exact": "conversations that are exact to the last character",
    "wellFormed": "calls that name a tool of the request with arguments that it takes",
}


REQUEST_MEASURES = {
    "tools": "requests with the right tools in each turn",
    "whole": "requests with the right tools and arguments in each turn",
}


class Count:
    """Right answers out of all."""

    def __init__(self):
        self.right = 0
        self.all = 0

    def add(self, right):
        self.right += bool(right)
        self.all += 1

    def to_json(self):
        low, high = interval(self.right, self.all)
        share = self.right / self.all if self.all else None
        return {"right": self.right, "of": self.all, "share": share, "low": low, "high": high}


def interval(right, count):
    """Wilson's interval of a share; all of it if nothing was counted."""
    if not count:
        return 0.0, 1.0
    share, square = right / count, _Z * _Z
    middle = (share + square / (2 * count)) / (1 + square / count)
    width = _Z / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count * count))
    return max(0.0, middle - width), min(1.0, middle + width)


def fits(tools, call):
    """Whether a call names one of the tools and gives it what it takes."""
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None or tool.forbidden or not isinstance(call.arguments, dict):
        return False
    if any(name not in call.arguments for name in tool.required):
        return False
    return all(
        name in tool.properties and _is_of(tool.properties[name], value) for name, value in call.arguments.items()
    )


def _is_of(schema, value):
    if schema.get("enum") and value not in schema["enum"]:
        return False
    kind = schema.get("type")
    if kind == "array":
        return isinstance(value, list) and all(_is_of(schema.get("items", {}), item) for item in value)
    # Truth values are numbers in Python, and nowhere else.
    if isinstance(value, bool):
        return kind in ("boolean", None)
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict}
    return kind is None or isinstance(value, kinds[kind])


def same_calls(wanted, given):
    """Whether two turns call the same tools with the same arguments in the same order."""
    return [(call.name, call.arguments) for call in wanted] == [(call.name, call.arguments) for call in given]


def same(wanted, given):
    """Whether two turns are the same to the last character."""
    if wanted.decision != given.decision or not same_calls(wanted.calls, given.calls):
        return False
    return wanted.tool == given.tool and wanted.content == given.content


def score(conversations, produced):
    """Counts by group. `produced` has, for each conversation, what was answered in each of the assistant's turns."""
    if len(conversations) != len(produced):
        raise ValueError(f"{len(produced)} conversations were answered, and the set has {len(conversations)}")
    groups = {}
    for number, (conversation, turns) in enumerate(zip(conversations, produced)):
        wanted = [conversation.messages[at] for at in conversation.turns()]
        if len(wanted) != len(turns):
            raise ValueError(f"conversation {number} has {len(wanted)} turns of the model, and {len(turns)} were given")
        about = "own tools" if conversation.own else "other tools"
        for name in ("all", about, conversation.kind):
            group = groups.setdefault(name, {measure: Count() for measure in MEASURES})
            _add(group, conversation, wanted, turns)
    return {name: {measure: count.to_json() for measure, count in group.items()} for name, group in groups.items()}


def _add(group, conversation, wanted, turns):
    for expected, given in zip(wanted, turns):
        # That a forbidden tool is found to be so is right only for the tool that it takes.
        right = expected.decision == given.decision
        group["decision"].add(right and (expected.decision != FORBIDDEN or expected.tool == given.tool))
        if expected.decision == CALL:
            group["tool"].add([call.name for call in expected.calls] == [call.name for call in given.calls])
        for call in given.calls:
            group["wellFormed"].add(fits(conversation.tools, call))
    pairs = list(zip(wanted, turns))
    group["calls"].add(all(same_calls(expected.calls, given.calls) for expected, given in pairs))
    group["exact"].add(all(same(expected, given) for expected, given in pairs))


def of_requests(requests, produced):
    """Counts by class of requests that are right by their effects, and the grave calls that nobody asked for, with their texts."""
    groups, grave = {}, []
    for request, turns in zip(requests, produced, strict=True):
        for name in ("all", request["class"]):
            group = groups.setdefault(name, {measure: Count() for measure in REQUEST_MEASURES})
            found = unseen.judged(request, turns)
            group["tools"].add(all(tools for _, tools, _ in found))
            group["whole"].add(all(whole for _, _, whole in found))
        grave += [(request["turns"][-1]["text"], *call) for call in unseen.unasked(request, turns)]
    found = {name: {measure: count.to_json() for measure, count in group.items()} for name, group in groups.items()}
    return found, grave


def table(scores, measures=MEASURES):
    """The scores for people: a line for each group, shares with their intervals."""
    first = ["all", "own tools", "other tools"]
    names = [name for name in first if name in scores] + sorted(name for name in scores if name not in first)
    lines = ["".ljust(16) + "".join(measure.rjust(24) for measure in measures)]
    for name in names:
        cells = [_cell(scores[name][measure]).rjust(24) for measure in measures]
        lines.append(name.ljust(16) + "".join(cells))
    return "\n".join(lines)


def _cell(count):
    if not count["of"]:
        return "-"
    return f"{count['share']:.3f} ({count['low']:.2f}-{count['high']:.2f}) of {count['of']}"
