"""Evaluation sets: folders that a program reads, with conversations that are never trained on."""

import json

from . import strangers, unseen
from .conversation import Conversation, Message
from .generator import SPLITS, Generator

VERSION = 1
# Seeds of the sets. Training never takes them: the words of `train` are those of training, its values are not.
SEEDS = {"train": 90_001, "wording": 90_002, "names": 90_003, "both": 90_004}
COUNT = 1000
# Sets of typed requests, with their own numbers of conversations.
TYPED = (strangers.NEW, strangers.TRAINED)
# All that there are.
NAMES = (*SEEDS, *TYPED, *unseen.NAMES)


def write_lines(path, values):
    """A file of JSON values, one on a line."""
    with open(path, "w", encoding="utf-8") as file:
        for value in values:
            file.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def read_lines(path):
    """The values of such a file."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write(folder, split, count=COUNT):
    """Writes the set of a split, and says how many conversations it has."""
    folder.mkdir(parents=True, exist_ok=True)
    if split in unseen.NAMES:
        conversations, seed = unseen.conversations(split), unseen.SEED
    elif split in TYPED:
        conversations, seed = strangers.conversations(split), strangers.SEED
    else:
        conversations, seed = Generator(split, SEEDS[split]).conversations(count), SEEDS[split]
    about = {"version": VERSION, "split": split, "seed": seed, "conversations": len(conversations)}
    (folder / "set.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    write_lines(folder / "conversations.jsonl", [conversation.to_json() for conversation in conversations])
    return len(conversations)


def split_of(folder):
    """What a set is of."""
    about = json.loads((folder / "set.json").read_text(encoding="utf-8"))
    if about["version"] != VERSION or about["split"] not in (*SPLITS, *NAMES):
        raise ValueError(f"{folder} is a set of version {about['version']}; this program reads {VERSION}")
    return about["split"]


def read(folder):
    """The conversations of a set."""
    split_of(folder)
    return [Conversation.from_json(value) for value in read_lines(folder / "conversations.jsonl")]


def read_produced(path):
    """A model's answers: for each conversation the messages of its turns."""
    return [[Message.from_json({"role": "assistant", **turn}) for turn in line["turns"]] for line in read_lines(path)]
