"""Conversations: what is generated, rendered, written to evaluation sets and scored."""

import json
from dataclasses import dataclass, field

# The kinds of an assistant's turn.
SAY = "say"
NONE = "none"
FORBIDDEN = "forbidden"
CALL = "call"


def compact(value):
    """JSON as the system writes it: names in order, nothing between."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True)
class Tool:
    """A tool as a request to a model describes it."""

    name: str
    description: str
    parameters: dict
    permission: str = "auto"

    @property
    def forbidden(self):
        return self.permission == "forbidden"

    @property
    def required(self):
        return self.parameters.get("required", [])

    @property
    def properties(self):
        return self.parameters.get("properties", {})

    def to_json(self):
        """The form that chat templates take."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "permission": self.permission,
        }
        return {"type": "function", "function": function}

    @classmethod
    def from_json(cls, value):
        function = value["function"]
        return cls(
            function["name"],
            function["description"],
            function["parameters"],
            function.get("permission", "auto"),
        )


@dataclass(frozen=True)
class Call:
    """A proposed call."""

    name: str
    arguments: dict

    def to_json(self):
        return {"type": "function", "function": {"name": self.name, "arguments": self.arguments}}

    @classmethod
    def from_json(cls, value):
        return cls(value["function"]["name"], value["function"]["arguments"])


@dataclass(frozen=True)
class Message:
    """One message. `decision` says what an assistant's turn is; `tool` which tool it finds forbidden."""

    role: str
    content: str = ""
    calls: tuple = ()
    decision: str = ""
    tool: str = ""

    def to_json(self):
        value = {"role": self.role, "content": self.content}
        if self.calls:
            value["tool_calls"] = [call.to_json() for call in self.calls]
        if self.decision:
            value["decision"] = self.decision
        if self.tool:
            value["tool"] = self.tool
        return value

    @classmethod
    def from_json(cls, value):
        calls = tuple(Call.from_json(call) for call in value.get("tool_calls", []))
        return cls(value["role"], value["content"], calls, value.get("decision", ""), value.get("tool", ""))


def user(text):
    return Message("user", text)


def result(text):
    return Message("tool", text)


def say(text):
    return Message("assistant", text, decision=SAY)


def none(text):
    return Message("assistant", text, decision=NONE)


def forbidden(tool, text):
    return Message("assistant", text, decision=FORBIDDEN, tool=tool)


def invoke(*calls):
    return Message("assistant", calls=tuple(calls), decision=CALL)


@dataclass
class Conversation:
    """Tools, messages, and the class under which it is scored."""

    kind: str
    tools: list
    messages: list = field(default_factory=list)
    # Whether all that it is about are capOS's own tools, as they are.
    own: bool = False

    def turns(self):
        """Numbers of the assistant's messages."""
        return [at for at, message in enumerate(self.messages) if message.role == "assistant"]

    def to_json(self):
        return {
            "class": self.kind,
            "own": self.own,
            "tools": [tool.to_json() for tool in self.tools],
            "messages": [message.to_json() for message in self.messages],
        }

    @classmethod
    def from_json(cls, value):
        tools = [Tool.from_json(tool) for tool in value["tools"]]
        messages = [Message.from_json(message) for message in value["messages"]]
        return cls(value["class"], tools, messages, value["own"])
