"""Tokens compared with llama.cpp's: the texts of tests/infer/texts.json with each vocabulary of tests/infer, the
byte-level one as each family that capos-infer knows."""

import json
import pathlib
import subprocess
import tempfile

from llama import Vocabulary
from make_tokenizers import HERE, TEXTS, with_family

FAMILIES = """
    default llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 dbrx smaug-bpe glm4 chatglm-bpe qwen2
    deepseek-r1-qwen stablelm2 hunyuan megrez kormo grok-2 solar-open qwen35 gpt-2 phi-2 mpt olmo jais exaone4 gigachat
    a.x-4.0 mellum trillion granite-docling smollm starcoder refact command-r codeshell exaone minerva-7b falcon tekken
    gpt-4o llama4 kanana2 minimax-m2 deepseek-v3 hunyuan-dense joyai-llm deepseek-llm deepseek-coder bailingmoe bailingmoe2
    llada-moe seed-coder bloom poro-chat gpt3-finnish viking
""".split()
OTHERS = ["sentence_piece", "sentence_piece_bare", "sentence_piece_without_bytes", "word_piece"]

# Texts where capos-infer does what the models' own tokenizer does, and llama.cpp does not. If one token stands for
# several characters of a Hindi, Burmese or Korean word, llama.cpp keeps the first only. It also takes all white space
# beyond ASCII for one character, which is in none of these families' ranges.
UNLIKE = {
    ("word_piece", None): [27, 31, 53],
    ("byte_pair_across", "deepseek-llm"): [9, 46],
    ("byte_pair_across", "deepseek-coder"): [9, 46],
}

# Texts that the vocabulary has no token for: llama.cpp ends the program.
LEFT_OUT = {"sentence_piece_without_bytes": [at for at, text in enumerate(TEXTS) if "\0" in text]}


def theirs(path, texts):
    """The tokens of the texts by llama.cpp: without marks, with marks, and of one text with the tokens around
    texts."""
    vocabulary = Vocabulary(path)
    plain = [vocabulary.tokens(text, special=False) for text in texts]
    marked = [vocabulary.tokens(text, special=True) for text in texts]
    surrounded = vocabulary.tokens("Hello world", special=False, surrounded=True)
    vocabulary.close()
    return {"plain": plain, "marked": marked, "surrounded": surrounded}


def tokens(infer, path, texts, *options):
    """The tokens that capos-infer makes of each of these texts."""
    command = [infer, "tokenize", path, "--texts", "-", "--json", *options]
    found = subprocess.run(command, check=True, capture_output=True, input=json.dumps(texts), text=True)
    return json.loads(found.stdout)["ids"]


def ours(infer, path, texts):
    return {
        "plain": tokens(infer, path, texts),
        "marked": tokens(infer, path, texts, "--special"),
        "surrounded": tokens(infer, path, ["Hello world"], "--bos")[0],
    }


def vocabularies(folder):
    """Name, family and file of each vocabulary."""
    for name in ("byte_pair", "byte_pair_across"):
        for family in FAMILIES:
            path = folder / f"{name}-{family}.gguf"
            with_family(name, path, family)
            yield name, family, path
    for name in OTHERS:
        yield name, None, pathlib.Path(HERE) / "tokenizers" / f"{name}.gguf"


def judge(infer):
    """Compares all; gives what llama.cpp said, and in how many texts capos-infer did not agree."""
    answers, differences = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, family, path in vocabularies(pathlib.Path(folder)):
            places = [at for at in range(len(TEXTS)) if at not in LEFT_OUT.get(name, [])]
            texts = [TEXTS[at] for at in places]
            they, we = theirs(path, texts), ours(infer, path, texts)
            unlike = UNLIKE.get((name, family), [])
            for way in ("plain", "marked"):
                for at, text, their, our in zip(places, texts, they[way], we[way]):
                    if (their == our) == (at in unlike):
                        differences += 1
                        print(f"{family or name}, text {at}, {way}: {text!r}\n  llama.cpp   {their}\n  capos-infer {our}")
            if they["surrounded"] != we["surrounded"]:
                differences += 1
                print(f"{family or name}, what surrounds texts: {they['surrounded']}, not {we['surrounded']}")
            # Marks differ in few texts, and many families do the same.
            answer = {
                "vocabulary": name,
                "ids": dict(zip(places, they["plain"])),
                "marked": {at: ids for at, ids, plain in zip(places, they["marked"], they["plain"]) if ids != plain},
                "surrounded": they["surrounded"],
                "unlike": unlike,
            }
            same = next((known for known, _ in answers if known == answer), None)
            if same is None:
                answers.append((answer, [family] if family else []))
            else:
                next(families for known, families in answers if known is same).append(family)
    for answer, families in answers:
        kept = len(answer["ids"]) - len(answer["unlike"])
        print(f"{answer['vocabulary']}: {kept} of {len(answer['ids'])} texts twice; {', '.join(families)}")
    return [{"families": families, **answer} for answer, families in answers], differences


def recorded(answers):
    """The answers as JSON with a line for each text."""
    entries = []
    for answer in answers:
        lines = []
        for key, value in answer.items():
            if key in ("ids", "marked"):
                texts = ",\n".join(f"{json.dumps(str(at))}: {json.dumps(ids, separators=(',', ':'))}" for at, ids in value.items())
                lines.append(f'"{key}": {{\n{texts}\n}}')
            else:
                lines.append(f'"{key}": {json.dumps(value)}')
        entries.append("{\n" + ",\n".join(lines) + "\n}")
    return "[\n" + ",\n".join(entries) + "\n]\n"
