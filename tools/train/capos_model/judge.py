"""How exact a network is, turn by turn, without writing its answers out.

Each answer is read with the right tokens before it. What a greedy model would write is right to the last token if and
only if each token is the likeliest after those: so an answer that is exact here is exact there, without a grammar.
"""

import torch

from . import rows, scores
from .rows import DECISION, Encoder
from .train import tensors

MEASURES = {
    "decision": "turns all of whose decisions are right: what kind of answer it is, and which tool",
    "turns": "turns that are exact",
    "exact": "conversations that are exact in all their turns",
}


@torch.no_grad()
def judge(network, tokenizer, conversations, at_once=2):
    """Counts by group."""
    encoder, groups, waiting = Encoder(tokenizer), {}, []
    longest = 2 * rows.LENGTH
    right = [[] for _ in conversations]
    for number, conversation in enumerate(conversations):
        before = encoder.tools(conversation.tools)
        for tokens, weights in encoder.samples(conversation):
            waiting.append((number, before + tokens, [0.0] * len(before) + weights))
    waiting.sort(key=lambda sample: len(sample[1]))
    for start in range(0, len(waiting), at_once):
        some = waiting[start : start + at_once]
        length = max(len(tokens) for _, tokens, _ in some)
        if length > longest:
            raise ValueError(f"a conversation has {length} tokens; a model reads {longest}")
        found = rows.Rows()
        for _, tokens, weights in some:
            row = rows.Row()
            row.put(tokens, weights, range(len(tokens)), 0)
            found.add(row, length)
        tokens, positions, branches, targets, weights = tensors(found, length)
        likeliest = network(tokens, positions, branches).argmax(-1)
        for row, (number, _, _) in enumerate(some):
            right[number] += turns((likeliest[row] == targets[row]).tolist(), weights[row].tolist())
    for conversation, found in zip(conversations, right):
        about = "own tools" if conversation.own else "other tools"
        for name in ("all", about, conversation.kind, *([f"own {conversation.kind}"] if conversation.own else [])):
            group = groups.setdefault(name, {measure: scores.Count() for measure in MEASURES})
            for decided, exact in found:
                group["decision"].add(decided)
                group["turns"].add(exact)
            group["exact"].add(all(exact for _, exact in found))
    return {name: {measure: count.to_json() for measure, count in group.items()} for name, group in groups.items()}


def turns(right, weights):
    """For each turn of a row, whether its decisions and whether all its tokens are right."""
    found, inside = [], False
    for is_right, weight in zip(right, weights):
        if weight and not inside:
            found.append([True, True])
        inside = weight > 0
        if inside and not is_right:
            found[-1][1] = False
            if weight >= DECISION:
                found[-1][0] = False
    return found


def table(found):
    """The counts for people."""
    return scores.table(found, MEASURES)
