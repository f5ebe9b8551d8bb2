"""Scores and the files that they are made of."""

import json
import tempfile
import unittest
from pathlib import Path

from capos_model import scores
from capos_model.corpus import sets
from capos_model.corpus.conversation import Call, Conversation, Message, Tool, forbidden, invoke, none, result, say, user
from capos_model.corpus.generator import Generator

READ = Tool("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
HALT = Tool("halt", "Halts.", {"type": "object"}, "forbidden")


def one(*turns, own=True, kind="call"):
    return Conversation(kind, [READ, HALT], [user("x"), *turns], own)


class Scoring(unittest.TestCase):
    def scored(self, wanted, given):
        return scores.score([wanted], [given])["all"]

    def shares(self, wanted, given):
        return {name: (count["right"], count["of"]) for name, count in self.scored(wanted, given).items()}

    def test_what_is_exact_is_right_in_everything(self):
        turns = [invoke(Call("read", {"path": "a"})), say("Done.")]
        conversation = one(turns[0], result("done"), turns[1])
        found = self.shares(conversation, turns)
        wanted = {"decision": (2, 2), "tool": (1, 1), "calls": (1, 1), "exact": (1, 1), "wellFormed": (1, 1)}
        self.assertEqual(found, wanted)

    def test_each_measure_sees_its_own_mistake(self):
        call, ending = invoke(Call("read", {"path": "a"})), say("Done.")
        conversation = one(call, result("done"), ending)
        other_text = self.shares(conversation, [call, say("done")])
        self.assertEqual((other_text["calls"], other_text["exact"]), ((1, 1), (0, 1)))
        other_path = self.shares(conversation, [invoke(Call("read", {"path": "b"})), ending])
        self.assertEqual((other_path["tool"], other_path["calls"]), ((1, 1), (0, 1)))
        no_call = self.shares(conversation, [none("No."), ending])
        self.assertEqual((no_call["decision"], no_call["tool"], no_call["wellFormed"]), ((1, 2), (0, 1), (0, 0)))
        ill_formed = self.shares(conversation, [invoke(Call("read", {"file": "a"})), ending])
        self.assertEqual((ill_formed["tool"], ill_formed["wellFormed"]), ((1, 1), (0, 1)))
        twice = self.shares(conversation, [invoke(*call.calls, *call.calls), ending])
        self.assertEqual(twice["tool"], (0, 1))

    def test_a_forbidden_tool_has_to_be_the_one(self):
        conversation = one(forbidden("halt", "No."), kind="forbidden")
        self.assertEqual(self.shares(conversation, [forbidden("halt", "No.")])["decision"], (1, 1))
        self.assertEqual(self.shares(conversation, [forbidden("read", "No.")])["decision"], (0, 1))
        self.assertEqual(self.shares(conversation, [invoke(Call("halt", {}))])["wellFormed"], (0, 1))

    def test_arguments_are_held_to_their_schema(self):
        kinds = {"s": "string", "i": "integer", "n": "number", "b": "boolean", "o": "object"}
        properties = {name: {"type": kind} for name, kind in kinds.items()}
        properties |= {"e": {"enum": ["x"]}, "a": {"type": "array", "items": {"type": "string"}}}
        tool = Tool("t", "", {"type": "object", "properties": properties})
        right = [{"s": ""}, {"i": 1}, {"n": 1.5}, {"n": 2}, {"b": True}, {"o": {}}, {"e": "x"}, {"a": []}, {"a": ["y"]}]
        wrong = [{"s": 1}, {"i": "1"}, {"i": True}, {"n": "x"}, {"b": 1}, {"e": "y"}, {"a": [1]}, {"a": "y"}, {"z": 1}]
        self.assertTrue(all(scores.fits([tool], Call("t", arguments)) for arguments in right))
        self.assertFalse(any(scores.fits([tool], Call("t", arguments)) for arguments in wrong))
        self.assertFalse(scores.fits([tool], Call("u", {})))

    def test_groups_are_counted_apart(self):
        conversations = [one(say("a"), kind="chat"), one(none("b"), own=False, kind="absent")]
        found = scores.score(conversations, [[say("a")], [say("b")]])
        self.assertEqual(
            {name: group["exact"]["right"] for name, group in found.items()},
            {
                "all": 1,
                "own tools": 1,
                "other tools": 0,
                "chat": 1,
                "absent": 0,
            },
        )
        text = scores.table(found)
        self.assertRegex(text, r"all +0\.500 \(0\.09-0\.91\) of 2")
        with self.assertRaises(ValueError):
            scores.score(conversations, [[say("a")]])
        with self.assertRaises(ValueError):
            scores.score(conversations, [[], []])

    def test_intervals_are_wilsons(self):
        low, high = scores.interval(81, 263)
        self.assertAlmostEqual(low, 0.2553, 3)
        self.assertAlmostEqual(high, 0.3662, 3)
        self.assertEqual(scores.interval(0, 0), (0.0, 1.0))
        self.assertEqual(scores.interval(5, 5)[1], 1.0)


class Sets(unittest.TestCase):
    def test_a_set_that_is_written_is_read_and_scored(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder) / "both"
            sets.write(folder, "both", 30)
            conversations = sets.read(folder)
            self.assertEqual(conversations, Generator("both", sets.SEEDS["both"]).conversations(30))
            produced = folder / "produced.jsonl"
            right = ([found.messages[at].to_json() for at in found.turns()] for found in conversations)
            sets.write_lines(produced, ({"turns": turns} for turns in right))
            found = scores.score(conversations, sets.read_produced(produced))
            for group in found.values():
                for count in group.values():
                    self.assertEqual(count["right"], count["of"])

    def test_a_set_of_another_version_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "set.json").write_text(json.dumps({"version": 2, "split": "both"}))
            with self.assertRaisesRegex(ValueError, "this program reads 1"):
                sets.read(folder)

    def test_messages_come_back_from_their_json(self):
        for message in (user("a"), say("b"), none("c"), forbidden("t", "d"), invoke(Call("t", {"a": [1]}))):
            self.assertEqual(Message.from_json(message.to_json()), message)


if __name__ == "__main__":
    unittest.main()
