"""Trained models compared with llama.cpp: tokens of the texts of tests/infer, logits after prose, and greedy
continuations.

Weights that were trained have what random ones lack: few tokens are likely, states have outliers, and layers lean on
each other. For small models the distances are those to the reference in 64 bits, as in `judge_models`; for others
they are those between capos-infer and llama.cpp.
"""

import json

import numpy as np
from gguf import GGUFReader
from judge_models import NEAR, WAYS, Ours, Theirs, distance, rms
from judge_tokens import ours as our_tokens
from judge_tokens import theirs as their_tokens
from judge_tokens import tokens
from make_tokenizers import TEXTS
from reference import Model
from trained import FILES, fetch

PROSE = [
    "The capital of France is",
    "Once upon a time there was a small robot that lived in a lighthouse. Every evening it",
    "To restart a service on a Linux system, one first has to find out which",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "Water boils at 100 degrees Celsius at sea level, but on a high mountain it boils at",
    "Dear customer,\n\nthank you for your letter of 14 March. We are sorry to hear that",
    "1, 1, 2, 3, 5, 8, 13, 21,",
    "Die Hauptstadt von Deutschland ist Berlin, und die von Österreich ist",
]
# How many tokens follow greedily.
GREEDY = 48
# Parameters of the largest model that the reference computes: its weights are in memory with 64 bits each.
LARGEST = 400e6
# How much farther from the reference than llama.cpp the mean of so few prompts may be by chance.
CHANCE = 1.25
# How much farther logits may be from llama.cpp's than those of its two code paths are from each other. With each of the
# three models, a different rounding of activations has at most the effect of a different rounding in attention.
APART = 2


def judge(infer, folder, names):
    """Compares all of these models; gives in how many places capos-infer does worse."""
    worse = 0
    for name in names or FILES:
        path = fetch(folder, name)
        worse += tokens_beside(infer, name, path)
        worse += logits_beside(infer, name, path)
    return worse


def tokens_beside(infer, name, path):
    they, we = their_tokens(path, TEXTS), our_tokens(infer, path, TEXTS)
    differences = 0
    for way in ("plain", "marked"):
        for text, their, our in zip(TEXTS, they[way], we[way]):
            if their != our:
                differences += 1
                print(f"  {way}: {text!r}\n    llama.cpp   {their}\n    capos-infer {our}")
    same = 2 * len(TEXTS) - differences
    print(f"{name}: the same tokens of {same} of {2 * len(TEXTS)} texts", flush=True)
    if they["surrounded"] != we["surrounded"]:
        differences += 1
        print(f"  what surrounds texts: {they['surrounded']}, not {we['surrounded']}")
    return differences


def logits_beside(infer, name, path):
    parameters = sum(int(np.prod(tensor.shape)) for tensor in GGUFReader(path).tensors)
    cases = [{"ids": ids, "greedy": [0] * GREEDY} for ids in tokens(infer, path, PROSE, "--bos")]
    if parameters < LARGEST:
        model = Model(path)
        for case in cases:
            case["logits"] = model.logits(case["ids"])[-1]
        del model
    ours = Ours(infer, path, "")
    theirs = [Theirs(path, 512, flash_attention) for flash_attention in (True, False)]
    worse, errors = 0, {}
    for way in WAYS:
        our = ours.logits(cases, way)
        their = [program.logits(cases, way) for program in theirs]
        if parameters < LARGEST:
            mine = rms([distance(found, case["logits"]) for found, case in zip(our, cases)])
            yours = min(rms([distance(found, case["logits"]) for found, case in zip(one, cases)]) for one in their)
            farther = mine > yours * CHANCE
            errors[way] = yours
            print(f"{name}, {way}: {mine:.2e} from the reference, llama.cpp {yours:.2e}{', farther' if farther else ''}")
            worse += farther
        apart = rms([distance(found, other) for found, other in zip(our, their[0])])
        between = rms([distance(found, other) for found, other in zip(their[1], their[0])])
        farther = apart > APART * between
        errors.setdefault(way, between)
        worse += farther
        print(f"{name}, {way}: {apart:.2e} from llama.cpp, whose two ways are {between:.2e} apart{', farther' if farther else ''}")
    worse += greedy_beside(name, cases, ours, theirs[0], errors["at_once"])
    for program in theirs:
        program.close()
    return worse


def greedy_beside(name, cases, ours, theirs, error):
    """Greedy tokens up to the first that differs: how near to its own is capos-infer's there to llama.cpp? Its error
    is its distance from the reference or, without one, the distance between its two code paths."""
    same, ties, worse = 0, 0, 0
    for case in cases:
        our, their = ours.greedy(case), theirs.greedy(case)
        at = next((at for at, (mine, yours) in enumerate(zip(our, their)) if mine != yours), None)
        same += GREEDY if at is None else at
        if at is None:
            continue
        (logits,) = theirs.logits([{"ids": case["ids"] + their[:at]}], "at_once")
        ahead = logits[their[at]] - logits[our[at]]
        near = NEAR * error * float(np.mean(np.square(logits)) ** 0.5)
        if ahead <= near:
            ties += 1
        else:
            worse += 1
            print(f"  behind {json.dumps(case['ids'])}, token {at}: {our[at]}, llama.cpp {their[at]} by {ahead:.3f}")
    print(f"{name}: {same} of {GREEDY * len(cases)} greedy tokens before the first that differs, {ties} prompts ended in a near tie", flush=True)
    return worse
