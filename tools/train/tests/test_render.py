"""The text of requests: the renderer and the template say the same."""

import json
import unittest
from pathlib import Path

from capos_model import render
from capos_model.corpus import requests, sets
from capos_model.__main__ import REQUESTS
from capos_model.corpus.conversation import Call, Conversation, Message, Tool, forbidden, invoke, none, result, say, user
from capos_model.corpus.generator import SPLITS, Generator

ROOT = Path(__file__).parents[1]


def read(value):
    tools = [Tool.from_json(tool) for tool in value["tools"]]
    return tools, [Message.from_json(message) for message in value["messages"]]


def move():
    properties = {
        "b": {"type": "boolean"},
        "A": {"type": "array", "items": {"type": "string"}},
        "c": {"type": "number"},
    }
    schema = {"type": "object", "properties": properties, "required": ["c"]}
    return Tool("move", "Moves  it.\nSlowly. At night.", schema)


class Rendering(unittest.TestCase):
    def test_requests_are_rendered_as_is_written_down(self):
        for number, value in enumerate(sets.read_lines(REQUESTS)):
            with self.subTest(number):
                tools, messages = read(value)
                self.assertEqual(render.prompt(tools, messages, value["add_generation_prompt"]), value["text"])

    def test_the_unusual_request_is_as_the_format_says(self):
        text = list(requests.requests())[-1]["text"]
        required, optional = '{"beta":num,"mode":fast|slow', '"alpha"?:[str],"items"?:int,"keys"?:str,"list"?:[num]'
        signature = f'{required},{optional},"other"?:obj,"Zeta"?:bool}}'
        self.assertTrue(text.startswith(f"<|tools|><|tool|>Does an odd thing, e.g<|as|>odd{signature}<|tool|>Talks at"))
        required, alpha = '{"beta":-1.5,"mode":"slow"', '"alpha":["q\\"x\\\\","é\\n\\t世"]'
        call = f'{required},{alpha},"items":3,"keys":"k\'<&>","list":[1,22],"Zeta":false}}'
        self.assertIn(f"<|invoke|>Does an odd thing, e.g<|as|>odd{call}<|invoke|><|as|>blank{{}}<|end|>", text)
        self.assertNotIn("gone", text)

    def test_the_template_says_what_the_renderer_says(self):
        try:
            import jinja2
        except ImportError:
            self.skipTest("jinja2 is not installed; the tests of capos-infer hold the template to the same requests")
        source = (ROOT / "template.jinja").read_text(encoding="utf-8")
        for trim in (False, True):
            template = jinja2.Environment(trim_blocks=trim, lstrip_blocks=trim).from_string(source)
            for request in sets.read_lines(REQUESTS):
                given = {**request, "tools": request["tools"] or None}
                self.assertEqual(template.render(given), request["text"])
            for split in SPLITS:
                for conversation in Generator(split, 11).conversations(60):
                    tools = [tool.to_json() for tool in conversation.tools] or None
                    for at in conversation.turns():
                        before = conversation.messages[:at]
                        messages = [message.to_json() for message in before]
                        text = template.render(tools=tools, messages=messages, add_generation_prompt=True)
                        self.assertEqual(text, render.prompt(conversation.tools, before))

    def test_a_line_has_the_first_sentence_and_what_must_be_given_first(self):
        self.assertEqual(render.line(move()), 'Moves it<|as|>move{"c":num,"A"?:[str],"b"?:bool}')
        closed = Tool("halt", "Halts.", {"type": "object"}, "forbidden")
        self.assertEqual(render.line(closed), "Halts<|forbidden|>halt{}")

    def test_values_are_json(self):
        call = Call("move", {"A": ['a"b', "\\"], "b": True, "c": 1.5})
        self.assertEqual(
            render.invocation(call, [move()]), '<|invoke|>Moves it<|as|>move{"c":1.5,"A":["a\\"b","\\\\"],"b":true}'
        )
        for value in ("plain", 'q"', "line\nnext\t\r", "\\n", 12, False, [], ["x", 2]):
            self.assertEqual(json.loads(render.literal(value)), value)

    def test_long_results_and_old_turns_are_cut(self):
        messages = [user("one"), say("1"), user("two"), say("2"), user("three"), result("x" * 481)]
        self.assertEqual(
            render.prompt([], messages),
            "<|user|>two<|end|><|assistant|><|say|>2<|end|><|user|>three<|end|>"
            f"<|result|>{'x' * 480}…<|end|><|assistant|>",
        )


class Samples(unittest.TestCase):
    def test_each_turn_is_learnt_once_after_its_own_request(self):
        for split in SPLITS:
            for conversation in Generator(split, 12).conversations(200):
                learnt = []
                for pieces in render.samples(conversation):
                    whole = render.lines(conversation.tools)
                    for text, wanted in pieces:
                        if wanted:
                            learnt.append((whole, text))
                        whole += text
                wanted = []
                for at in conversation.turns():
                    before = render.prompt(conversation.tools, conversation.messages[:at])
                    wanted.append((before, render.answer(conversation.messages[at], conversation.tools)))
                self.assertEqual(sorted(learnt), sorted(wanted))

    def test_turns_that_are_shown_otherwise_later_are_samples_of_their_own(self):
        tool = Tool("halt", "Halts.", {"type": "object"}, "forbidden")
        messages = [user("stop"), forbidden("halt", "No."), user("fly"), none("None."), user("hi"), say("Hello.")]
        found = render.samples(Conversation("chat", [tool], messages))
        self.assertEqual(len(found), 3)
        self.assertEqual(found[0][-1], ("<|invoke|>Halts<|forbidden|>No.<|end|>", True))
        self.assertEqual(found[1][-1], ("<|none|>None.<|end|>", True))
        self.assertTrue(found[1][0][0].endswith("<|assistant|><|say|>No.<|end|><|user|>fly<|end|><|assistant|>"))

    def test_calls_in_a_row_are_one_sample(self):
        tool = Tool("halt", "Halts.", {"type": "object"})
        messages = [user("twice"), invoke(Call("halt", {})), result("done"), invoke(Call("halt", {})), result("done")]
        found = render.samples(Conversation("chain", [tool], [*messages, say("Done.")]))
        self.assertEqual([wanted for _, wanted in found[0]], [False, True, False, True, False, True])


if __name__ == "__main__":
    unittest.main()
