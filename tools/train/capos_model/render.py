"""The text form of conversations: what `template.jinja` makes of a request, and what the model answers.

The template is what a worker renders; this module says the same without a template engine, so that data can be made
and scored with Python alone. `tests/test_render.py` holds the two together.
"""

from .corpus.conversation import CALL, FORBIDDEN, NONE

TOOLS, TOOL, AS, FORBID = "<|tools|>", "<|tool|>", "<|as|>", "<|forbidden|>"
USER, ASSISTANT, RESULT, END = "<|user|>", "<|assistant|>", "<|result|>", "<|end|>"
INVOKE, SAY_MARK, NONE_MARK, PAD = "<|invoke|>", "<|say|>", "<|none|>", "<|pad|>"

# The marks, in the order of their tokens.
MARKS = [PAD, END, TOOLS, TOOL, AS, FORBID, USER, ASSISTANT, RESULT, INVOKE, SAY_MARK, NONE_MARK]

# Characters of a description, and of a result, that the model is shown.
HEAD_CHARACTERS = 120
RESULT_CHARACTERS = 480
# Turns of the conversation that it is shown.
TURNS = 2

_TYPES = {"string": "str", "integer": "int", "number": "num", "boolean": "bool"}


def head(tool):
    """The first sentence of a tool's description."""
    return " ".join(tool.description.split()).split(". ")[0].rstrip(".")[:HEAD_CHARACTERS]


def shown(result):
    """As much of a result as the model is shown."""
    return result[:RESULT_CHARACTERS] + ("…" if len(result) > RESULT_CHARACTERS else "")


def _kind(schema):
    if schema.get("enum"):
        return "|".join(schema["enum"])
    if schema.get("type") == "array":
        return "[str]" if schema.get("items", {}).get("type") == "string" else "[num]"
    return _TYPES.get(schema.get("type"), "obj")


def _by_need(names, required):
    """Names of what must be given, then of the rest, each with whether it may be left out."""
    ordered = sorted(names, key=str.lower)
    return [(name, False) for name in ordered if name in required] + [
        (name, True) for name in ordered if name not in required
    ]


def signature(tool):
    """The parameters of a tool as its line shows them."""
    parts = []
    for name, optional in _by_need(tool.properties, tool.required):
        parts.append(f'"{name}"{"?" if optional else ""}:{_kind(tool.properties[name])}')
    return "{" + ",".join(parts) + "}"


def line(tool):
    """A tool's line in the request."""
    return head(tool) + (FORBID if tool.forbidden else AS) + tool.name + signature(tool)


def _scalar(value):
    if isinstance(value, str):
        for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
            value = value.replace(plain, escaped)
        return f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    return "null"


def literal(value):
    """A value of an argument."""
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_scalar(item) for item in value) + "]"
    return _scalar(value)


def invocation(call, tools):
    """A call, as the model writes it."""
    tool = next((tool for tool in tools if tool.name == call.name), None)
    required = tool.required if tool else []
    parts = [f'"{name}":{literal(call.arguments[name])}' for name, _ in _by_need(call.arguments, required)]
    return INVOKE + (head(tool) if tool else "") + AS + call.name + "{" + ",".join(parts) + "}"


def answer(message, tools):
    """The model's output in one turn, up to and including its end mark."""
    if message.decision == CALL:
        text = "".join(invocation(call, tools) for call in message.calls)
    elif message.decision == FORBIDDEN:
        tool = next(tool for tool in tools if tool.name == message.tool)
        text = INVOKE + head(tool) + FORBID + message.content
    elif message.decision == NONE:
        text = NONE_MARK + message.content
    else:
        text = SAY_MARK + message.content
    return text + END


def lines(tools):
    """The text of the tools, with which a request begins."""
    return TOOLS + "".join(TOOL + line(tool) for tool in tools) if tools else ""


def prompt(tools, messages, generate=True):
    """The text of a request: equal to what the template makes of it."""
    return lines(tools) + _said(tools, messages, generate)


def _said(tools, messages, generate=True):
    """The text of a request after its tools."""
    parts = []
    turns = sum(message.role == "user" for message in messages)
    turn = 0
    for message in messages:
        turn += message.role == "user"
        if turn <= turns - TURNS:
            continue
        if message.role == "user":
            parts.append(USER + message.content + END)
        elif message.role == "tool":
            parts.append(RESULT + shown(message.content) + END)
        elif message.role == "assistant":
            calls = "".join(invocation(call, tools) for call in message.calls)
            parts.append(ASSISTANT + (calls or SAY_MARK + message.content) + END)
    return "".join(parts) + (ASSISTANT if generate else "")


def samples(conversation):
    """The pieces of text that a conversation is learnt from: lists of (text, whether it is to be learnt).

    Turns that a later request shows in the very form in which the model writes them are learnt within that request.
    A turn that it shows otherwise (there is no tool, or the tool is forbidden), or shows no more, is a sample of its
    own. The lines of the tools go before each of them.
    """
    found, start = [], 0
    turns = conversation.turns()
    users = [at for at, message in enumerate(conversation.messages) if message.role == "user"]
    first_shown = users[-TURNS] if len(users) > TURNS else 0
    for number, at in enumerate(turns):
        message = conversation.messages[at]
        last = number == len(turns) - 1
        if last or message.decision in (NONE, FORBIDDEN) or at < first_shown:
            found.append(_pieces(conversation, at, start))
            start = at + 1
    return found


def _pieces(conversation, at, start):
    """The request that the message at `at` answers, and that answer. Turns from `start` on are learnt."""
    messages = conversation.messages
    whole = _said(conversation.tools, messages[:at])
    pieces, rest = [], whole
    for turn in range(start, at):
        if messages[turn].role == "assistant":
            before = _said(conversation.tools, messages[:turn])
            written = answer(messages[turn], conversation.tools)
            if whole.startswith(before + written):
                done = len(whole) - len(rest)
                pieces += [(before[done:], False), (written, True)]
                rest = whole[len(before) + len(written) :]
    pieces += [(rest, False), (answer(messages[at], conversation.tools), True)]
    return pieces
