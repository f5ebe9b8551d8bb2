"""Conversations: what holds for each of them."""

import json
import random
import re
import unittest

from capos_model import render, scores
from capos_model.corpus import answers, own_tools, phrasing, scenes, second_turns
from capos_model.corpus.conversation import compact
from capos_model.corpus.generator import AGAIN, CHAINS, CHAT, CLASSES, FOLLOWUPS, OPEN, SPLITS, Generator
from capos_model.corpus.generic_tools import ACTIONS, NOUNS
from capos_model.corpus.groups import LENGTHS, GroupGenerator
from capos_model.corpus.phrasing import HELD_OUT, ROWS, TRAIN, wordings

FILES = {**own_tools.PHRASINGS, "chains": CHAINS, "followups": FOLLOWUPS, "again": AGAIN, "open": OPEN, "chat": CHAT}


def all_conversations(count=250):
    for split in SPLITS:
        for conversation in Generator(split, 21).conversations(count):
            yield split, conversation


class Phrasings(unittest.TestCase):
    def test_every_own_tool_has_sixty_wordings_and_others_that_are_held_out(self):
        for name, sections in own_tools.PHRASINGS.items():
            train = set().union(*(wordings(pattern.text) for pattern in sections[TRAIN]))
            held_out = set().union(*(wordings(pattern.text) for pattern in sections[HELD_OUT]))
            self.assertGreaterEqual(len(train), 60, name)
            self.assertGreaterEqual(len(held_out), 14, name)

    def test_what_is_held_out_is_not_trained_on(self):
        chance = random.Random(3)
        for name, sections in FILES.items():
            held_out = {text.lower() for pattern in sections[HELD_OUT] for text in wordings(pattern.text)}
            self.assertTrue(all(map(phrasing.held_out, held_out)))
            for pattern in sections[TRAIN]:
                some = {pattern.choose(chance, TRAIN).lower() for _ in range(60)}
                self.assertFalse(some & held_out, name)

    def test_training_takes_patterns_of_more_sentences_more_often(self):
        one, eight = phrasing.Pattern("see this {path}", ()), phrasing.Pattern("(see|read) [me] [the] {path}", ())
        self.assertEqual((one.weight, eight.weight), (1, 4))
        self.assertEqual(phrasing.Pattern("(see|read [me]) {path}", ()).weight, 3)
        # The second is what rows of training are made with.
        for generator in (Generator("train", 1), GroupGenerator(1)):
            taken = [generator._one_of([one, eight]) for _ in range(500)]
            self.assertAlmostEqual(taken.count(eight) / 500, 0.8, delta=0.06)

    def test_rows_have_short_and_long_requests_as_people_do(self):
        short, sentences = phrasing.Pattern("(see|read) {path}", ()), [phrasing.Pattern(f"read me {{path}} as {at} of us asked", ()) for at in range(99)]
        self.assertEqual((short.words, sentences[0].words), (2, 8))
        generator = GroupGenerator(1)
        taken = [generator._one_of([short, *sentences]) for _ in range(500)]
        share = LENGTHS[2] / (LENGTHS[2] + LENGTHS[11])
        self.assertAlmostEqual(taken.count(short) / 500, share, delta=0.06)

    def test_a_full_stop_may_follow_a_value_in_training(self):
        chance = random.Random(6)

        def dressed(sentence, section):
            return {phrasing.dressed(sentence, chance, section)[-1] for _ in range(200)}

        self.assertEqual(dressed("the files in {folder}", TRAIN), {".", "}"})
        self.assertEqual(dressed("the files in {folder}", HELD_OUT), {"}"})
        self.assertEqual(dressed("it says {text}", TRAIN), {"}"})
        self.assertEqual(dressed("the files", HELD_OUT), {".", "s"})

    def test_a_hurry_spares_values(self):
        chance = random.Random(4)
        for _ in range(300):
            found = phrasing.careless('what is the text of the file {path}, and "{text}"', chance)
            self.assertTrue(found.endswith('{path}, and "{text}"'), found)

    def test_a_hurry_shortens_whole_words(self):
        chance = random.Random(4)
        found = {phrasing.careless("it isn't what I wouldn't do", chance) for _ in range(300)}
        self.assertFalse([sentence for sentence in found if "'sn't" in sentence or "'dn't" in sentence])

    def test_patterns_name_scenes_and_answers_that_there_are(self):
        for sections, there in ((CHAINS, scenes.SCENES), (FOLLOWUPS, second_turns.SCENES)):
            found = sections[TRAIN] + sections[ROWS] + sections[HELD_OUT]
            self.assertEqual({dict(pattern.arguments)["scene"] for pattern in found}, set(there))
        for pattern in CHAT[TRAIN] + CHAT[ROWS] + CHAT[HELD_OUT]:
            self.assertIn(dict(pattern.arguments)["answer"], [*answers.CHAT, "able"])

    def test_sentences_have_the_values_of_their_arguments(self):
        """Two arrows in a line once made the second sentence an argument."""
        for name in sorted(file.stem for file in phrasing.FOLDER.glob("*.txt") if file.stem != "synonyms"):
            for pattern in [pattern for patterns in phrasing.read(name).values() for pattern in patterns]:
                given = "; ".join(str(part) for pair in pattern.arguments for part in pair)
                self.assertNotIn(" => ", given, pattern.text)
                self.assertLessEqual(set(re.findall(r"{(\w+)}", given)), set(pattern.slots()), pattern.text)

    def test_patterns_are_read_with_their_arguments(self):
        text = "[train]\n# a remark\n(a|b) {x} [c] => n={x}; m=5; l=[{x},{y}]; s=t {x}; b=true\n[held out]\nd {y}\n"
        found = phrasing.parse(text)
        pattern = found[TRAIN][0]
        self.assertEqual(wordings(pattern.text), {"a {x} c", "a {x}", "b {x} c", "b {x}"})
        sentence, arguments = pattern.fill("a {x}", {"x": "X", "y": 2})
        self.assertEqual((sentence, arguments), ("a X", {"n": "X", "m": 5, "l": ["X", "2"], "s": "t X", "b": True}))
        self.assertEqual(found[HELD_OUT][0].fill("d {y}", {"y": 7}), ("d 7", {"y": 7}))
        for wrong in ("a pattern", "[train]\na => b"):
            with self.assertRaises(ValueError):
                phrasing.parse(wrong)


class Conversations(unittest.TestCase):
    def test_the_same_seed_gives_the_same(self):
        first, again = ([found.to_json() for found in Generator("both", 5).conversations(40)] for _ in range(2))
        other = [found.to_json() for found in Generator("both", 6).conversations(40)]
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_all_classes_come_and_tools_are_of_both_kinds(self):
        for split in SPLITS:
            found = Generator(split, 22).conversations(400)
            self.assertEqual({conversation.kind for conversation in found}, set(CLASSES))
            own = sum(conversation.own for conversation in found)
            self.assertEqual(own > 0, not SPLITS[split].names)
            self.assertGreater(len(found) - own, 100)

    def test_every_own_tool_and_scene_comes(self):
        found = Generator("train", 23).conversations(6000)
        called = {call.name for conversation in found for message in conversation.messages for call in message.calls}
        self.assertLessEqual(set(own_tools.TOOLS), called)
        profiles = [[tool.name for tool in tools] for tools in own_tools.PROFILES.values()]
        sets = [[tool.name for tool in conversation.tools] for conversation in found]
        for profile in profiles:
            self.assertIn(profile, sets)

    def test_calls_are_what_the_tools_take(self):
        for split, conversation in all_conversations():
            for message in conversation.messages:
                for call in message.calls:
                    self.assertTrue(scores.fits(conversation.tools, call), (split, call))

    def test_two_requests_in_one_sentence_are_two_calls(self):
        for generator in (Generator("train", 27), Generator("wording", 27), GroupGenerator(27)):
            if isinstance(generator, GroupGenerator):
                generator.draw()
                while len(generator.tools) < 15 or any(tool.forbidden for tool in generator.tools):
                    generator.draw()
            for _ in range(100):
                pair = generator._own_pair()
                calls = [message.calls for message in pair.messages if message.calls]
                failed = answers.failed(pair.messages[2].content)
                self.assertEqual([len(found) for found in calls], [1] if failed else [1, 1])
                self.assertEqual(len({found[0].name for found in calls}), len(calls))

    def test_texts_in_calls_are_copied(self):
        for split, conversation in all_conversations():
            seen = ""
            for message in conversation.messages:
                for call in message.calls:
                    for value in call.arguments.values():
                        self.assertTrue(_copied(value, seen), (split, conversation.messages[0].content, call))
                if message.role != "assistant":
                    # Text behind an escape of JSON is copied without the escape.
                    seen += render.shown(message.content).replace("\\n", "\n").replace('\\"', '"') + "\n"
                seen += "".join(json.dumps(call.arguments, ensure_ascii=False) for call in message.calls)

    def test_every_result_has_its_call_and_the_last_word_is_the_models(self):
        for _, conversation in all_conversations():
            open_calls = 0
            for message in conversation.messages:
                if message.role == "tool":
                    open_calls -= 1
                else:
                    self.assertEqual(open_calls, 0)
                    open_calls += len(message.calls)
            self.assertEqual((open_calls, conversation.messages[-1].role), (0, "assistant"))

    def test_a_missing_tool_is_missing_and_a_forbidden_one_forbidden(self):
        for split in SPLITS:
            generator = Generator(split, 24)
            for _ in range(200):
                absent = generator.conversation("absent")
                self.assertEqual([message.decision for message in absent.messages], ["", "none"])
                forbidden = generator.conversation("forbidden")
                name = forbidden.messages[-1].tool
                self.assertTrue(next(tool for tool in forbidden.tools if tool.name == name).forbidden)
                called = generator.conversation("call")
                allowed = {tool.name for tool in called.tools if not tool.forbidden}
                self.assertLessEqual({call.name for message in called.messages for call in message.calls}, allowed)

    def test_nothing_that_is_offered_does_what_an_absent_tool_would(self):
        for split in SPLITS:
            generator, asked = Generator(split, 26), []
            _recorded(generator, "_own_request", asked)
            _recorded(generator, "_generic_request", asked)
            for _ in range(200):
                asked.clear()
                names = {tool.name for tool in generator.conversation("absent").tools}
                for meant in asked:
                    self.assertFalse(names & (own_tools.near(meant) if isinstance(meant, str) else {meant.tool.name}))

    def test_names_of_tools_are_told_apart(self):
        for _, conversation in all_conversations():
            names = [tool.name for tool in conversation.tools]
            self.assertEqual(len(names), len(set(names)))

    def test_held_out_words_are_not_trained_on(self):
        held_out = [verb for action in ACTIONS for verb in action.verbs(True)]
        known = [verb for action in ACTIONS for verb in action.verbs(False)]
        self.assertFalse(set(held_out) & set(known))
        unseen = {noun for noun in NOUNS[len(NOUNS) * 4 // 5 :] if "-" not in noun}
        for conversation in Generator("train", 25).conversations(300):
            for tool in conversation.tools:
                self.assertFalse(unseen & set(tool.description.lower().rstrip(".").split()), tool.description)


def _recorded(generator, name, seen):
    """Has what a method is called with added to `seen`."""
    method = getattr(generator, name)

    def call(meant):
        seen.append(meant)
        return method(meant)

    setattr(generator, name, call)


def _copied(value, seen):
    """Whether a value occurs in the seen texts; a path may be two such joined."""
    if isinstance(value, list):
        return all(_copied(item, seen) for item in value)
    if not isinstance(value, str) or value in ("", ".", "debug", "info", "warning", "error"):
        return True
    at = value.rfind("/")
    return value in seen or (at > 0 and value[:at] in seen and value[at + 1 :] in seen)


class Reminders(unittest.TestCase):
    def test_their_texts_are_said_and_each_has_one_time(self):
        for generator in (Generator("train", 31), Generator("both", 31), GroupGenerator(31)):
            for _ in range(300):
                text, call = generator._own_request("remind")
                arguments = call.arguments
                self.assertIn(arguments["text"], text)
                self.assertEqual(len(arguments), 2, text)
                self.assertTrue(arguments.get("afterSeconds") or arguments["time"] in text, text)
                found = generator.machine.result("remind", arguments)
                self.assertRegex(found, r"^reminder \d+ comes in [0-9a-z ]+; /remind cancel \d+ drops it$")
                self.assertTrue(answers.failed(generator.machine.error("remind", arguments)))

    def test_how_long_it_is_has_two_units(self):
        machine = own_tools.Machine(Generator("train", 32).values)
        told = {seconds: machine._left(seconds) for seconds in (5, 65, 1200, 3600, 86_399)}
        self.assertEqual(list(told.values()), ["5 s", "1 min 5 s", "20 min 0 s", "1 h 0 min", "23 h 59 min"])


class Answers(unittest.TestCase):
    def test_answers_are_made_of_the_results_words(self):
        cases = [
            ("done", "Done."),
            ("", "It is empty."),
            ("Water the plants.\n", "It says: Water the plants."),
            ("one\ntwo", "It begins: one"),
            ("deniedByUser: the person said no", "You did not agree, so I did not do it."),
            ("executionError: invalid argument: `a.txt` does not exist", "That failed: `a.txt` does not exist"),
            ("timedOut: it did not end within 4000 ms", "That took too long: it did not end within 4000 ms"),
            ('{"entries":[]}', "There is nothing."),
            ('{"entries":[{"bytes":1,"kind":"file","modifiedUnix":0,"name":"a"}]}', "There are: a."),
            ('{"names":["a","b","c","d","e","f"]}', "There are: a, b, c, d, e and more."),
            (
                '{"result":{"code":0,"output":"Hello, world!\\n","report":"it ended by itself"}}',
                "It says: Hello, world!",
            ),
            ('{"info":{"name":"log","state":"running","restarts":2}}', "log is running, restarted 2 times."),
            ('{"info":{"bytes":29,"kind":"file","modifiedUnix":0,"name":"a.txt"}}', "a.txt is a file of 29 bytes."),
            ('{"entries":[{"name":"a"}],"leftOut":0}', "There are: a."),
            ('{"entries":[{"name":"a"}],"leftOut":2}', "There are: a and more."),
            ('{"bytes":30}', "Done: 30 bytes."),
            (
                "reminder 3 comes in 1 h 0 min; /remind cancel 3 drops it",
                "It says: reminder 3 comes in 1 h 0 min; /remind cancel 3 drops it",
            ),
            ('{"leftOut":0,"matches":[{"line":2,"path":"a","text":"b"}],"notSearched":1}', "a: b"),
            ('{"name":"x","size":3}', "name is x, size is 3."),
            ("{not JSON", "It says: {not JSON"),
        ]
        for text, answer in cases:
            self.assertEqual(answers.to_result(text), answer)

    def test_only_what_is_shown_is_named(self):
        names = [{"name": f"{'n' * 150}{number}"} for number in range(5)]
        text = compact({"entries": names})
        answer = answers.to_result(text)
        for name in answer.removeprefix("There are: ").removesuffix(" and more.").split(", "):
            self.assertIn(f'"{name}"', render.shown(text))


if __name__ == "__main__":
    unittest.main()
