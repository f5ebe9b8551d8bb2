//! Which messages of a conversation a model is not sent if not all of them fit.
//!
//! A conversation is shortened in [`Steps`]: first its oldest turns, then the oldest calls of the present turn with their
//! results. These stay in any case: the system's messages, what the person said last, and the latest calls with their
//! results. So a long chain of calls does not end its turn, and the model always sees what it was asked. A [`marker`] stands
//! in place of what was left out.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// The system: its instructions.
    System,
    /// The person.
    Person,
    /// The model: its text and its calls.
    Model,
    /// The runner, which tells the model in the middle of a turn that it is not done.
    Reminder,
    /// A tool: the result of a call.
    Tool,
}

/// The text in place of this many messages.
#[must_use]
pub fn marker(count: usize) -> String {
    format!("[Earlier conversation truncated — {count} messages removed]")
}

/// A message's text behind the marker of what was left out before it.
#[must_use]
pub fn marked(count: usize, text: &str) -> String {
    match text {
        "" => marker(count),
        text => format!("{}\n\n{text}", marker(count)),
    }
}

/// What can be left out of a conversation, one part after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    speakers: Vec<Speaker>,
    /// Neighbouring parts, oldest first.
    parts: Vec<Range<usize>>,
    /// Bytes of all parts up to each one.
    sums: Vec<usize>,
}

/// A message that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its place in the conversation.
    pub place: usize,
    /// How many messages were left out before it, which its text is to say. 0 where none were.
    pub removed: usize,
}

impl Steps {
    /// The steps for these messages, oldest first, each with its length in bytes.
    pub fn of(messages: impl IntoIterator<Item = (Speaker, usize)>) -> Self {
        let (speakers, lengths): (Vec<Speaker>, Vec<usize>) = messages.into_iter().unzip();
        let places = |wanted: Speaker| {
            let found = speakers.iter().enumerate().filter(move |(_, speaker)| **speaker == wanted);
            found.map(|(place, _)| place)
        };
        let asked: Vec<usize> = places(Speaker::Person).collect();
        let latest = asked.last().copied();
        let mut starts: Vec<usize> = Vec::new();
        // What comes before the first turn belongs to it.
        starts.extend(latest.map(|_| 0));
        starts.extend(asked.iter().copied().skip(1));
        let mut parts: Vec<Range<usize>> =
            starts.iter().zip(starts.iter().skip(1)).map(|(start, end)| *start..*end).collect();
        let calls: Vec<usize> = places(Speaker::Model).filter(|place| Some(*place) > latest).collect();
        parts.extend(calls.iter().zip(calls.iter().skip(1)).map(|(start, end)| *start..*end));
        let length = |part: &Range<usize>| lengths.get(part.clone()).unwrap_or_default().iter().sum::<usize>();
        let sums = parts.iter().scan(0_usize, |sum, part| {
            *sum = sum.saturating_add(length(part));
            Some(*sum)
        });
        let sums = sums.collect();
        Self { speakers, parts, sums }
    }

    /// How many steps there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// The fewest steps after which `fits` is true, if it is after all of them. `fits` has to stay true once it is.
    ///
    /// More is left out than has to be: so much that its bytes reach the next multiple of `piece`. What is left out then stays
    /// the same while a piece more is said, so that a model that has read the rest need not read it again.
    ///
    /// # Errors
    /// The first error of `fits`.
    pub fn fitting<E>(&self, piece: usize, mut fits: impl FnMut(usize) -> Result<bool, E>) -> Result<Option<usize>, E> {
        if fits(0)? {
            return Ok(Some(0));
        }
        if self.count() == 0 || !fits(self.count())? {
            return Ok(None);
        }
        let (mut too_few, mut enough) = (0, self.count());
        while enough.saturating_sub(too_few) > 1 {
            let middle = too_few.midpoint(enough);
            if fits(middle)? { enough = middle } else { too_few = middle }
        }
        let bytes = self.sums.get(enough.saturating_sub(1)).copied().unwrap_or(0);
        let target = bytes.checked_next_multiple_of(piece.max(1)).unwrap_or(usize::MAX);
        let rounded = self.sums.iter().position(|sum| *sum >= target).map(|place| place.saturating_add(1));
        Ok(Some(rounded.unwrap_or(enough).max(enough)))
    }

    /// The messages that are sent after this many steps, of the same ones as the steps. `text` is where a message takes its marker.
    pub fn shorten<M>(
        &self,
        messages: impl IntoIterator<Item = M>,
        steps: usize,
        text: impl Fn(&mut M) -> &mut String,
    ) -> Vec<M> {
        let mut kept = self.kept(steps).peekable();
        let messages = messages.into_iter().enumerate().filter_map(|(place, mut message)| {
            let Kept { removed, .. } = kept.next_if(|kept| kept.place == place)?;
            if removed > 0 {
                let text = text(&mut message);
                *text = marked(removed, text);
            }
            Some(message)
        });
        messages.collect()
    }

    /// Which messages are sent after this many steps.
    pub fn kept(&self, steps: usize) -> impl Iterator<Item = Kept> + '_ {
        let mut removed = 0_usize;
        // Turns follow each other, and so do the calls of the last one: what goes is at most two ranges.
        let mut gone: Vec<Range<usize>> = Vec::new();
        for part in self.parts.iter().take(steps) {
            match gone.last_mut() {
                Some(last) if last.end == part.start => last.end = part.end,
                _ => gone.push(part.clone()),
            }
        }
        self.speakers.iter().enumerate().filter_map(move |(place, speaker)| {
            let goes = gone.iter().any(|range| range.contains(&place));
            match speaker {
                Speaker::System => Some(Kept { place, removed: 0 }),
                _ if goes => {
                    removed = removed.saturating_add(1);
                    None
                }
                Speaker::Person | Speaker::Model | Speaker::Reminder => {
                    Some(Kept { place, removed: core::mem::take(&mut removed) })
                }
                Speaker::Tool => Some(Kept { place, removed: 0 }),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Speaker::{Model, Person, Reminder, System, Tool};
    use core::convert::Infallible;
    use proptest::prelude::*;

    fn steps(speakers: &[Speaker]) -> Steps {
        Steps::of(speakers.iter().map(|speaker| (*speaker, 10)))
    }

    /// What is sent, as the places and the markers before them.
    fn sent(steps: &Steps, count: usize) -> Vec<(usize, usize)> {
        steps.kept(count).map(|kept| (kept.place, kept.removed)).collect()
    }

    /// Requirement F05.
    #[test]
    fn f05_the_marker_tells_how_many_messages_were_removed() {
        assert_eq!(marker(3), "[Earlier conversation truncated — 3 messages removed]");
        assert_eq!(marked(3, ""), marker(3));
        assert_eq!(marked(3, "Go on."), "[Earlier conversation truncated — 3 messages removed]\n\nGo on.");
    }

    #[test]
    fn the_oldest_turns_go_first_and_then_the_calls_of_the_last() {
        let found = steps(&[System, Model, Person, Model, Tool, Person, Model, Tool, Tool, Model, Tool, Model]);
        assert_eq!(found.count(), 3);
        assert_eq!(sent(&found, 0).len(), 12);
        assert_eq!(sent(&found, 1)[..3], [(0, 0), (5, 4), (6, 0)]);
        // Two places where something is missing have two markers.
        assert_eq!(sent(&found, 2), [(0, 0), (5, 4), (9, 3), (10, 0), (11, 0)]);
        assert_eq!(sent(&found, 3), [(0, 0), (5, 4), (11, 5)]);
        assert_eq!(sent(&found, 99), sent(&found, 3));
        // Nothing can go of these.
        for whole in [&[][..], &[System], &[Person], &[System, Person, Model, Tool, Tool], &[Tool, Model]] {
            assert_eq!(steps(whole).count(), 0, "{whole:?}");
        }
    }

    /// Requirement F06: what the runner says in the middle of a turn does not take the place of what the person said.
    #[test]
    fn f06_a_reminder_does_not_push_out_the_request() {
        let found = steps(&[Person, Model, Person, Model, Tool, Model, Reminder, Model, Tool]);
        assert_eq!(found.count(), 3);
        assert_eq!(sent(&found, 1)[..2], [(2, 2), (3, 0)]);
        assert_eq!(sent(&found, 3), [(2, 2), (7, 4), (8, 0)]);
    }

    /// Requirement F05: the text of a message behind what was left out begins with the marker, and no other one does.
    #[test]
    fn f05_messages_are_shortened_to_those_that_are_sent() {
        let found = steps(&[System, Person, Model, Person, Model, Tool, Model]);
        let texts = || (0..7).map(|place| alloc::format!("m{place}"));
        let shortened = |count: usize| found.shorten(texts(), count, |text| text);
        assert_eq!(shortened(0), texts().collect::<Vec<_>>());
        let expected = [String::from("m0"), marked(2, "m3"), "m4".into(), "m5".into(), "m6".into()];
        assert_eq!(shortened(1), expected);
        assert_eq!(shortened(2), [String::from("m0"), marked(2, "m3"), marked(2, "m6")]);
    }

    #[test]
    fn as_little_as_possible_is_left_out_up_to_the_next_piece() {
        let conversation: Vec<Speaker> = [System].into_iter().chain([Person, Model].repeat(10)).collect();
        let found = steps(&conversation);
        let fitting = |piece: usize, enough: usize| {
            found.fitting(piece, |steps| Ok::<bool, Infallible>(steps >= enough)).unwrap()
        };
        assert_eq!([fitting(1, 0), fitting(1, 1), fitting(1, 5)], [Some(0), Some(1), Some(5)]);
        // A step has 20 bytes, the first one 30.
        assert_eq!([fitting(60, 0), fitting(60, 1), fitting(60, 3), fitting(60, 4)], [0, 3, 6, 6].map(Some));
        // More than there is cannot be left out, so it is what has to be.
        assert_eq!([fitting(10_000, 4), fitting(0, 4), fitting(1, 99)], [Some(4), Some(4), None]);
        assert_eq!(found.fitting(1, |_| Err("no")), Err("no"));
    }

    fn speaker() -> impl Strategy<Value = Speaker> {
        prop::sample::select(&[System, Person, Model, Reminder, Tool, Tool][..])
    }

    proptest! {
        /// Requirement F06: whatever is left out, the system's messages, the last words of the person and the last calls stay,
        /// with all of their results; and the markers count what is missing.
        #[test]
        fn f06_what_a_model_needs_is_never_cut(speakers in prop::collection::vec(speaker(), 0..24), count in 0_usize..26) {
            let found = steps(&speakers);
            let sent: Vec<Kept> = found.kept(count).collect();
            let has = |place: usize| sent.iter().any(|kept| kept.place == place);
            let last = |wanted: Speaker| speakers.iter().rposition(|speaker| *speaker == wanted);
            for (place, speaker) in speakers.iter().enumerate() {
                let needed = *speaker == System
                    || Some(place) == last(Person)
                    || (Some(place) >= last(Model) && last(Model) > last(Person));
                prop_assert!(!needed || has(place), "{} {:?}", place, speakers);
                // A result that is sent stands behind its call.
                if *speaker == Tool && has(place)
                    && let Some(before) = speakers[..place].iter().rposition(|speaker| matches!(speaker, Model | Person | Reminder))
                {
                    prop_assert!(has(before), "{} {:?}", place, speakers);
                }
            }
            let missing = speakers.len() - sent.len();
            prop_assert_eq!(sent.iter().map(|kept| kept.removed).sum::<usize>(), missing);
            prop_assert!(sent.is_sorted_by_key(|kept| kept.place));
            prop_assert!(found.kept(count + 1).count() <= sent.len());
        }

        /// A conversation that grows is cut at few places: its beginning stays the same while a piece more is said.
        #[test]
        fn what_is_left_out_seldom_changes(lengths in prop::collection::vec(1_usize..40, 1..200)) {
            let (room, piece) = (400, 100);
            let mut cuts = 0;
            let mut before = 0;
            let mut said = 0;
            for end in 1..=lengths.len() {
                let messages = lengths[..end].iter().flat_map(|length| [(Person, *length), (Model, *length)]);
                let found = Steps::of(messages.clone());
                let total = 2 * lengths[..end].iter().sum::<usize>();
                let left = |steps: usize| total - steps.checked_sub(1).map_or(0, |last| found.sums[last]);
                let steps = found.fitting(piece, |steps| Ok::<bool, Infallible>(left(steps) <= room)).unwrap().unwrap();
                prop_assert!(left(steps) <= room && left(steps) + 2 * piece + 160 > room.min(total));
                cuts += usize::from(steps != before);
                before = steps;
                said = total;
            }
            // A part that goes beyond a piece may bring the next cut early.
            prop_assert!(cuts <= 2 * said / piece + 1, "{} cuts for {} bytes", cuts, said);
        }
    }
}
