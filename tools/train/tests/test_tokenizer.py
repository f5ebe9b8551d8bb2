"""The tokenizer and the form in which model files hold it."""

import json
import struct
import unittest

from capos_model import bpe, gguf, render
from capos_model.__main__ import TOKENIZER
from capos_model.corpus.generator import Generator

HARD = [
    "",
    "don't 'tool \"/a/b\" x=1;y=2",
    "  two  spaces \t\ttabs\n\nlines \r\n",
    "café naïve Ünïcode 世界 ñandú e\u0301 🙂 \u00a0 \u200b",
    "camelCaseWords snake_case kebab-case UPPER lower 12345 3.14",
    "".join(chr(code) for code in range(1, 128)),
    "<|end|> is text here, and so is <|",
]


def tokenizer():
    return bpe.Tokenizer.from_json(json.loads(TOKENIZER.read_text(encoding="utf-8")))


class Training(unittest.TestCase):
    def test_the_most_frequent_pair_is_first_and_ties_go_by_bytes(self):
        texts = ["aab aab aab", "zb zb zb ya ya ya"]
        size = len(render.MARKS) + 256 + 3
        merges = bpe.train(texts, size)
        self.assertEqual(merges, [(b"a", b"a"), (b"aa", b"b"), (b"y", b"a")])
        self.assertEqual(bpe.train(texts, size), merges)
        with self.assertRaises(ValueError):
            bpe.train(["ab ab"], size)

    def test_digits_punctuation_and_spaces_are_not_merged(self):
        size = len(render.MARKS) + 256 + 1
        self.assertEqual(bpe.train(["a1 a1 a1 1.1 1.1 1.1 <|end|><|end|> xy xy"], size), [(b"x", b"y")])

    def test_merges_stay_within_letters(self):
        for left, right in tokenizer().merges:
            self.assertTrue((left + right).isalpha() and (left + right).isascii(), left + right)


class Tokens(unittest.TestCase):
    def test_there_are_1024_and_each_once(self):
        found = tokenizer()
        self.assertEqual(len(found), bpe.SIZE)
        tokens = found.metadata("")["tokenizer.ggml.tokens"]
        self.assertEqual(len(set(tokens)), bpe.SIZE)

    def test_text_comes_back(self):
        found = tokenizer()
        for text in HARD:
            self.assertEqual(found.decode(found.encode(text)), text)
            self.assertEqual(found.decode(found.encode(text, marks=False)), text)

    def test_marks_are_tokens_only_where_they_are_looked_for(self):
        found = tokenizer()
        self.assertEqual(found.encode("<|end|>"), [render.MARKS.index("<|end|>")])
        self.assertGreater(len(found.encode("<|end|>", marks=False)), 1)

    def test_a_value_has_the_same_tokens_wherever_it_stands(self):
        found = tokenizer()
        for value in ("notes/welcome.txt", "restart12", "Hello World"):
            alone = found.encode(value)
            for before, after in ((" ", " "), ('"', '"'), ("/", "."), ("`", "`;"), ("5", "6")):
                around = found.encode(before + value + after)
                self.assertEqual(around[1 : 1 + len(alone)], alone)

    def test_requests_are_short(self):
        found = tokenizer()
        lengths = [
            len(found.encode(render.lines(conversation.tools) + "".join(text for text, _ in pieces)))
            for conversation in Generator("train", 31).conversations(200)
            for pieces in render.samples(conversation)
        ]
        self.assertLess(max(lengths), 2048)


class ModelFiles(unittest.TestCase):
    def test_metadata_is_written_as_the_format_says(self):
        data = gguf.file({"a": "é", "b": 7, "c": True, "d": ["x", ""], "e": [1, -1]})
        self.assertEqual(len(data) % 32, 0)
        self.assertEqual(struct.unpack_from("<4sIQQ", data), (b"GGUF", 3, 0, 5))
        text = struct.pack("<Q", 1)
        self.assertIn(text + b"a" + struct.pack("<IQ", 8, 2) + "é".encode(), data)
        self.assertIn(text + b"b" + struct.pack("<II", 4, 7), data)
        self.assertIn(text + b"c" + struct.pack("<IB", 7, 1), data)
        self.assertIn(text + b"d" + struct.pack("<IIQQ", 9, 8, 2, 1) + b"x" + struct.pack("<Q", 0), data)
        self.assertIn(text + b"e" + struct.pack("<IIQii", 9, 5, 2, 1, -1), data)

    def test_tensors_lie_where_the_file_says(self):
        tensors = [gguf.Tensor("a", (3,), gguf.F32, b"x" * 12), gguf.Tensor("b.c", (32, 2), gguf.Q8_0, b"y" * 68)]
        data = gguf.file({"k": 1.5}, tensors)
        self.assertEqual(struct.unpack_from("<4sIQQ", data), (b"GGUF", 3, 2, 1))
        self.assertIn(b"k" + struct.pack("<If", 6, 1.5), data)
        self.assertIn(b"a" + struct.pack("<IQIQ", 1, 3, 0, 0), data)
        self.assertIn(b"b.c" + struct.pack("<IQQIQ", 2, 32, 2, 8, 32), data)
        self.assertEqual(data[-128:], b"x" * 12 + bytes(20) + b"y" * 68 + bytes(28))

    def test_a_file_is_read_as_it_was_written_and_no_part_of_it_for_the_whole(self):
        values = {"a": "é", "b": 7, "c": True, "d": ["x", ""], "e": [1, -1], "f": 1.5}
        tensors = [gguf.Tensor("a", (3,), gguf.F32, b"x" * 12), gguf.Tensor("b.c", (32, 2), gguf.Q8_0, b"y" * 68)]
        data = gguf.file(values, tensors)
        self.assertEqual(gguf.read(data), (values, {tensor.name: tensor for tensor in tensors}))
        # The padding of the last tensor is not part of it.
        for end in range(len(data) - 28):
            with self.assertRaises(ValueError):
                gguf.read(data[:end])
        for wrong, why in (
            (b"GGML" + data[4:], "no GGUF"),
            (gguf.file({}, [gguf.Tensor("a", (1,), 1, b"xx")]), "neither F32, Q4_1 nor Q8_0"),
            (gguf.file({}, [gguf.Tensor("a", (31,), gguf.Q8_0, b"y" * 34)]), "not whole"),
            (data.replace(struct.pack("<IQ", gguf.Q8_0, 32), struct.pack("<IQ", gguf.Q8_0, 0)), "b.c begins before the one before it ends"),
            (gguf.file({}, [gguf.Tensor("a", (1,) * 5, gguf.F32, bytes(4))]), "5 sizes"),
            (gguf.file({}, tensors[:1] * 2), "a is there twice"),
            (data.replace(struct.pack("<I", 6) + struct.pack("<f", 1.5), struct.pack("<I", 12) + bytes(4)), "type 12"),
        ):
            with self.assertRaisesRegex(ValueError, why):
                gguf.read(wrong)


if __name__ == "__main__":
    unittest.main()
