"""Right answers in the model's form, for a test of what reads and constrains them: `python3 -m tests.answers FILE`."""

import sys

from capos_model import render
from capos_model.corpus import sets
from capos_model.corpus.generator import SPLITS, Generator

_SEED, _COUNT = 52, 250


def _answers():
    for split in SPLITS:
        for conversation in Generator(split, _SEED).conversations(_COUNT):
            for at in conversation.turns():
                message = conversation.messages[at]
                yield {
                    "tools": [tool.to_json() for tool in conversation.tools],
                    "messages": [before.to_json() for before in conversation.messages[:at]],
                    "text": render.answer(message, conversation.tools).removesuffix(render.END),
                    "answer": message.to_json(),
                }


sets.write_lines(sys.argv[1], _answers())
