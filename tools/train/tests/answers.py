"""Right answers in the model's form, for a test of what reads and constrains them: `python3 -m tests.answers FILE`."""

import sys

from capos_model import render
from capos_model.corpus import sets
from capos_model.corpus.generator import SPLITS, Generator
from capos_model.corpus.groups import GroupGenerator

_SEED, _COUNT = 52, 250
_GROUPS, _IN_GROUP = 60, 8


def _conversations():
    """Those of evaluation sets, and those of rows of training, which are typed as people type."""
    for split in SPLITS:
        yield from Generator(split, _SEED).conversations(_COUNT)
    for seed in range(_SEED, _SEED + _GROUPS):
        group = GroupGenerator(seed)
        group.draw()
        for _ in range(_IN_GROUP):
            yield group.conversation()


def _answers():
    for conversation in _conversations():
        for at in conversation.turns():
            message = conversation.messages[at]
            yield {
                "tools": [tool.to_json() for tool in conversation.tools],
                "messages": [before.to_json() for before in conversation.messages[:at]],
                "text": render.answer(message, conversation.tools).removesuffix(render.END),
                "answer": message.to_json(),
            }


sets.write_lines(sys.argv[1], _answers())
