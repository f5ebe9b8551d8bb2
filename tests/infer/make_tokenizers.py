#!/usr/bin/env python3
"""Makes the tokenizers' fixtures: small vocabularies as GGUF files, and the tokens that reference libraries make of
texts.json with them. The fixtures are committed; this is how they came to be.

    pip install tokenizers sentencepiece gguf
    tests/infer/make_tokenizers.py

`make judge-infer` says for each vocabulary whether llama.cpp makes the same tokens.
"""

import collections
import glob
import io
import json
import os
import random
import re

import gguf

HERE = os.path.dirname(os.path.abspath(__file__))
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
TEXTS = json.load(open(os.path.join(HERE, "texts.json")))

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if tools %}Answer with <tool_call>...</tool_call>{% endif %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# The patterns of each family's tokenizer.json, in order. Those of tekken and gpt-4o distinguish small and capital
# letters in ASCII only, as llama.cpp does.
ENDINGS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
SPACES = r"|\s+(?!\S)|\s+"
GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+" + SPACES
LOWER, UPPER = r"((?=\p{L})([^A-Z]))", r"((?=\p{L})([^a-z]))"
ASCII_PUNCTUATION = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
LETTERS = "[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]"
FAMILIES = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT_2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2": [GPT_2],
    "smollm": [r"\p{N}", GPT_2],
    "llama-bpe": [ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+" + SPACES],
    "qwen2": [ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+" + SPACES],
    "qwen35": [ENDINGS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+" + SPACES],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT_2, "[0-9][0-9][0-9]"],
    "tekken": [
        r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER
        + r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+" + SPACES
    ],
    "gpt-4o": [
        r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + ENDINGS + r"?|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER
        + "*" + ENDINGS + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+" + SPACES
    ],
    "deepseek-llm": [
        r"[\r\n]", r"\s?" + LETTERS + "+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", "[一-龥ࠀ-一가-퟿]+", r"\p{N}+",
    ],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
    "deepseek-v3": [
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        ASCII_PUNCTUATION + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+" + SPACES,
    ],
    "seed-coder": [ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+" + SPACES],
    "bailingmoe": [
        r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]"
        + SPACES
    ],
    "bloom": [r" ?[^(\s|.,!?…。，、।۔،)]+"],
    "viking": [r" ?[^(\s|.,!?…。，、।۔،)]+", r"\p{N}"],
}
WHOLE_WORDS = {"llama-bpe", "tekken"}


def corpus():
    """Text to learn vocabularies from: the project's own pages, and the hard texts often enough to matter."""
    pages = sorted(glob.glob(os.path.join(HERE, "../../docs/*.md"))) + [os.path.join(HERE, "../../README.md")]
    return [open(page).read() for page in pages] + [t for t in TEXTS if "<" not in t] * 8


def write_gguf(path, model, pre, tokens, kinds, scores=None, merges=None, flags=None, roles=None, template=TEMPLATE):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Tokenizer fixture")
    # Entries that llama.cpp requires before it reads the vocabulary.
    writer.add_context_length(128)
    writer.add_embedding_length(32)
    writer.add_block_count(0)
    writer.add_feed_forward_length(32)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model(model)
    if pre:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    if scores is not None:
        writer.add_token_scores(scores)
    if merges is not None:
        writer.add_token_merges(merges)
    for key, value in (roles or {}).items():
        writer.add_uint32(f"tokenizer.ggml.{key}_token_id", value)
    for key, value in (flags or {}).items():
        writer.add_bool(f"tokenizer.ggml.{key}", value)
    if template:
        writer.add_chat_template(template)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


MARKS = [("<|endoftext|>", CONTROL), ("<|im_start|>", CONTROL), ("<|im_end|>", CONTROL),
         ("<tool_call>", USER_DEFINED), ("</tool_call>", USER_DEFINED), ("    ", USER_DEFINED)]


def train_byte_pair():
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = split("qwen2")
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1100, initial_alphabet=sorted(alphabet), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return tokens, merges


def split(family):
    from tokenizers import Regex, pre_tokenizers

    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in FAMILIES[family]]
    return pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def encode_byte_pair(tokens, merges, family, kinds):
    """The tokens of each text where marks of these kinds are found."""
    from tokenizers import AddedToken, Tokenizer, models

    vocabulary = {token: at for at, token in enumerate(tokens)}
    pairs = [tuple(merge.split(" ")) for merge in merges]
    whole = family in WHOLE_WORDS
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=whole))
    tokenizer.pre_tokenizer = split(family)
    for at, (mark, kind) in enumerate(MARKS):
        if kind in kinds:
            tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False)])
    numbers = {mark: len(tokens) + at for at, (mark, _) in enumerate(MARKS)}
    result = []
    for text in TEXTS:
        encoding = tokenizer.encode(text)
        result.append([numbers.get(token, at) for token, at in zip(encoding.tokens, encoding.ids)])
    return result


def byte_pair():
    tokens, merges = train_byte_pair()
    # A token that no merge makes, and which families that take whole words find.
    tokens.append("Ġdog.Ġ")
    tokens.append("worldly")
    everything = tokens + [mark for mark, _ in MARKS]
    kinds = [NORMAL] * len(tokens) + [kind for _, kind in MARKS]
    end = everything.index("<|endoftext|>")
    parts = dict(model="gpt2", tokens=everything, kinds=kinds, merges=merges,
                 roles={"bos": end, "eos": everything.index("<|im_end|>")})
    write_gguf(os.path.join(HERE, "tokenizers/byte_pair.gguf"), pre="gpt-2", **parts)
    expected = {}
    for family in FAMILIES:
        plain = encode_byte_pair(tokens, merges, family, {USER_DEFINED})
        marked = encode_byte_pair(tokens, merges, family, {USER_DEFINED, CONTROL})
        # Marks differ in few texts.
        different = {str(at): ids for at, ids in enumerate(marked) if ids != plain[at]}
        expected[family] = {"ids": plain, "marks": different}
    save("tokenizers/byte_pair.json", expected)


def byte_pair_across():
    """A vocabulary whose merges reach across all borders between words, so that families that split text in different
    places make different tokens of it."""
    alphabet = byte_alphabet()
    rng = random.Random(1)
    texts = [[alphabet[byte] for byte in text.encode()] for text in TEXTS]
    marks = {mark for mark, _ in MARKS}
    tokens, merges = sorted(alphabet), []
    while len(merges) < 1500:
        counts = collections.Counter(pair for text in texts for pair in zip(text, text[1:]) if "".join(pair) not in marks)
        most = max(counts.values())
        pair = rng.choice(sorted(pair for pair, count in counts.items() if count == most))
        merges.append(" ".join(pair))
        if "".join(pair) not in tokens:
            tokens.append("".join(pair))
        texts = [merged(text, pair) for text in texts]
    # Words that no merge makes, which families that take whole words find.
    words = {"".join(alphabet[byte] for byte in word.encode()) for text in TEXTS for word in re.findall(r" ?\w+", text)}
    tokens += rng.sample(sorted(words - set(tokens)), 60)
    everything = tokens + [mark for mark, _ in MARKS]
    write_gguf(os.path.join(HERE, "tokenizers/byte_pair_across.gguf"), "gpt2", "gpt-2", everything,
               [NORMAL] * len(tokens) + [kind for _, kind in MARKS], merges=merges,
               roles={"bos": everything.index("<|endoftext|>"), "eos": everything.index("<|im_end|>")})


def byte_alphabet():
    """The character that each byte is written as in byte-level vocabularies."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte if byte in printable else 256 + others.index(byte)) for byte in range(256)]


def merged(text, pair):
    result = []
    for part in text:
        if result and (result[-1], part) == pair:
            result[-1] = "".join(pair)
        else:
            result.append(part)
    return result


def with_family(name, path, family):
    """A file of a byte-level vocabulary that says that it is of this family."""
    fields = read_gguf(f"tokenizers/{name}.gguf")
    tokens, kinds, merges, begin, end = (
        fields[f"tokenizer.ggml.{key}"] for key in ("tokens", "token_type", "merges", "bos_token_id", "eos_token_id"))
    write_gguf(path, "gpt2", family, tokens, kinds, merges=merges, roles={"bos": begin, "eos": end})


def train_sentence_piece(**options):
    """A model of SentencePiece, its tokens' texts, kinds and scores."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for text in corpus() for line in text.split("\n")), model_writer=model,
        model_type="bpe", vocab_size=1200, byte_fallback=True, character_coverage=0.985, num_threads=1,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        allow_whitespace_only_pieces=True, minloglevel=2, **options)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    tokens, kinds, scores = [], [], []
    for at in range(processor.get_piece_size()):
        text = processor.id_to_piece(at)
        defined = text in options.get("user_defined_symbols", [])
        tokens.append(text.replace(" ", "▁") if not defined else text)
        scores.append(processor.get_score(at))
        kinds.append(UNKNOWN if processor.is_unknown(at) else CONTROL if processor.is_control(at)
                     else BYTE if processor.is_byte(at) else USER_DEFINED if defined else NORMAL)
    return processor, tokens, kinds, scores


def encode_marked(encode, tokens, kinds, wanted):
    """The tokens of each text, with marks of these kinds found in it and the text between them encoded separately."""
    marks = [text for text, kind in zip(tokens, kinds) if kind in wanted]
    pattern = re.compile("(" + "|".join(re.escape(mark) for mark in sorted(marks, key=len, reverse=True)) + ")")
    result = []
    for text in TEXTS:
        ids = []
        for part in pattern.split(text) if marks else [text]:
            if part:
                ids += [tokens.index(part)] if part in marks else encode(part)
        result.append(ids)
    return result


def expectations(encode, tokens, kinds):
    plain = encode_marked(encode, tokens, kinds, {USER_DEFINED})
    marked = encode_marked(encode, tokens, kinds, {USER_DEFINED, CONTROL, UNKNOWN})
    return {"ids": plain, "marks": {str(at): ids for at, ids in enumerate(marked) if ids != plain[at]}}


def sentence_piece():
    """Two vocabularies: text gets a space before it; and it does not, and white space has tokens of its own."""
    expected = {}
    for name, prefix, defined in (
        ("sentence_piece", True, []),
        ("sentence_piece_bare", False, ["<start_of_turn>", "<end_of_turn>", "\n\n", "    ", "<b>"]),
    ):
        processor, tokens, kinds, scores = train_sentence_piece(add_dummy_prefix=prefix, user_defined_symbols=defined)
        for mark in ("<start_of_turn>", "<end_of_turn>"):
            if mark in tokens:
                kinds[tokens.index(mark)] = CONTROL
        flags = {"add_bos_token": True, "add_eos_token": False}
        if not prefix:
            flags["add_space_prefix"] = False
        write_gguf(os.path.join(HERE, "tokenizers", name + ".gguf"), "llama", None, tokens, kinds, scores=scores, flags=flags,
                   roles={"bos": 1, "eos": 2, "unknown": 0}, template=None)
        expected[name] = expectations(processor.encode, tokens, kinds)
    save("tokenizers/sentence_piece.json", expected)


def without_bytes():
    """The first vocabulary of SentencePiece with the characters of the texts in place of bytes."""
    fields = read_gguf("tokenizers/sentence_piece.gguf")
    entries = zip(*(fields[f"tokenizer.ggml.{key}"] for key in ("tokens", "token_type", "scores")))
    kept = [entry for entry in entries if entry[1] != BYTE]
    known = {text for text, *_ in kept}
    # No file has a token with the character of code 0 that all programs read.
    more = sorted({"▁" if character == " " else character for character in "".join(TEXTS)} - known - {"\0"})
    tokens, kinds, scores = zip(*kept, *((character, NORMAL, -1e4) for character in more))
    write_gguf(os.path.join(HERE, "tokenizers/sentence_piece_without_bytes.gguf"), "llama", None, tokens, kinds, scores=scores,
               flags={"add_bos_token": True, "add_eos_token": False}, roles={"bos": 1, "eos": 2, "unknown": 0},
               template=None)


def read_gguf(name):
    """The entries of one of the files."""
    return {key: field.contents() for key, field in gguf.GGUFReader(os.path.join(HERE, name)).fields.items()}


def word_piece():
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(lowercase=True)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(corpus(), vocab_size=1300, limit_alphabet=400, special_tokens=special,
                                  show_progress=False)
    vocabulary = tokenizer.get_vocab()
    hashed = sorted(vocabulary, key=vocabulary.get)
    kinds = [CONTROL if token in special else NORMAL for token in hashed]
    tokens = [token if token in special else token[2:] if token.startswith("##") else "▁" + token for token in hashed]
    write_gguf(os.path.join(HERE, "tokenizers/word_piece.gguf"), "bert", None, tokens, kinds,
               roles={"bos": 2, "eos": 3, "unknown": 1, "seperator": 3, "padding": 0, "mask": 4}, template=None)
    plain = BertWordPieceTokenizer(vocabulary, lowercase=True)._tokenizer
    save("tokenizers/word_piece.json", {"word_piece": expectations(
        # Marks are words like others here.
        lambda text: [plain.token_to_id(t) for word in words(text) for t in pieces(plain, word)], tokens, kinds)})


def words(text):
    """The preparation of text by the models' own tokenizer before it looks for tokens."""
    from tokenizers import normalizers, pre_tokenizers

    plain = normalizers.BertNormalizer(lowercase=True).normalize_str(text)
    return [word for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(plain)]


def pieces(tokenizer, word):
    return [token.value for token in tokenizer.model.tokenize(word)]


def save(name, value):
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    # A line for each list of tokens.
    text = re.sub(r'(\],|\{|":\[)(?=["\[])', r"\1\n", text)
    open(os.path.join(HERE, name), "w").write(text + "\n")


def main():
    byte_pair()
    byte_pair_across()
    sentence_piece()
    without_bytes()
    word_piece()


if __name__ == "__main__":
    main()
