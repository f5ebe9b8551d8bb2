//! A call that the model is writing, as the person sees it come.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::escape::{escape, shorten};
use crate::render::WIDTH;

/// The widget of one call. Names and arguments are escaped, and no more is shown of them than of a call that is
/// proposed.
#[derive(Debug, Default)]
pub struct Widget {
    index: Option<u32>,
    name: String,
    /// The part of the arguments that has arrived and is shown.
    arguments: String,
    /// A line of it is on the screen: the call came in more than one piece. One that comes whole is shown when it is
    /// proposed.
    begun: bool,
    /// Something of it is not on the screen.
    cut: bool,
    /// Calls of the same answer that came before it and are on the screen whole: names and arguments.
    shown: Vec<(String, String)>,
}

impl Widget {
    /// Takes a piece of a call: whether a line begins with it, and what to show.
    pub fn push(&mut self, index: u32, name: &str, arguments: &str) -> (bool, String) {
        if self.index != Some(index) {
            let mut shown = core::mem::take(&mut self.shown);
            if self.begun && !self.cut {
                shown.push((core::mem::take(&mut self.name), core::mem::take(&mut self.arguments)));
            }
            *self = Self { index: Some(index), name: name.into(), shown, ..Self::default() };
            self.add(arguments);
            return (false, String::new());
        }
        if self.begun {
            self.cut |= !name.is_empty();
            return (false, self.add(arguments));
        }
        self.name.push_str(name);
        // What has lost its name to another call in between is told by what is proposed.
        if self.name.is_empty() {
            self.add(arguments);
            return (false, String::new());
        }
        self.begun = true;
        self.cut |= escape(&self.name).chars().count() > WIDTH;
        self.add(arguments);
        (true, format!("▸ {} {}", shorten(&escape(&self.name), WIDTH), escape(&self.arguments)))
    }

    /// Whether just this call is on the screen. It is proposed once: another of the same words is to be on the screen once
    /// more.
    pub fn take(&mut self, name: &str, arguments: &str) -> bool {
        if let Some(at) = self.shown.iter().position(|shown| shown.0 == name && shown.1 == arguments) {
            self.shown.remove(at);
            return true;
        }
        let shows = self.begun && !self.cut && self.name == name && self.arguments == arguments;
        self.begun &= !shows;
        shows
    }

    /// Adds to the arguments what there is room for, and returns it in the form that is shown.
    fn add(&mut self, arguments: &str) -> String {
        let mut room = WIDTH.saturating_sub(escape(&self.arguments).chars().count());
        let mut shown = String::new();
        for letter in arguments.chars() {
            let escaped = escape(letter.encode_utf8(&mut [0; 4]));
            room = match room.checked_sub(escaped.chars().count()) {
                Some(left) if !self.cut => left,
                _ => {
                    if !self.cut {
                        shown.push('…');
                    }
                    self.cut = true;
                    break;
                }
            };
            self.arguments.push(letter);
            shown.push_str(&escaped);
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is on the screen after these pieces of one call.
    fn shown(pieces: &[(&str, &str)]) -> (Widget, String) {
        let (mut widget, mut screen) = (Widget::default(), String::new());
        for (name, arguments) in pieces {
            let (new, text) = widget.push(0, name, arguments);
            assert_eq!(new, screen.is_empty() && !text.is_empty());
            screen.push_str(&text);
        }
        (widget, screen)
    }

    #[test]
    fn c10_a_call_is_shown_as_it_comes() {
        let (mut widget, screen) = shown(&[("read_", ""), ("file", "{\"path\""), ("", ":\"a\u{1b}"), ("", "\"}")]);
        assert_eq!(screen, "▸ read_file {\"path\":\"a\\u{1b}\"}");
        assert!(!widget.take("read_file", "{}") && !widget.take("read", "{\"path\":\"a\u{1b}\"}"));
        assert!(widget.take("read_file", "{\"path\":\"a\u{1b}\"}"));
        assert!(!widget.take("read_file", "{\"path\":\"a\u{1b}\"}"), "it was there once");
    }

    #[test]
    fn a_call_that_comes_whole_waits_until_it_is_proposed() {
        let (mut widget, screen) = shown(&[("read_file", "{}")]);
        assert_eq!(screen, "");
        assert!(!widget.take("read_file", "{}"));
    }

    #[test]
    fn a_call_shows_no_more_than_one_that_is_proposed() {
        let long = "x".repeat(WIDTH - 1);
        let (mut widget, screen) = shown(&[("a", ""), ("", &long), ("", "\n"), ("", "yz")]);
        assert_eq!(screen, format!("▸ a {long}…"));
        assert!(!widget.take("a", &format!("{long}\nyz")), "it is not all there");
        let (mut widget, screen) = shown(&[("a", ""), ("", "{}"), ("b", "")]);
        assert_eq!(screen, "▸ a {}");
        assert!(!widget.take("ab", "{}"), "the name is not all there");
    }

    #[test]
    fn the_pieces_of_two_calls_stay_apart() {
        let mut widget = Widget::default();
        assert_eq!(widget.push(0, "a", ""), (false, String::new()));
        assert_eq!(widget.push(1, "b", "1"), (false, String::new()));
        assert_eq!(widget.push(1, "", "2"), (true, "▸ b 12".into()));
        for _ in 0..2 {
            assert_eq!(widget.push(0, "", "3"), (false, String::new()), "its name came before the other call");
        }
        assert!(widget.take("b", "12"));
        assert!(!widget.take("a", "33"));
    }

    /// Several calls of one answer are proposed when it is whole, long after each came.
    #[test]
    fn c10_no_call_of_an_answer_is_shown_twice() {
        let mut widget = Widget::default();
        let long = "x".repeat(WIDTH);
        for (index, name, arguments) in [(0, "a", "1"), (1, "b", "2"), (2, "a", "1"), (3, "c", long.as_str())] {
            widget.push(index, name, "");
            assert!(widget.push(index, "", arguments).0);
            widget.push(index, "", "!");
        }
        assert!(widget.take("a", "1!") && widget.take("b", "2!") && widget.take("a", "1!"));
        assert!(!widget.take("a", "1!"), "it came twice");
        assert!(!widget.take("c", &format!("{long}!")), "it is not all there");
    }
}
