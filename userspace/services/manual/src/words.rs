//! Words as they are compared: without their endings, and without those that every question has.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Words of a query that are looked for; further ones are not.
const MAX_WORDS: usize = 16;

/// Words that say nothing about what is asked, and the parts of contractions.
const COMMON: &[&str] = &[
    "a", "about", "all", "am", "an", "and", "any", "are", "aren", "as", "at", "be", "been", "but", "by", "can",
    "could", "couldn", "did", "didn", "do", "does", "doesn", "don", "explain", "for", "from", "get", "give", "had",
    "has", "have", "help", "how", "if", "in", "into", "is", "isn", "it", "its", "let", "like", "ll", "make", "many",
    "may", "me", "mean", "might", "much", "must", "my", "need", "of", "on", "or", "our", "please", "re", "shall",
    "should", "shouldn", "show", "so", "some", "tell", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "thing", "this", "to", "ve", "want", "was", "we", "were", "what", "when", "where", "which", "who",
    "why", "will", "with", "won", "would", "you", "your",
];

/// A word of a person, and the word of the manual for the same.
const SYNONYMS: &[(&str, &str)] = &[
    ("abort", "cancel"),
    ("account", "user"),
    ("allow", "consent"),
    ("chat", "conversation"),
    ("confirm", "consent"),
    ("copy", "import"),
    ("date", "clock"),
    ("delete", "remove"),
    ("directory", "folder"),
    ("down", "off"),
    ("drive", "disk"),
    ("encryption", "encrypted"),
    ("erase", "remove"),
    ("history", "conversation"),
    ("kill", "stop"),
    ("password", "passphrase"),
    ("permission", "consent"),
    ("poweroff", "off"),
    ("quit", "exit"),
    ("reboot", "restart"),
    ("shut", "turn"),
    ("shutdown", "off"),
    ("time", "clock"),
    ("undo", "change"),
    ("update", "upgrade"),
    ("usb", "stick"),
];

/// A word that is looked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    /// As it is compared.
    pub word: String,
    /// The manual's word for the same.
    pub same: Option<String>,
}

/// The words of a text in their order, as they are compared.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    parts(text).map(|part| stem(lower(part)))
}

/// Whether a query has only words that every question has.
pub fn only_common(query: &str) -> bool {
    parts(query).all(|part| is_common(&lower(part)))
}

fn is_common(word: &str) -> bool {
    COMMON.contains(&word) || word.chars().count() == 1 && word.is_ascii()
}

/// What a query asks for: its first different words. Common words and single letters are left out, unless there are no others.
pub fn asked(query: &str) -> Vec<Asked> {
    let only_common = only_common(query);
    let mut asked: Vec<Asked> = Vec::new();
    for part in parts(query) {
        let part = lower(part);
        let word = stem(part.clone());
        if is_common(&part) && !only_common || asked.iter().any(|known| known.word == word) {
            continue;
        }
        if asked.len() == MAX_WORDS {
            break;
        }
        let same = SYNONYMS.iter().find(|(theirs, _)| stem((*theirs).to_string()) == word);
        asked.push(Asked { word, same: same.map(|(_, ours)| stem((*ours).to_string())) });
    }
    asked
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|part| !part.is_empty())
}

fn lower(word: &str) -> String {
    word.chars().flat_map(char::to_lowercase).collect()
}

/// Endings, the first of which is cut off if as many letters are left.
const ENDINGS: &[(&str, usize)] =
    &[("ings", 3), ("ing", 3), ("ies", 2), ("ied", 2), ("ed", 3), ("es", 3), ("ys", 2), ("s", 2), ("e", 3), ("y", 2)];

/// A word in small letters without its ending: `saving` and `saved` become `sav`.
fn stem(mut word: String) -> String {
    // `process`, `status`, `analysis`, `speed`: these letters are no ending.
    if ["ss", "us", "is", "eed"].iter().any(|whole| word.ends_with(whole)) {
        return word;
    }
    let rest = |(ending, least): &(&str, usize)| {
        word.strip_suffix(ending).filter(|rest| rest.chars().count() >= *least).map(str::len)
    };
    let length = ENDINGS.iter().find_map(rest).unwrap_or(word.len());
    let is_form = word.get(length..).is_some_and(|ending| ending.starts_with("ing"));
    word.truncate(length);
    // `copying` and `copy`.
    if is_form && word.ends_with('y') {
        word.pop();
    }
    // `stopped` and `stop`.
    let mut last = word.chars().rev();
    if let (Some(first), Some(second)) = (last.next(), last.next())
        && first == second
        && !matches!(first, 'l' | 's' | 'e' | '0'..='9')
        && word.chars().count() > 3
    {
        word.pop();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_are_one() {
        for forms in [
            &["save", "saves", "saved", "saving"][..],
            &["stop", "stops", "stopped", "stopping"],
            &["policy", "policies"],
            &["copy", "copies", "copied", "copying"],
            &["verify", "verified", "verifying"],
            &["passphrase", "Passphrases", "PASSPHRASE"],
            &["install", "installed", "installing"],
            &["speed", "speeds"],
            &["key", "keys"],
            &["é"],
        ] {
            let stems: Vec<String> = forms.iter().flat_map(|form| words(form)).collect();
            assert!(stems.windows(2).all(|pair| pair[0] == pair[1]), "{stems:?}");
            assert!(!stems[0].is_empty());
        }
        assert_ne!(stem("disk".into()), stem("disc".into()));
        assert_eq!(stem("access".into()), "access");
    }

    #[test]
    fn a_query_is_its_telling_words() {
        let plain = |query: &str| asked(query).into_iter().map(|asked| asked.word).collect::<Vec<_>>();
        assert_eq!(plain("How do I make a backup?"), ["backup"]);
        assert_eq!(plain("can't, isn't, what's: don't log in"), ["log"]);
        assert_eq!(plain("who am I"), ["who", "am", "i"], "nothing else is asked");
        assert_eq!(plain("backup Backups"), ["backup"]);
        assert_eq!(asked("password"), [Asked { word: "password".into(), same: Some("passphras".into()) }]);
        assert_eq!(plain(" ?! "), [""; 0]);
        let long: Vec<String> = (0..100).map(|number| format!("word{number}")).collect();
        assert_eq!(plain(&long.join(" ")).len(), MAX_WORDS);
    }
}
