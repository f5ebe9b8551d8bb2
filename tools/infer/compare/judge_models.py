"""Logits and greedy tokens compared with llama.cpp's: models as those of tests/infer/models, after random prompts.

How far logits are from the reference is the length of their difference in lengths of the reference's: |found -
reference| / |reference|, Euclidean. It is one number for each prompt, and chance decides much of it, since each
rounding may go either way. The figure is the mean of the logarithm of ours over theirs. It is taken over several
draws of weights, because roundings of the same weights repeat: over one draw it is up to a sixth away from what it is
over many. Ours are farther where the mean over all draws is more than three of its standard errors above zero.
llama.cpp is asked with flash attention, which it takes by itself, and without, and the way that is nearer to the
reference counts.
"""

import json
import pathlib
import subprocess
import tempfile

import numpy as np
from llama import Peer
from make_models import MODELS, Maker, file, prompts
from reference import Model

WAYS = ("at_once", "one_by_one")
PROMPTS = 16
STANDARD_ERRORS = 3
# How much the logarithm of the ratio differs between draws, at least: few draws may be alike by chance.
ONE_DRAW = 0.06
# Tokens are nearly as likely as each other if their logits are no more of llama.cpp's own errors apart than this.
NEAR = 5
# llama.cpp leaves out the sliding window of this architecture.
UNLIKE = ["phi3-window"]


def distance(found, reference):
    return float(np.linalg.norm(found - reference) / np.linalg.norm(reference))


class Ours:
    """capos-infer with one model and some kernels."""

    def __init__(self, infer, path, kernels):
        self.infer, self.path = infer, path
        self.options = ["--json", "-t", "1"] + (["--kernels", kernels] if kernels else [])

    def command(self, *arguments, text=None):
        command = [self.infer, *arguments, *self.options]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, input=text).stdout)

    def logits(self, cases, way):
        options = ["--one-by-one"] if way == "one_by_one" else []
        ids = json.dumps([case["ids"] for case in cases])
        answers = self.command("logits", self.path, "--prompts", "-", "--full", *options, text=ids)
        return [np.array(answer["full"]) for answer in answers]

    def greedy(self, case):
        ids, count = ",".join(map(str, case["ids"])), str(len(case["greedy"]))
        return self.command("generate", self.path, "--ids", ids, "--n", count, "--greedy", "--ignore-eos")["ids"]


class Theirs:
    """llama.cpp with one model."""

    def __init__(self, path, context, flash_attention):
        self.peer = Peer(path, 1, context, flash_attention)

    def logits(self, cases, way):
        found = []
        for case in cases:
            self.peer.reset()
            ids = case["ids"]
            for piece in [ids] if way == "at_once" else [[id] for id in ids]:
                last = self.peer.feed(piece)
            found.append(last.astype(np.float64))
        return found

    def greedy(self, case):
        return self.peer.greedy(case["ids"], len(case["greedy"]))

    def close(self):
        self.peer.close()


class Draw:
    """One file, and what the reference and llama.cpp, in two ways, make of it."""

    def __init__(self, path, cases, context):
        self.path, self.cases = path, cases
        self.theirs = [Theirs(path, context, flash_attention) for flash_attention in (True, False)]
        self.distances = [{way: self.apart(program, way) for way in WAYS} for program in self.theirs]

    def apart(self, program, way):
        """How far a program's logits are from the reference after each prompt."""
        return np.array([distance(found, case["logits"]) for found, case in zip(program.logits(self.cases, way), self.cases)])

    def close(self):
        for program in self.theirs:
            program.close()


def committed(name):
    """The file of the tests, with the prompts."""
    path = file(name)
    first = json.loads(path.with_suffix(".json").read_text())
    more = first.pop("more")
    return Draw(path, [first, *more], context(Model(path)))


def another(folder, name, seed):
    """A file as that of the tests with other weights."""
    arch, types, options = MODELS[name]
    path = folder / f"{name}-{seed}.gguf"
    Maker(path, arch, types, **{**options, "seed": seed}).make()
    model = Model(path)
    cases = [{"ids": ids, "logits": model.logits(ids)[-1]} for ids in prompts(model.vocabulary, PROMPTS, seed)]
    return Draw(path, cases, context(model))


def context(model):
    return min(model.context, 128)


def greedy_tokens(draw, ours, theirs, near):
    """How many greedy tokens come before a near tie, how many of them are the same, and in how many prompts llama.cpp
    leaves the reference and capos-infer does not."""
    compared, same, strays = 0, 0, 0
    for case, their in zip(draw.cases, theirs):
        our = ours.greedy(case)
        for mine, yours, reference, ahead in zip(our, their, case["greedy"], case["ahead"]):
            if ahead < near:
                break
            compared += 1
            same += mine == yours
            strays += mine == reference != yours
            if mine != yours and mine != reference:
                print(f"  behind {case['ids']}: {our}, llama.cpp {their}, reference {case['greedy']}")
            if not mine == yours == reference:
                break
    return compared, same, strays


def judge(infer, names, kernels, draws):
    """Compares all; returns llama.cpp's answers to the files' prompts, and how much worse capos-infer is."""
    answers, worse = {}, 0
    print("                        prompts                        token by token                 greedy tokens")
    print("file          kernels   ours    llama.cpp  ratio       ours    llama.cpp  ratio       same    llama.cpp strays")
    for name in names or [name for name in MODELS if name not in UNLIKE]:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            all_draws = [committed(name), *(another(folder, name, 1000 + seed) for seed in range(1, draws))]
            answer, found = beside(infer, name, kernels, all_draws)
            answers[name] = answer
            worse += found
            for draw in all_draws:
                draw.close()
    return answers, worse


def beside(infer, name, kernels, draws):
    """Compares one model, and prints a line for each of the kernels."""
    worse = 0
    # With or without flash attention, whichever is nearer to the reference.
    nearer = min((0, 1), key=lambda one: np.mean([np.log(draw.distances[one][way]) for draw in draws for way in WAYS]))
    first = draws[0]
    size = np.mean([np.mean(np.square(case["logits"])) for case in first.cases]) ** 0.5
    near = NEAR * float(size * rms(np.concatenate(list(first.distances[nearer].values()))))
    greedy = [first.theirs[nearer].greedy(case) for case in first.cases]
    for kernel in kernels:
        columns = []
        for way in WAYS:
            ours = [draw.apart(Ours(infer, draw.path, kernel), way) for draw in draws]
            theirs = [draw.distances[nearer][way] for draw in draws]
            means = np.array([np.mean(np.log(our / their)) for our, their in zip(ours, theirs)])
            error = max(means.std(ddof=1), ONE_DRAW) / len(means) ** 0.5
            farther = means.mean() > STANDARD_ERRORS * error
            worse += farther
            columns.append(
                f"{rms(np.concatenate(ours)):.1e} {rms(np.concatenate(theirs)):.1e}    {np.exp(means.mean()):.3f} ±{error:.3f}"
                f"{'!' if farther else ' '} "
            )
        compared, same, strays = greedy_tokens(first, Ours(infer, first.path, kernel), greedy, near)
        worse += compared - same - strays
        print(f"{name:13} {kernel or '':9} {' '.join(columns)} {same:4} of {compared:4} {strays:4}", flush=True)
    answer = {way: [float(f"{value:.5g}") for value in first.distances[nearer][way]] for way in WAYS}
    return {**answer, "near": float(f"{near:.4g}"), "greedy": greedy}, worse


def rms(values):
    return float(np.mean(np.square(values)) ** 0.5)


def recorded(answers):
    """The answers as JSON with a line for each list."""
    entries = []
    for name, answer in answers.items():
        lines = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in answer.items())
        entries.append(f'"{name}": {{\n{lines}\n}}')
    return "{\n" + ",\n".join(entries) + "\n}\n"
