"""Contexts stand beside requests, and leave them and their values as they are."""

import random
import unittest

from capos_model.corpus import contexts
from capos_model.corpus.conversation import Call
from capos_model.corpus.groups import GroupGenerator
from capos_model.corpus.typed import Typed


class TestContexts(unittest.TestCase):
    def put(self, text, calls=(), plain=False, count=300):
        source = random.Random(7)
        found = contexts.Contexts(source, Typed(source))
        return [found.put(text, calls, plain) for _ in range(count)]

    def test_a_request_stays_whole_beside_its_context(self):
        for text in ("read todo.txt", "Read todo.txt.", "is the mail service up?"):
            for told in self.put(text):
                self.assertIn(text.rstrip(".")[1:], told)
                self.assertGreater(len(told), len(text))

    def test_nothing_follows_a_text_that_a_request_ends_with(self):
        call = Call("write_file", {"path": "a.txt", "text": "buy milk"})
        for told in self.put("write to a.txt: buy milk", [call]):
            self.assertTrue(told.endswith("buy milk"), told)

    def test_a_context_names_nothing_that_the_call_is_about(self):
        call = Call("restart_service", {"name": "ahci"})
        for told in self.put("restart ahci", [call], count=2000):
            self.assertEqual(told.lower().count("ahci"), 1, told)

    def test_a_value_keeps_its_first_letter(self):
        call = Call("read_file", {"path": "README"})
        for told in self.put("README is what I need", [call]):
            self.assertIn("README is", told)

    def test_requests_in_rows_of_training_have_contexts(self):
        begin = {line for kind in (contexts.BEFORE, contexts.AFTER) for line in (p.text[:9] for p in contexts.read()[kind])}
        told, asked = 0, 0
        for seed in range(40):
            group = GroupGenerator(seed)
            group.draw()
            for _ in range(8):
                first = next(message for message in group.conversation().messages if message.role == "user")
                asked += 1
                told += any(piece in first.content for piece in begin)
        self.assertGreater(told / asked, 0.08)


if __name__ == "__main__":
    unittest.main()
