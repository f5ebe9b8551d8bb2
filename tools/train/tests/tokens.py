"""Texts with their tokens, for a test of another tokenizer: `python3 -m tests.tokens FILE`."""

import json
import sys

from capos_model import render
from capos_model.corpus.generator import SPLITS, Generator

from .test_tokenizer import HARD, tokenizer


def main(path):
    found = tokenizer()
    cases = [(text, False) for text in HARD if text]
    for split in SPLITS:
        samples = [
            render.lines(conversation.tools) + "".join(text for text, _ in pieces)
            for conversation in Generator(split, 51).conversations(120)
            for pieces in render.samples(conversation)
        ]
        cases.append(("\n".join(samples), True))
    values = [{"text": text, "marks": marks, "ids": found.encode(text, marks)} for text, marks in cases]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(values, file)


main(sys.argv[1])
