//! How the families of byte-level vocabularies split text into words before they merge bytes. A file names its family in
//! `tokenizer.ggml.pre`; the patterns are those that the families' own tokenizers publish.

/// A step of the splitting. Steps are taken one after another, each within the pieces that the one before left.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Each match becomes a piece of its own, and so does the text between matches.
    Isolate(&'static str),
    /// Each match becomes a piece. White space between matches becomes a piece, except its last character before other
    /// text: that stays with the text. Patterns write this as `\s+(?!\S)|\s+`.
    Words(&'static str),
    /// White space at the end becomes a piece.
    Trailing,
}

/// The particulars of a family.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The names that files use.
    pub names: &'static [&'static str],
    /// How text is split.
    pub steps: &'static [Step],
    /// Whether a word that is itself a token is encoded as that token, whatever the merges would make of it.
    pub whole_words: bool,
    /// Whether text begins with the begin token if the file does not say.
    pub add_begin: bool,
}

use Step::{Isolate, Trailing, Words};

/// The family of a name.
pub fn find(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.names.contains(&name))
}

/// The families' names for a message.
pub const KNOWN: &str = "llama-bpe, qwen2, gpt-2, smollm, deepseek-llm, deepseek-coder, deepseek-v3, gpt-4o, tekken, \
    stablelm2, falcon, starcoder, command-r, olmo, dbrx and others of their kind";

/// Words, numbers and the rest, each with the space before it; endings of English words apart.
const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+";

/// Words with one character before them, numbers of up to three digits, the rest with its line ends.
const LLAMA_3: &str = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+";

/// As [`LLAMA_3`], with single digits.
const QWEN_2: &str = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+";

/// As [`QWEN_2`], marks of letters with the letters.
const QWEN_3_5: &str = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+";

/// Words are split between small and capital letters; endings of English words with the words.
const GPT_4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]*[\p{L}--[A-Z]]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]+[\p{L}--[A-Z]]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+";

/// As [`GPT_4O`], with single digits and without the endings.
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]*[\p{L}--[A-Z]]+|[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]+[\p{L}--[A-Z]]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+";

/// Words with one character before them, ASCII words with the punctuation before them, symbols with their line ends.
const DEEPSEEK_3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+"##;

/// Letters that have a case, as one family lists them.
const DEEPSEEK_LETTERS: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";

const BAILING: &str =
    r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]";

const SEED_CODER: &str = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+";

const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";

const fn family(names: &'static [&'static str], steps: &'static [Step]) -> Family {
    Family { names, steps, whole_words: false, add_begin: false }
}

/// All families, the first one for files that name none.
pub const FAMILIES: &[Family] = &[
    family(&["default"], &[Isolate(r"[\p{P}$+<=>^~|]+"), Words(GPT_2), Isolate(r"\p{N}+"), Isolate("[0-9][0-9][0-9]")]),
    Family {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        steps: &[Words(LLAMA_3)],
        whole_words: true,
        add_begin: true,
    },
    family(&["dbrx", "smaug-bpe", "chatglm-bpe"], &[Words(LLAMA_3)]),
    Family { names: &["glm4"], steps: &[Words(LLAMA_3)], whole_words: true, add_begin: false },
    family(
        &["qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "kormo", "grok-2", "solar-open"],
        &[Words(QWEN_2)],
    ),
    family(&["qwen35"], &[Words(QWEN_3_5)]),
    family(
        &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "exaone4",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "trillion",
            "granite-docling",
        ],
        &[Words(GPT_2)],
    ),
    family(
        &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"],
        &[Isolate(r"\p{N}"), Words(GPT_2)],
    ),
    family(&["falcon"], &[Isolate(r"[\p{P}$+<=>^~|`]+"), Words(GPT_2), Isolate("[0-9][0-9][0-9]")]),
    Family { names: &["tekken"], steps: &[Words(TEKKEN)], whole_words: true, add_begin: true },
    family(&["gpt-4o", "llama4", "kanana2", "minimax-m2"], &[Words(GPT_4O)]),
    family(
        &["deepseek-v3", "hunyuan-dense", "joyai-llm"],
        &[Isolate(r"\p{N}{1,3}"), Isolate(r"[一-龥\x{3040}-ゟ゠-ヿ]+"), Words(DEEPSEEK_3)],
    ),
    family(
        &["deepseek-llm"],
        &[
            Isolate(r"[\r\n]"),
            Isolate(DEEPSEEK_LETTERS),
            Isolate(r"\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+"),
            Trailing,
            Isolate(r"[一-龥ࠀ-一가-\x{d7ff}]+"),
            Isolate(r"\p{N}+"),
        ],
    ),
    family(
        &["deepseek-coder"],
        &[
            Isolate(r"[\r\n]"),
            Isolate(r"\s?\p{L}+"),
            Isolate(r"\s?\p{P}+"),
            Isolate(r"[一-龥ࠀ-一가-\x{d7ff}]+"),
            Isolate(r"\p{N}"),
        ],
    ),
    family(&["bailingmoe", "bailingmoe2", "llada-moe"], &[Words(BAILING)]),
    family(&["seed-coder"], &[Words(SEED_CODER)]),
    family(&["bloom", "poro-chat", "gpt3-finnish"], &[Isolate(BLOOM)]),
    family(&["viking"], &[Isolate(BLOOM), Isolate(r"\p{N}")]),
];

#[cfg(test)]
mod tests {
    use super::FAMILIES;

    #[test]
    fn each_name_is_compared_with_llama_cpp() {
        let answers = include_str!("../../../../tests/infer/llama_cpp_tokens.json");
        for name in FAMILIES.iter().flat_map(|family| family.names) {
            assert!(answers.contains(&std::format!("\"{name}\"")), "{name}");
        }
    }
}
