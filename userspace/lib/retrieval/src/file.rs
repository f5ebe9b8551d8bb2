//! A handbook as a GGUF file.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use capos_gguf::{Header, Writer, WriterValue};

use crate::handbook::{Entry, Handbook};
use crate::parse::{answer, answer_text};

/// `general.architecture` of such a file.
pub const ARCHITECTURE: &str = "retrieval";
/// Texts: for each entry its questions, one a line.
const QUESTIONS: &str = "retrieval.questions";
/// Texts: for each entry its answer, in the handbook's notation.
const ANSWERS: &str = "retrieval.answers";
/// Tokens of a conversation: as many as a request of the worker can hold, since no more than its last messages are
/// looked at.
const CONTEXT: u32 = 65_536;

/// A file's facts besides its entries.
#[derive(Clone, Copy, Debug)]
pub struct Title<'a> {
    /// `general.name`.
    pub name: &'a str,
    /// `general.license`; empty if none is given.
    pub license: &'a str,
}

/// Why a file holds no handbook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError(String);

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the file holds no handbook: {}", self.0)
    }
}

impl core::error::Error for FileError {}

impl Handbook {
    /// The whole file.
    #[must_use]
    pub fn to_file(&self, title: Title<'_>) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.text("general.architecture", ARCHITECTURE);
        writer.text("general.name", title.name);
        if !title.license.is_empty() {
            writer.text("general.license", title.license);
        }
        writer.entry("retrieval.context_length", WriterValue::U32(CONTEXT));
        let texts = |text: fn(&Entry) -> String| WriterValue::Texts(self.entries.iter().map(text).collect());
        writer.entry(QUESTIONS, texts(|entry| entry.questions.join("\n")));
        writer.entry(ANSWERS, texts(answer_text));
        writer.header()
    }

    /// The handbook of a file.
    ///
    /// # Errors
    /// What it lacks.
    pub fn from_file(header: &Header<'_>) -> Result<Self, FileError> {
        let texts = |key: &str| {
            let missing = || FileError(alloc::format!("it has no texts {key}"));
            let array = header.get(key).and_then(|value| value.as_array()).ok_or_else(missing)?;
            let all: Option<Vec<&str>> = array.iter().map(|value| value.as_text()).collect();
            all.ok_or_else(missing)
        };
        let (questions, answers) = (texts(QUESTIONS)?, texts(ANSWERS)?);
        if questions.is_empty() || questions.len() != answers.len() {
            let (asked, answered) = (questions.len(), answers.len());
            return Err(FileError(alloc::format!("it has {asked} questions and {answered} answers")));
        }
        let mut entries = Vec::with_capacity(questions.len());
        for (question, text) in questions.into_iter().zip(answers) {
            let lines: Vec<&str> = text.split('\n').collect();
            let (text, calls) = answer(&lines).map_err(FileError)?;
            entries.push(Entry { questions: question.split('\n').map(ToString::to_string).collect(), text, calls });
        }
        Ok(Self::new(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_gguf::Synthetic;

    const TITLE: Title<'_> = Title { name: "help desk", license: "CC0-1.0" };

    #[test]
    fn a_handbook_comes_back_from_its_file() {
        let book = Handbook::parse("? a b\n? c\nText\nof two lines.\ncall t {\"x\": [1]}\n? d\nmore\n").unwrap();
        let file = book.to_file(TITLE);
        let header = Header::parse(&file, file.len() as u64).unwrap();
        let facts = header.facts();
        assert_eq!((facts.architecture, facts.name, facts.license), (ARCHITECTURE, Some("help desk"), Some("CC0-1.0")));
        assert_eq!(facts.context_length, CONTEXT);
        assert_eq!(Handbook::from_file(&header).unwrap(), book);
    }

    #[test]
    fn other_files_hold_none() {
        let file = Synthetic::new(256 << 10, 1).unwrap().to_vec();
        let header = Header::parse(&file, file.len() as u64).unwrap();
        assert!(Handbook::from_file(&header).unwrap_err().to_string().contains(QUESTIONS));
        let broken = |questions: &[&str], answers: &[&str]| {
            let texts = |list: &[&str]| WriterValue::Texts(list.iter().map(ToString::to_string).collect());
            let mut writer = Writer::new();
            writer.text("general.architecture", ARCHITECTURE);
            writer.entry(QUESTIONS, texts(questions));
            writer.entry(ANSWERS, texts(answers));
            let file = writer.header();
            Handbook::from_file(&Header::parse(&file, file.len() as u64).unwrap()).unwrap_err().to_string()
        };
        assert!(broken(&["a"], &["b", "c"]).contains("1 questions and 2 answers"));
        assert!(broken(&[], &[]).contains("0 questions"));
        assert!(broken(&["a"], &["call t {"]).contains("not JSON"));
    }
}
