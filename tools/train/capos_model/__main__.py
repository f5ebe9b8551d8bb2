"""`python3 -m capos_model`: makes conversations, the tokenizer and evaluation sets, and scores answers."""

import argparse
import importlib
import json
import random
import sys
from dataclasses import replace
from pathlib import Path

from . import bpe, gguf, render, scores
from .corpus import requests, sets, unseen
from .corpus.drills import Drills
from .corpus.generator import SPLITS, Generator

ROOT = Path(__file__).parent.parent
TOKENIZER = ROOT / "data" / "tokenizer.json"
TEMPLATE = ROOT / "template.jinja"
# The words without which the model does not call a tool.
ASKED_WITH = ROOT / "data" / "asked_with.json"
# The words that name nothing that such a tool could take.
NOT_NAMES = ROOT / "data" / "not_names.json"
FUNCTION_WORDS = ROOT / "data" / "function_words.json"
REQUESTS = ROOT / "tests" / "requests.jsonl"
NAME = "capOS assistant"
# What a model file says of itself. A session's description of the model when it begins is the one here.
ABOUT = {
    "general.license": "MIT OR Apache-2.0",
    "general.description": "small, made for capOS's own tools, knows nothing else. About every fifth tool that it chooses is the wrong "
    "one: look at what it does",
}
# The same, and what else a file says whose network began with a published one.
BASED = {
    "general.license": "Apache-2.0",
    "general.base_model.count": 1,
    "general.base_model.0.name": "SmolLM2-135M-Instruct",
    "general.base_model.0.organization": "HuggingFaceTB",
}
# The training set of the tokenizer, and the number of conversations per one whose tools are included: the lines of
# tools are much of a request and always the same.
TOKENIZER_SEED, TOKENIZER_CONVERSATIONS, TOOLS_ONCE_IN = 80_001, 8000, 10


def tokenizer_texts(seed=TOKENIZER_SEED, count=TOKENIZER_CONVERSATIONS):
    """The texts that the tokenizer is trained on."""
    for number, conversation in enumerate(Generator("train", seed).conversations(count)):
        if number % TOOLS_ONCE_IN == 0:
            yield render.prompt(conversation.tools, [])
        for message in conversation.messages:
            yield render.shown(message.content)
            yield "".join(render.invocation(call, []) for call in message.calls)


def _generate(args):
    sets.write_lines(
        args.out, (found.to_json() for found in Generator(args.split, args.seed).conversations(args.count))
    )


def _sets(args):
    for split in sets.NAMES:
        count = sets.write(args.out / split, split, args.count)
        print(f"{args.out / split}: {count} conversations")


def _tokenizer(args):
    tokenizer = bpe.Tokenizer(bpe.train(tokenizer_texts()))
    args.out.write_text(json.dumps(tokenizer.to_json(), indent=0) + "\n", encoding="utf-8")
    print(f"{args.out}: {len(tokenizer)} tokens")


def _vocabulary(args):
    tokenizer = _read_tokenizer()
    about = {"general.architecture": "llama", "llama.context_length": 2048}
    about |= _said("capOS built-in")
    args.out.write_bytes(gguf.file(about | tokenizer.metadata(TEMPLATE.read_text(encoding="utf-8"))))


def _requests(args):
    sets.write_lines(args.out, requests.requests())


def _score(args):
    conversations, produced = sets.read(args.set), sets.read_produced(args.produced)
    if args.requests:
        split = sets.split_of(args.set)
        if split not in unseen.NAMES:
            raise SystemExit(f"--requests is for the sets {' and '.join(unseen.NAMES)}, and {args.set} is of {split}")
        found, grave = scores.of_requests(unseen.read(split), produced)
        measures = scores.REQUEST_MEASURES
    else:
        found, grave, measures = scores.score(conversations, produced), [], scores.MEASURES
    print(json.dumps(found, indent=2) if args.json else scores.table(found, measures))
    for text, name, arguments in grave:
        print(f"nobody asked for {name} {arguments}: {text}", file=sys.stderr)


def _with_torch(name):
    """A module that needs PyTorch."""
    try:
        return importlib.import_module(f".{name}", __package__)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise SystemExit("this needs PyTorch: `pip install -r requirements.txt`, in a virtual environment") from error


def _read_tokenizer(path=TOKENIZER):
    return bpe.Tokenizer.from_json(json.loads(path.read_text(encoding="utf-8")))


def _by_step(kind):
    """Reads what begins at which step."""

    def read(text):
        points = [point.split(":") for point in text.split(",")]
        return tuple((int(step), kind(what)) for step, what in points)

    return read


def _sizes(text):
    """Reads before which steps a network is made how wide."""
    points = [point.replace("x", ":").split(":") for point in text.split(",")]
    return tuple((int(step), int(width), int(inner)) for step, width, inner in points)


def _steps(text):
    """Reads how many steps there are to be: rates rise and fall in them."""
    if int(text) < 2:
        raise ValueError
    return int(text)


def _count(text):
    """Reads a number of which there is at least one."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def _train(args):
    training = _with_torch("train")
    more = {name: getattr(args, name) for name in ("seed", "precision", "kinds", "growth") if getattr(args, name) is not None}
    if args.rates:
        plan = training.Plan(args.rates, **more)
    elif args.steps is not None:
        plan = training.Plan.even(args.steps, **more)
    else:
        plan = replace(training.WHOLE, **more)
    args.out.mkdir(parents=True, exist_ok=True)
    arguments = (_read_tokenizer(args.tokenizer), plan, args.out, None, args.every, args.stop, args.threads, not args.plain)
    if args.processes == 1:
        training.train(*arguments)
    else:
        training.train_together(args.processes, *arguments)


def _begin(folder, network, plan, step):
    """Writes the first checkpoint of a folder."""
    training = _with_torch("train")
    if (folder / training.CHECKPOINT).exists():
        raise SystemExit(f"there is a {training.CHECKPOINT} in {folder} already: name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    training.save(folder / training.CHECKPOINT, network, training.Optimizer(network), plan, step)


def _begin_with(args):
    """Begins with layers of a published network."""
    pretrained = _with_torch("pretrained")
    try:
        values, tensors = gguf.read(args.model.read_bytes())
        tokens = pretrained.tokenizer(values, args.tokens)
        network = pretrained.network(values, tensors, tokens, args.layers)
    except ValueError as error:
        raise SystemExit(f"{args.model}: {error}") from error
    _begin(args.out, network, None, 0)
    (args.out / TOKENIZER.name).write_text(json.dumps(tokens.to_json(), indent=0) + "\n", encoding="utf-8")


def _grow(args):
    training = _with_torch("train")
    network, state = training.load(args.checkpoint)
    grown = _with_torch("growth").grown(network, args.width, args.inner, args.seed, args.layers)
    _begin(args.out, grown, state["plan"] and training.Plan.from_json(state["plan"]), state["step"])


def _average(args):
    loaded = [_with_torch("train").load(path) for path in args.checkpoint]
    try:
        network = _with_torch("average").averaged([network for network, _ in loaded])
    except ValueError as error:
        raise SystemExit(str(error)) from error
    _begin(args.out, network, None, max(state["step"] for _, state in loaded))


def _import(args):
    if args.step < 0:
        raise SystemExit(f"--step {args.step}: a network is the work of no fewer than 0 steps")
    imports = _with_torch("imports")
    try:
        network = imports.network(args.model.read_bytes(), _read_tokenizer(), TEMPLATE.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SystemExit(f"{args.model}: {error}") from error
    _begin(args.out, network, None, args.step)


def _export(args):
    export = _with_torch("export")
    network, _ = _with_torch("train").load(args.checkpoint)
    tokens = _read_tokenizer(args.tokenizer)
    said = _said(args.name) | (BASED if not network.shape.normed else {})
    args.out.write_bytes(export.file(network, tokens, TEMPLATE.read_text(encoding="utf-8"), said))


def _said(name):
    """What a model file says of itself."""
    asked_with = gguf.asked_with(json.loads(ASKED_WITH.read_text(encoding="utf-8")))
    lists = {"capos.not_names": NOT_NAMES, "capos.function_words": FUNCTION_WORDS}
    words = {key: " ".join(json.loads(path.read_text(encoding="utf-8"))) for key, path in lists.items()}
    return {"general.name": name, "capos.asked_with": asked_with} | words | ABOUT


def _check(args):
    judge = _with_torch("judge")
    network, _ = _with_torch("train").load(args.checkpoint)
    print(judge.table(judge.judge(network, _read_tokenizer(args.tokenizer), sets.read(args.set)[: args.count])))


def _show(args):
    drills, generator = Drills(random.Random(args.seed)), Generator(args.split, args.seed)
    for _ in range(args.count):
        conversation = drills.draw() if args.drills else generator.conversation(args.kind)
        for pieces in render.samples(conversation):
            print(render.lines(conversation.tools) + "".join(f"\033[1m{text}\033[0m" if learnt else text for text, learnt in pieces))
        print()


def main():
    parser = argparse.ArgumentParser(prog="python3 -m capos_model", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, run, about):
        found = commands.add_parser(name, help=about)
        found.set_defaults(run=run)
        return found

    def generated(found, count):
        found.add_argument("--split", choices=SPLITS, default="train")
        found.add_argument("--seed", type=int, default=1)
        found.add_argument("--count", type=int, default=count)

    generate = command("generate", _generate, "write conversations, one on a line")
    generated(generate, 1000)
    generate.add_argument("--out", type=Path, required=True)
    show = command("show", _show, "print conversations as the model reads them, what it says in bold")
    generated(show, 5)
    show.add_argument("--kind", help="only those of a class")
    show.add_argument("--drills", action="store_true", help="drills in place of conversations")
    found = command("sets", _sets, "write the evaluation sets")
    found.add_argument("--out", type=Path, required=True)
    found.add_argument("--count", type=int, default=sets.COUNT, help="conversations of each set that is made from a seed")
    found = command("tokenizer", _tokenizer, "train the tokenizer")
    found.add_argument("--out", type=Path, default=TOKENIZER)
    found = command("vocabulary", _vocabulary, "write a model file without weights: vocabulary and template")
    found.add_argument("--out", type=Path, required=True)
    found = command("requests", _requests, "write the requests that tests hold the template to")
    found.add_argument("--out", type=Path, default=REQUESTS)
    found = command("score", _score, "score what a model answered to a set")
    found.add_argument("--set", type=Path, required=True, metavar="DIR")
    found.add_argument("--produced", type=Path, required=True, metavar="FILE")
    found.add_argument("--requests", action="store_true", help="of the sets of requests: whether they are right by what is done")
    found.add_argument("--json", action="store_true")
    found = command("train", _train, "train a model, or go on with its training (needs PyTorch)")
    found.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder of the checkpoint")
    found.add_argument("--seed", type=int, default=1)
    length = found.add_mutually_exclusive_group()
    length.add_argument("--steps", type=_steps, help="so many, at even rates and then lower ones; without it or --rates, the whole training")
    length.add_argument("--rates", type=_by_step(float), metavar="STEP:SHARE,...", help="in place of --steps: 0:0.03,29:1,500:1,1000:0")
    found.add_argument("--kinds", type=_by_step(str), metavar="STEP:KIND,...", help="what rows are made of: 0:drills,600:few,1000:some,2500:all,4000:own")
    found.add_argument("--growth", type=_sizes, metavar="STEP:WIDTHxINNER,...", help="before which steps the network is made wider: 3400:384x1024")
    found.add_argument("--stop", type=int, help="a step at which to end for now")
    found.add_argument("--threads", type=int, default=1)
    found.add_argument("--processes", type=_count, default=1, help="that share the work of each step")
    found.add_argument("--every", type=_count, default=50, metavar="STEPS", help="how often to write a checkpoint")
    found.add_argument("--precision", choices=["float32", "bfloat16"], default="float32", help="bfloat16: twice as fast with AMX")
    found.add_argument("--plain", action="store_true", help="without a compiler: several times slower")
    found.add_argument("--tokenizer", type=Path, default=TOKENIZER, metavar="FILE")
    found = command("begin", _begin_with, "begin with layers of a published model (needs PyTorch)")
    found.add_argument("--model", type=Path, required=True, metavar="FILE")
    found.add_argument("--layers", type=lambda text: [int(layer) for layer in text.split(",")], required=True, metavar="N,...")
    found.add_argument("--tokens", type=int, default=8192, help="how much of its vocabulary")
    found.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder of the checkpoint and the tokenizer")
    found = command("grow", _grow, "make a trained model wider or deeper: it goes on training where it was (needs PyTorch)")
    found.add_argument("--checkpoint", type=Path, required=True, metavar="FILE")
    found.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder of the new checkpoint")
    found.add_argument("--width", type=int, required=True)
    found.add_argument("--inner", type=int, required=True)
    found.add_argument("--layers", type=int, help="as many as it has, if absent")
    found.add_argument("--seed", type=int, default=1)
    found = command("average", _average, "make a checkpoint with the mean weights of several of one training (needs PyTorch)")
    found.add_argument("--checkpoint", type=Path, required=True, nargs="+", metavar="FILE")
    found.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder of the new checkpoint")
    found = command("import", _import, "make a checkpoint of a model file: training goes on from it (needs PyTorch)")
    found.add_argument("--model", type=Path, required=True, metavar="FILE")
    found.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder of the new checkpoint")
    found.add_argument("--step", type=int, default=0, help="how many steps it is the work of: the next one reads what follows")
    found = command("export", _export, "write a model file from a checkpoint (needs PyTorch)")
    found.add_argument("--checkpoint", type=Path, required=True, metavar="FILE")
    found.add_argument("--name", default=NAME)
    found.add_argument("--tokenizer", type=Path, default=TOKENIZER, metavar="FILE")
    found.add_argument("--out", type=Path, required=True)
    found = command("check", _check, "say how exact a checkpoint is, answer for answer (needs PyTorch)")
    found.add_argument("--checkpoint", type=Path, required=True, metavar="FILE")
    found.add_argument("--set", type=Path, required=True, metavar="DIR")
    found.add_argument("--count", type=int)
    found.add_argument("--tokenizer", type=Path, default=TOKENIZER, metavar="FILE")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
