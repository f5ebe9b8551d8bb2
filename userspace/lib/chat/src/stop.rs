//! Texts that end an answer where they appear in it, however it is cut into pieces.

use std::ops::Range;

/// Looks for stop sequences in text that comes in pieces. Marks between them are looked at as their texts, and not given.
#[derive(Clone, Debug, Default)]
pub struct Stops {
    sequences: Vec<String>,
    /// What could begin one.
    held: String,
    /// Where marks lie in that.
    marks: Vec<Range<usize>>,
    stopped: bool,
}

impl Stops {
    /// Looks for these; empty ones stop nothing.
    pub fn new(sequences: &[String]) -> Self {
        let sequences = sequences.iter().filter(|sequence| !sequence.is_empty()).cloned().collect();
        Self { sequences, ..Self::default() }
    }

    /// Whether one was found. There is no more text from then on.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// Takes text, and gives what certainly comes before the stop sequence that is whole first.
    pub fn push(&mut self, text: &str) -> String {
        if self.stopped {
            return String::new();
        }
        let mut text = std::mem::take(&mut self.held) + text;
        // The one that is whole first, for text behind it may not have come yet; of several that end there the longest.
        let found = self.sequences.iter().filter_map(|sequence| {
            let at = text.find(sequence.as_str())?;
            Some((at.saturating_add(sequence.len()), at))
        });
        if let Some((_, at)) = found.min() {
            self.stopped = true;
            text.truncate(at);
            return self.without_marks(&text);
        }
        let held = self.sequences.iter().map(|sequence| held_back(&text, sequence)).max().unwrap_or(0);
        self.held = text.split_off(text.len().saturating_sub(held));
        self.without_marks(&text)
    }

    /// Takes a mark that lies in the text; gives what certainly comes before a stop sequence.
    pub fn push_mark(&mut self, mark: &str) -> String {
        let start = self.held.len();
        self.marks.push(start..start.saturating_add(mark.len()));
        self.push(mark)
    }

    /// What was held back, where no more text follows.
    pub fn take(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        self.without_marks(&held)
    }

    /// The text that is looked at no more, without its marks; what is held back follows it.
    fn without_marks(&mut self, text: &str) -> String {
        let (mut given, mut at) = (String::with_capacity(text.len()), 0);
        for mark in &self.marks {
            given.push_str(text.get(at..mark.start.min(text.len())).unwrap_or(""));
            at = mark.end;
        }
        given.push_str(text.get(at..).unwrap_or(""));
        let behind = |at: usize| at.saturating_sub(text.len());
        let left = self.marks.drain(..).map(|mark| behind(mark.start)..behind(mark.end));
        self.marks = left.filter(|mark| !mark.is_empty()).collect();
        given
    }
}

/// How many bytes at the end of `text` could begin `mark`.
pub fn held_back(text: &str, mark: &str) -> usize {
    let starts = mark.char_indices().map(|(at, _)| at).rev();
    starts.filter(|at| mark.get(..*at).is_some_and(|start| text.ends_with(start))).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(sequences: &[&str], pieces: &[&str]) -> (String, bool) {
        let sequences: Vec<String> = sequences.iter().map(ToString::to_string).collect();
        let mut stops = Stops::new(&sequences);
        let mut text: String = pieces.iter().map(|piece| stops.push(piece)).collect();
        text.push_str(&stops.take());
        (text, stops.stopped())
    }

    #[test]
    fn text_ends_before_the_first_stop_sequence() {
        assert_eq!(read(&["\n\n", "END"], &["a\n", "b EN", "D c\n\nd"]), ("a\nb ".into(), true));
        assert_eq!(read(&["aab"], &["a", "a", "a", "b", "c"]), ("a".into(), true));
        assert_eq!(read(&["END", ""], &["an E", "N"]), ("an EN".into(), false));
        assert_eq!(read(&[], &["a", "b"]), ("ab".into(), false));
        // One that is whole before another that began earlier.
        assert_eq!(read(&["bab", "a"], &["baba"]), ("b".into(), true));
        assert_eq!(read(&["ab", "b"], &["xab"]), ("x".into(), true));
    }

    #[test]
    fn only_what_could_begin_one_is_held_back() {
        let mut stops = Stops::new(&["ü.ü".into()]);
        assert_eq!([stops.push("aü"), stops.push("."), stops.push("b")], ["a", "", "ü.b"]);
        assert_eq!((stops.take(), stops.stopped()), (String::new(), false));
    }

    /// A mark is found as its text is, alone and with text around it, and is never given.
    #[test]
    fn marks_are_looked_at_and_not_given() {
        for (sequences, text, stopped) in [
            (&["<|user|>"][..], "One.", true),
            (&[".<|user|>\n"], "One", true),
            (&["user"], "One.", true),
            (&["<|user|>\nx"], "One.\nTwo", false),
            (&["\nTwo!"], "One.\nTwo", false),
            (&[], "One.\nTwo", false),
        ] {
            let sequences: Vec<String> = sequences.iter().map(ToString::to_string).collect();
            let mut stops = Stops::new(&sequences);
            let mut given = stops.push("On") + &stops.push("e.");
            given += &(stops.push_mark("<|user|>") + &stops.push("\n") + &stops.push("Two"));
            given += &stops.take();
            assert_eq!((given.as_str(), stops.stopped()), (text, stopped), "{sequences:?}");
        }
    }

    proptest! {
        #[test]
        fn the_way_it_is_cut_makes_no_difference(
            text in "[abü]{0,24}",
            sequences in prop::collection::vec("[abü]{0,4}", 0..3),
        ) {
            let sequences: Vec<&str> = sequences.iter().map(String::as_str).collect();
            let characters: Vec<String> = text.chars().map(String::from).collect();
            let pieces: Vec<&str> = characters.iter().map(String::as_str).collect();
            let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            let end = ends.find_map(|end| {
                let sequences = sequences.iter().filter(|sequence| !sequence.is_empty());
                sequences.filter_map(|sequence| text[..end].strip_suffix(*sequence)).map(str::len).min()
            });
            let expected = (text[..end.unwrap_or(text.len())].to_string(), end.is_some());
            prop_assert_eq!(read(&sequences, &[&text]), expected.clone());
            prop_assert_eq!(read(&sequences, &pieces), expected);
        }
    }
}
