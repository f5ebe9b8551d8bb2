"""Requests that whatever renders the template is held to: one of each class, and one of all that is unusual."""

from .. import render
from .conversation import Call, Message, Tool, invoke, result, say, user
from .generator import CLASSES, Generator

# Seed of the conversations, and the most tools of one.
_SEED, _TOOLS = 41, 6


def requests():
    """Each with its text."""
    for split in ("train", "both"):
        generator = Generator(split, _SEED)
        for kind in CLASSES:
            conversation = generator.conversation(kind)
            while len(conversation.tools) > _TOOLS:
                conversation = generator.conversation(kind)
            yield _request(conversation.tools, conversation.messages[: conversation.turns()[-1]], True)
    yield _request([], [user("hello")], True)
    yield _unusual()


def _request(tools, messages, generate):
    return {
        "tools": [tool.to_json() for tool in tools],
        "messages": [message.to_json() for message in messages],
        "add_generation_prompt": generate,
        "text": render.prompt(tools, messages, generate),
    }


def _unusual():
    properties = {
        "Zeta": {"type": "boolean"},
        "alpha": {"type": "array", "items": {"type": "string"}},
        "beta": {"type": "number"},
        "list": {"type": "array", "items": {"type": "integer"}},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "other": {"type": "object"},
        # Names that a template engine could take for something else.
        "items": {"type": "integer"},
        "keys": {"type": "string"},
    }
    schema = {"type": "object", "properties": properties, "required": ["mode", "beta"]}
    tools = [
        Tool("odd", "  Does an odd\n  thing, e.g. this one. And more. ", schema),
        Tool("long", f"Talks at length about {'very ' * 40}much.", {"type": "object"}, "forbidden"),
        Tool("blank", "", {}),
    ]
    arguments = {"mode": "slow", "beta": -1.5, "Zeta": False, "alpha": ['q"x\\', "é\n\t世"], "list": [1, 22]}
    arguments |= {"items": 3, "keys": "k'<&>"}
    messages = [
        Message("system", "You are a test."),
        user("first"),
        say("gone"),
        user('Ünï "quote" <b>&amp;'),
        invoke(Call("odd", arguments), Call("blank", {})),
        result("é" * 500),
        result('{"a":1}'),
        say("multi\nline"),
        user("last"),
        invoke(Call("lost", {"b": 1, "a": "x"})),
        result(""),
    ]
    return _request(tools, messages, False)
