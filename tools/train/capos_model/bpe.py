"""The tokenizer: byte-level pairs of 1,024 tokens.

Bytes are merged within runs of ASCII letters only. Digits, punctuation and white space are a token each, so that a
value has the same tokens wherever it occurs: after a space, between quotes, in a path. That is what makes copying
easy.
"""

import re
from collections import Counter, defaultdict

from .render import MARKS

SIZE = 1024
# The name of the splitting in model files that keeps runs of letters, and within which no merge of ours is cut.
PRE = "deepseek-coder"

_LETTERS = re.compile(rb"[A-Za-z]+")
_PARTS = re.compile(rb"[A-Za-z]+|[^A-Za-z]")
# The same with the space before a word, as in vocabularies of published models.
_SPACED = re.compile(rb" ?[A-Za-z]+|[^A-Za-z]")
_MARK = re.compile("|".join(re.escape(mark) for mark in MARKS))


def _byte_alphabet():
    """The character for each byte in the vocabularies of model files."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    letters = {byte: chr(byte) for byte in plain}
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(256 + len(letters) - len(plain))
    return letters


_ALPHABET = _byte_alphabet()


def spelled(piece):
    """Bytes as a model file writes them."""
    return "".join(_ALPHABET[byte] for byte in piece)


_BYTES = {letter: byte for byte, letter in _ALPHABET.items()}


def unspelled(text):
    """The bytes that a model file writes so."""
    return bytes(_BYTES[letter] for letter in text)


def train(texts, size=SIZE):
    """The merges that texts give, most useful first. If two pairs are equally frequent, the first by its bytes
    wins."""
    counts = Counter()
    for text in texts:
        counts.update(_LETTERS.findall(_MARK.sub(" ", text).encode()))
    words = [([bytes([byte]) for byte in word], count) for word, count in sorted(counts.items())]
    pairs, where = Counter(), defaultdict(set)
    for at, (word, count) in enumerate(words):
        for pair in zip(word, word[1:]):
            pairs[pair] += count
            where[pair].add(at)
    merges, known = [], set()
    while len(MARKS) + 256 + len(known) < size:
        best = min((pair for pair in pairs if pairs[pair] > 1), key=lambda pair: (-pairs[pair], pair), default=None)
        if best is None:
            raise ValueError(f"the texts give {len(merges)} merges, too few for a vocabulary of {size}")
        known.add(best[0] + best[1])
        merges.append(best)
        for at in sorted(where.pop(best)):
            word, count = words[at]
            for pair in zip(word, word[1:]):
                pairs[pair] -= count
                where[pair].discard(at)
            word[:] = _joined(word, best)
            for pair in zip(word, word[1:]):
                pairs[pair] += count
                where[pair].add(at)
        del pairs[best]
    return merges


def _joined(word, pair):
    joined, at = [], 0
    while at < len(word):
        if tuple(word[at : at + 2]) == pair:
            joined.append(pair[0] + pair[1])
            at += 2
        else:
            joined.append(word[at])
            at += 1
    return joined


class Tokenizer:
    """Text to tokens and back, by a list of merges."""

    def __init__(self, merges):
        self.merges = [tuple(merge) for merge in merges]
        self.ranks = {merge: rank for rank, merge in enumerate(self.merges)}
        # Two merges may make the same piece.
        made = dict.fromkeys(left + right for left, right in self.merges)
        pieces = [bytes([byte]) for byte in range(256)] + list(made)
        self.marks = {mark: number for number, mark in enumerate(MARKS)}
        self.numbers = {piece: len(MARKS) + number for number, piece in enumerate(pieces)}
        self.pieces = pieces
        self._words = {}
        spaced = any(left.startswith(b" ") for left, _ in self.merges)
        self._parts = _SPACED if spaced else _PARTS

    def __len__(self):
        return len(MARKS) + len(self.pieces)

    def encode(self, text, marks=True):
        """The tokens of a text. Without `marks` what is written like a mark is text."""
        ids, at = [], 0
        for found in _MARK.finditer(text) if marks else ():
            self._text(text[at : found.start()].encode(), ids)
            ids.append(self.marks[found.group()])
            at = found.end()
        self._text(text[at:].encode(), ids)
        return ids

    def decode(self, ids):
        """The text of tokens, marks as they are written."""
        parts = []
        for number in ids:
            inside = number - len(MARKS)
            parts.append(MARKS[number].encode() if inside < 0 else self.pieces[inside])
        return b"".join(parts).decode(errors="replace")

    def _text(self, data, ids):
        known = self._words
        for part in self._parts.findall(data):
            ids += known.get(part) or self._word(part)

    def _word(self, word):
        found = self._words.get(word)
        if found is None:
            parts = [bytes([byte]) for byte in word]
            while len(parts) > 1:
                best = min(zip(parts, parts[1:]), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
                if best not in self.ranks:
                    break
                parts = _joined(parts, best)
            found = self._words[word] = tuple(self.numbers[part] for part in parts)
        return found

    def to_json(self):
        return {"merges": [f"{spelled(left)} {spelled(right)}" for left, right in self.merges]}

    @classmethod
    def from_json(cls, value):
        return cls([[unspelled(part) for part in merge.split(" ")] for merge in value["merges"]])

    def metadata(self, template):
        """A model file's entries about tokens: its keys and values."""
        normal, control = 1, 3
        return {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": PRE,
            "tokenizer.ggml.tokens": MARKS + [spelled(piece) for piece in self.pieces],
            "tokenizer.ggml.token_type": [control] * len(MARKS) + [normal] * len(self.pieces),
            "tokenizer.ggml.merges": [f"{spelled(left)} {spelled(right)}" for left, right in self.merges],
            "tokenizer.ggml.eos_token_id": self.marks["<|end|>"],
            "tokenizer.ggml.padding_token_id": self.marks["<|pad|>"],
            "tokenizer.ggml.add_bos_token": False,
            "tokenizer.ggml.add_eos_token": False,
            "tokenizer.chat_template": template,
        }
