"""The words without which the model calls no tool that destroys or ends something."""

import json
import re
import unittest

from capos_model.__main__ import ASKED_WITH
from capos_model.corpus import own_tools, strangers, unseen
from capos_model.corpus.generator import Generator

_WORDS = json.loads(ASKED_WITH.read_text(encoding="utf-8"))
# Negations are read where the model is run.
_LISTED = {tool: {word.removeprefix("not-") for word in words} for tool, words in _WORDS.items()}


def _asked(conversations):
    """Each call of a listed tool in the conversations, with what was said in the two turns that the model is shown, and
    whether that has a listed word."""
    for conversation in conversations:
        said = []
        for message in conversation.messages:
            if message.role == "user":
                said = [*said[-1:], message.content]
            for call in message.calls:
                if call.name in _LISTED:
                    words = set(re.findall("[a-z]+", " ".join(said).lower()))
                    yield said, not words.isdisjoint(_LISTED[call.name])


# Orders whose word has letters exchanged, or lacks one, in the latest sets.
MISTYPED = ["sotp service ahci", "read me plan-b.txt and then delte it", "plz delet my bad drawing its drawings/horse.png"]


class AskedWith(unittest.TestCase):
    def test_the_words_are_of_own_tools_and_in_the_form_that_the_file_has(self):
        self.assertEqual(set(_LISTED), {"delete_file", "stop_service", "power_off"})
        self.assertLessEqual(set(_LISTED), set(own_tools.TOOLS))
        for words in _WORDS.values():
            self.assertTrue(all(re.fullmatch("(not-)?[a-z]+", word) for word in words))

    def test_all_sentences_of_people_have_one(self):
        typed = [found for split in (strangers.NEW, strangers.TRAINED) for found in strangers.conversations(split)]
        requests = [found for name in unseen.NAMES for found in unseen.conversations(name)]
        found = list(_asked([*typed, *requests]))
        self.assertGreater(len(found), 80)
        # The two are one request, with swapped letters: those are recognised where the model is run.
        self.assertEqual([said[-1] for said, right in found if not right], [*["delte jan.txt and feb.txt"] * 2, *MISTYPED])

    def test_so_have_nearly_all_sentences_of_training(self):
        found = [right for split in ("train", "wording") for _, right in _asked(Generator(split, 7).conversations(1500))]
        self.assertGreater(len(found), 100)
        # Swapped letters, which are recognised where the model is run.
        self.assertGreater(sum(found) / len(found), 0.9)


if __name__ == "__main__":
    unittest.main()
