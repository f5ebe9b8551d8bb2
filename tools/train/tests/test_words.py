"""Names and times made of word lists."""

import random
import re
import unittest

from capos_model.corpus import words

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class Durations(unittest.TestCase):
    def test_the_seconds_are_those_that_are_said(self):
        source = random.Random(5)
        for _ in range(3000):
            seconds, said = words.duration(source)
            count, unit = re.fullmatch(r"(?:(\w*?) ?)??(?:an? )?([a-z]+)", said).groups()
            number = {None: 1, "": 1, "half": 0.5} | {name: at + 1 for at, name in enumerate(words._SPOKEN)}
            self.assertEqual(seconds, _SECONDS[unit[0]] * (number[count] if count in number else int(count)), said)

    def test_a_time_is_its_seconds_as_an_argument(self):
        time = words.Duration(3600, "an hour")
        self.assertEqual((str(time), words.meant(time), words.meant("a"), words.meant(True)), ("an hour", 3600, "a", True))


class Delays(unittest.TestCase):
    def test_the_seconds_are_those_that_are_said(self):
        source = random.Random(7)
        spoken = {name: at + 1 for at, name in enumerate(words._SPOKEN)} | {name: at for at, name in words._TENS.items()}
        seen = set()
        for _ in range(3000):
            seconds, said = words.delay(source)
            self.assertTrue(0 < seconds <= 86_400, said)
            seen.add(said)
            if said in words._DELAYS:
                continue
            count, unit = re.fullmatch(r"(\w*?) ?([a-z]+)", said).groups() if said[0].isdigit() else said.split(" ")
            number = int(count) if count.isdigit() else spoken[count]
            self.assertEqual(seconds, _SECONDS[unit[0]] * number, said)
        self.assertLessEqual(set(words._DELAYS), seen)

    def test_times_of_the_day_are_those_that_the_tool_takes(self):
        source = random.Random(8)
        for _ in range(1000):
            found = re.fullmatch(r"(\d{1,2})(?::(\d\d))? ?([ap]m)?", words.clock(source))
            hour, minute, half = found.groups()
            self.assertTrue(minute or half)
            self.assertIn(int(hour), range(1, 13) if half else range(24))


class Names(unittest.TestCase):
    def test_there_are_many_and_no_spaces_in_them(self):
        source = words.Words(random.Random(6))
        for make in (source.file_name, source.folder, source.service, source.program, source.flag):
            made = {make() for _ in range(2000)}
            self.assertGreater(len(made), 150, make)
            self.assertFalse([name for name in made if not name or set(name) & set(" \n\"'{}")], make)

    def test_lists_have_no_word_twice(self):
        for name, found in words.read().items():
            self.assertEqual(len(found), len(set(found)), name)
