#!/usr/bin/env python3
"""Makes templates.json: what jinja2, with the settings and functions that model files expect, makes of
conversations.json with each template in templates/.

    pip install jinja2
    tests/infer/make_templates.py
"""

import datetime
import json
import os
import sys

import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = 1767225600  # The first second of 2026.


class Generation(jinja2.ext.Extension):
    """A block for training: without effect when a conversation is rendered, except that it is a scope."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("body"), [], [], body).set_lineno(line)

    def body(self, caller):
        return caller()


def environment(now=NOW):
    """Templates as model files expect them."""
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Generation])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = (
        lambda form: datetime.datetime.fromtimestamp(now, datetime.timezone.utc).strftime(form))
    return made


def render(source, conversation, begin, end, now=NOW, answer=True):
    messages, names = [], {}
    for message in conversation["messages"]:
        message = dict(message)
        if "tool_calls" in message:
            calls = message["tool_calls"]
            names.update((call["id"], call["name"]) for call in calls)
            message["tool_calls"] = [
                {"id": call["id"], "type": "function",
                 "function": {"name": call["name"], "arguments": call["arguments"]}} for call in calls]
        if message["role"] == "tool":
            message["name"] = names[message["tool_call_id"]]
        messages.append(message)
    tools = None
    if "tools" in conversation:
        tools = [{"type": "function", "function": {key: tool[key] for key in ("name", "description", "parameters")}}
                 for tool in json.load(open(os.path.join(HERE, "tools.json")))]
    return environment(now).from_string(source).render(
        messages=messages, tools=tools, add_generation_prompt=answer, bos_token=begin, eos_token=end)


def main():
    conversations = json.load(open(os.path.join(HERE, "conversations.json")))
    expected = {}
    for file in sorted(os.listdir(os.path.join(HERE, "templates"))):
        source = open(os.path.join(HERE, "templates", file)).read()
        expected[file] = {}
        for name, conversation in conversations.items():
            try:
                expected[file][name] = {"text": render(source, conversation, "<|endoftext|>", "<|im_end|>")}
            except jinja2.exceptions.TemplateError as error:
                expected[file][name] = {"refused": str(error)}
    with open(os.path.join(HERE, "templates.json"), "w") as out:
        json.dump(expected, out, indent=1, ensure_ascii=False)
        out.write("\n")


if __name__ == "__main__":
    main()
