"""Vectors of texts beside llama.cpp's: the embedders of tests/infer/embedders, and language models that embed.

How far a vector is from the reference is the length of their difference; all have length one. llama.cpp is asked with
flash attention and without, and the way that is nearer to the reference counts.
"""

import json

import numpy as np
from judge_models import Ours, rms
from llama import Embedder
from make_embedders import HERE as FILES
from make_embedders import LANGUAGE_MODELS

# llama.cpp leaves out the sliding window of this architecture.
UNLIKE = ["phi3-window"]
# How many times as far from the reference ours may be. There is one draw of weights, and chance decides much of it; and
# ours keep keys and values of 16 bits, where llama.cpp, without a cache, may keep 32.
FARTHER = 1.5


def cases():
    """Of each model its file and what the reference made of some texts."""
    for path in sorted(FILES.glob("*.gguf")):
        if path.stem != "qwen3-last":
            yield path, json.loads(path.with_suffix(".json").read_text())
    found = json.loads((FILES / "language_models.json").read_text())
    for name in [name for name in LANGUAGE_MODELS if name not in UNLIKE] + ["qwen3-last"]:
        folder = FILES if name == "qwen3-last" else FILES.parent / "models"
        yield folder / f"{name}.gguf", found[name]


def apart(found, case):
    return [float(np.linalg.norm(np.array(one) - other)) for one, other in zip(found, case["vectors"])]


def theirs(path, case):
    """How far llama.cpp's vectors are, the nearer way."""
    ways = []
    for flash_attention in (True, False):
        peer = Embedder(path, flash_attention=flash_attention)
        ways.append(apart([peer.vector(ids) for ids in case["ids"]], case))
        peer.close()
    return min(ways, key=rms)


def judge(infer, kernels):
    """Compares all; gives what llama.cpp's distances are, and how much capos-infer did worse."""
    answers, worse = {}, 0
    print("embedder          kernels   ours    llama.cpp  ratio")
    for path, case in cases():
        answers[path.stem] = [float(f"{value:.5g}") for value in theirs(path, case)]
        # Of language models the tests of capos-engine have ours: these files have no vocabulary.
        for kernel in kernels if "texts" in case else []:
            texts = [part for text in case["texts"] for part in ("--text", text)]
            found = Ours(infer, path, kernel).command("embed", str(path), "--cache", "f16", *texts)["vectors"]
            ours = rms(apart(found, case))
            ratio = ours / rms(answers[path.stem])
            worse += ratio > FARTHER
            print(f"{path.stem:17} {kernel or '':9} {ours:.1e} {rms(answers[path.stem]):.1e}    {ratio:.2f}", flush=True)
    return answers, worse


def recorded(answers):
    """The answers as JSON with a line for each list."""
    return "{\n" + ",\n".join(f'"{name}": {json.dumps(values)}' for name, values in answers.items()) + "\n}\n"
