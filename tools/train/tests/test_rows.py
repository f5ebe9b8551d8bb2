"""Rows of training: what tokens see, and what counts."""

import random
import unittest

from capos_model import render, rows, scores
from capos_model.corpus import own_tools
from capos_model.corpus.conversation import Conversation, Tool, forbidden, invoke, Call, user
from capos_model.corpus.drills import Drills
from capos_model.corpus.groups import CLASSES, GroupGenerator

from .test_tokenizer import tokenizer


class Groups(unittest.TestCase):
    def test_conversations_are_about_the_tools_of_their_set(self):
        generator, kinds = GroupGenerator(3), set()
        for _ in range(60):
            generator.draw()
            for conversation in (generator.conversation() for _ in range(6)):
                kinds.add(conversation.kind)
                self.assertEqual(conversation.tools, generator.tools)
                for message in conversation.messages:
                    for call in message.calls:
                        self.assertTrue(scores.fits(conversation.tools, call), call)
                last = conversation.messages[-1]
                if conversation.kind == "forbidden":
                    self.assertTrue(next(tool for tool in conversation.tools if tool.name == last.tool).forbidden)
                if conversation.kind != "change":
                    self.assertEqual(conversation.kind == "absent", last.decision == "none")
        self.assertEqual(kinds, set(CLASSES))

    def test_few_tools_come_where_few_are_wanted(self):
        generator = GroupGenerator(4)
        for _ in range(40):
            generator.draw(3)
            self.assertLessEqual(len(generator.tools), 3)


class DrillsOfTraining(unittest.TestCase):
    def drills(self, count):
        source = Drills(random.Random(9))
        return [source.draw() for _ in range(count)]

    def test_the_words_of_a_request_are_those_of_one_line_alone(self):
        kinds = {}
        for drill in self.drills(400):
            kinds[drill.kind] = kinds.get(drill.kind, 0) + 1
            said, answer = drill.messages[0].content.split(), drill.messages[-1]
            lines = [set(render.head(tool).lower().split()) for tool in drill.tools]
            fitting = [tool.name for tool, words in zip(drill.tools, lines) if words <= set(said)]
            if drill.kind == "absent":
                self.assertEqual(fitting, [])
                continue
            name = answer.tool or answer.calls[0].name
            self.assertEqual(fitting, [name])
            tool = next(tool for tool in drill.tools if tool.name == name)
            self.assertEqual(tool.forbidden, drill.kind == "forbidden")
            for call in answer.calls:
                self.assertTrue(scores.fits(drill.tools, call), call)
                self.assertTrue(set(call.arguments.values()) <= set(said))
        self.assertEqual(set(kinds), {"call", "forbidden", "absent"})

    def test_some_lines_share_words_so_that_one_word_will_not_do(self):
        heads = [[render.head(tool).split() for tool in drill.tools] for drill in self.drills(100)]
        shared = [lines for lines in heads if len({words[0] for words in lines}) < len(lines)]
        self.assertGreater(len(shared), 20)

    def test_a_row_of_drills_has_tools_for_each(self):
        found = rows.rows(rows.Encoder(tokenizer()), 1, 3, 4, rows.Kind(256, drills=100))
        self.assertEqual(len(found.tokens), 4 * 256)
        text = tokenizer()
        for row in range(4):
            part = slice(row * 256, (row + 1) * 256)
            branches, positions = list(found.branches[part]), found.positions[part]
            self.assertGreater(max(branches), 1)
            for branch in range(1, max(branches) + 1):
                first, count = branches.index(branch), branches.count(branch)
                self.assertEqual(list(positions[first : first + count]), list(range(count)))
                said = text.decode(found.tokens[part][first : first + count])
                self.assertTrue(said.startswith(render.TOOLS) and said.endswith(render.END), said)
            self.assertNotIn(0, branches)


class Rows(unittest.TestCase):
    def test_a_step_is_the_same_each_time_and_another_is_another(self):
        encoder = rows.Encoder(tokenizer())
        first, again = (rows.rows(encoder, 1, 7, 2) for _ in range(2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, rows.rows(encoder, 1, 8, 2))
        self.assertNotEqual(first, rows.rows(encoder, 2, 7, 2))

    def test_rows_hold_the_tools_once_and_conversations_that_end(self):
        found = rows.rows(rows.Encoder(tokenizer()), 1, 3, 4)
        self.assertEqual(len(found.tokens), 4 * rows.LENGTH)
        text = tokenizer()
        for row in range(4):
            part = slice(row * rows.LENGTH, (row + 1) * rows.LENGTH)
            tokens, branches, positions = found.tokens[part], found.branches[part], found.positions[part]
            targets, weights = found.targets[part], found.weights[part]
            tools = branches.count(0)
            self.assertEqual(list(positions[:tools]), list(range(tools)))
            self.assertEqual(text.decode(tokens[:tools]).count(render.TOOLS), int(tools > 0))
            self.assertGreater(max(branches), 0)
            for branch in range(1, max(branches) + 1):
                places = [at for at, number in enumerate(branches) if number == branch]
                said = text.decode(tokens[at] for at in places)
                self.assertTrue(said.startswith(render.USER) and said.endswith(render.END), said)
                steps = {positions[at] - positions[places[0]] - number for number, at in enumerate(places)}
                self.assertEqual(steps, {0})
                self.assertGreaterEqual(positions[places[0]], tools)
            for at, weight in enumerate(weights):
                if weight:
                    self.assertEqual((targets[at], branches[at]), (tokens[at + 1], branches[at + 1]))

    def test_what_is_learnt_is_what_the_model_says_and_decisions_count_more(self):
        tools = [own_tools.TOOLS[name] for name in ("stop_service", "restart_service")]
        asked = [user("restart log"), invoke(Call("restart_service", {"name": "log"}))]
        self.assertEqual(
            _counted(Conversation("call", tools, asked)),
            ("<|invoke|>| and|", '<|invoke|>Stops one service and starts it again<|as|>restart_service{"name":"log"}<|end|>'),
        )
        halt = [Tool("halt", "Halts.", {}, "forbidden"), Tool("halt2", "Halts.", {})]
        said = Conversation("forbidden", halt, [user("halt"), forbidden("halt", "No.")])
        self.assertEqual(_counted(said), ("<|invoke|>|<|forbidden|>|", "<|invoke|>Halts<|forbidden|>No.<|end|>"))


def _counted(conversation):
    """The deciding tokens of a conversation, and all that is learnt of it."""
    text, deciding, learnt = tokenizer(), "", []
    for tokens, weights in rows.Encoder(text).samples(conversation):
        for token, weight in zip(tokens, weights):
            if weight:
                learnt.append(token)
            if weight == rows.DECISION:
                # Words of a description have no spaces of their own.
                deciding += (" " if text.decode([token]).isalpha() else "") + text.decode([token]) + "|"
    return deciding, text.decode(learnt)


if __name__ == "__main__":
    unittest.main()
