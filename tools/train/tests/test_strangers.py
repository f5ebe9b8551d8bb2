"""Requests typed by strangers, and that they are not trained on."""

import random
import tempfile
import unittest
from pathlib import Path

from capos_model import scores
from capos_model.corpus import own_tools, phrasing, sets, strangers, typed
from capos_model.corpus.generator import AGAIN, CHAINS, CHAT, FOLLOWUPS, OPEN, Generator
from capos_model.corpus.groups import GroupGenerator
from capos_model.corpus.phrasing import HELD_OUT, ROWS, TRAIN, Pattern
from capos_model.corpus.strangers import matcher, shapes
from capos_model.corpus.values import WORDS

# Tools for which nobody has typed requests yet.
UNTYPED = {"copy_file", "move_file", "find_files", "search_files", "remind"}
FILES = {**own_tools.PHRASINGS, "chains": CHAINS, "followups": FOLLOWUPS, "again": AGAIN, "chat": CHAT}
# Requests that no tool can do have no call whose values could be read from the sentence.
SAID = [(pattern, matcher(pattern)) for sections in FILES.values() for pattern in sections[TRAIN]]
SAID += [(pattern, matcher(pattern, r"\w+")) for pattern in OPEN[TRAIN]]
MORE = [(pattern, matcher(pattern)) for sections in FILES.values() for pattern in sections[ROWS]]
MORE += [(pattern, matcher(pattern, r"\w+")) for pattern in OPEN[ROWS]]


def said_by(patterns, stranger):
    """The patterns that make a sentence, its values aside."""
    return [pattern.text for pattern, found in patterns if any(map(found.fullmatch, shapes(stranger)))]


class Strangers(unittest.TestCase):
    def test_none_of_the_new_sentences_is_trained_on(self):
        for stranger in strangers.read():
            if not stranger["trained"]:
                self.assertEqual(said_by(SAID + MORE, stranger), [], stranger["text"])

    def test_those_that_are_said_to_be_trained_on_are(self):
        for stranger in strangers.read():
            if stranger["trained"]:
                self.assertTrue(said_by(SAID, stranger), stranger["text"])

    def test_no_haste_makes_what_a_stranger_typed(self):
        self.assertTrue(strangers.typed("Please wrtie {text} into {path}."))
        self.assertFalse(strangers.typed("write {text} into {path}"))
        generator = GroupGenerator(3)
        pattern = Pattern("(wrtie {text} into {path}|scribble {text} into {path})", ())
        for _ in range(200):
            self.assertFalse(strangers.typed(generator._worded(pattern)))

    def test_no_text_of_training_is_a_strangers(self):
        values = typed.Typed(random.Random(9))
        self.assertFalse({values.text() for _ in range(3000)} & strangers.texts())

    def test_calls_are_what_the_tools_take_and_are_said(self):
        seen = set()
        for split in sets.TYPED:
            for conversation in strangers.conversations(split):
                text = conversation.messages[0].content
                seen.add(conversation.kind)
                for call in conversation.messages[1].calls:
                    self.assertTrue(scores.fits(conversation.tools, call), text)
                    for name, value in call.arguments.items():
                        for part in value if isinstance(value, list) else [value]:
                            self.assertTrue(part == "." or name == "minimum" or str(part) in text, text)
        self.assertEqual(seen | UNTYPED, {*own_tools.TOOLS, "none", "say"})

    def test_their_sets_are_written_read_and_the_same_each_time(self):
        counts = []
        for split in sets.TYPED:
            with tempfile.TemporaryDirectory() as folder:
                counts.append(sets.write(Path(folder), split))
                found = sets.read(Path(folder))
            self.assertEqual(found, strangers.conversations(split))
            self.assertTrue(all(conversation.own for conversation in found))
        self.assertEqual(sum(counts), len(strangers.read()))


class Rows(unittest.TestCase):
    def test_no_set_has_what_is_for_rows_alone(self):
        sections = {TRAIN: [Pattern("a", ())], HELD_OUT: [Pattern("b", ())], ROWS: [Pattern("c", ())]}
        self.assertEqual([pattern.text for pattern in GroupGenerator(1)._patterns(sections)], ["a", "c"])
        for split, text in (("train", "a"), ("names", "a"), ("wording", "b"), ("both", "b")):
            generator = Generator(split, 1)
            self.assertEqual([pattern.text for pattern in generator._patterns(sections)], [text])
            self.assertNotIsInstance(generator.values, typed.Typed)

    def test_rows_have_no_word_that_is_held_out(self):
        held_out = {word for at, word in enumerate(WORDS) if at % 5 == 4}
        values, found = typed.Typed(random.Random(8)), set()
        for _ in range(4000):
            found |= set(values.text().lower().split()) | {values.file_name().split(".")[0], *values.folder().split("/")}
        self.assertFalse(found & held_out)

    def test_rows_have_sentences_of_all_their_sections(self):
        generator, pattern = GroupGenerator(4), own_tools.PHRASINGS["write_file"]
        taken = {generator._pattern(pattern).text for _ in range(1000)}
        for section in (TRAIN, ROWS):
            self.assertTrue(taken & {found.text for found in pattern[section]})
        self.assertFalse(taken & {found.text for found in pattern[HELD_OUT]})

    def test_quotes_are_left_off_but_where_programs_need_them(self):
        chance = random.Random(5)
        found = {phrasing.unquoted('write "{text}" to {path}', chance) for _ in range(60)}
        self.assertEqual(found, {'write "{text}" to {path}', "write {text} to {path}", "write '{text}' to {path}"})
        for kept in ('echo "{text}" | tee {path}', 'open({path}, "w").write("{text}")'):
            self.assertEqual({phrasing.unquoted(kept, chance) for _ in range(60)}, {kept})

    def test_a_hurry_spares_values(self):
        chance = random.Random(6)
        for _ in range(400):
            found = phrasing.hurried("What is the text of the file {path}, and {text}", chance)
            self.assertRegex(found, r"\{path\},.*\{text\}")


if __name__ == "__main__":
    unittest.main()
