//! Which pages of one paged object are in.

use alloc::boxed::Box;

/// The state of a page that is not simply absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageState<L, R> {
    /// A request for it is in flight.
    Loading(L),
    /// It is in.
    Resident(R),
}

/// How many pages a group has, and how many nodes a node has below it: a power of two, with this exponent.
const SHIFT: u32 = 5;
const FAN: usize = 1 << SHIFT;

/// The place within its group, or within a node whose children stand for `1 << shift` pages each.
const fn place(page: u64, shift: u32) -> usize {
    (page.wrapping_shr(shift) & (FAN as u64).wrapping_sub(1)) as usize
}

/// Pages in a row, the first of which is a multiple of their number.
#[derive(Debug)]
struct Group<L, R> {
    /// The state of a page, if its bit is set in `loading`, or in `resident`.
    requests: [L; FAN],
    frames: [R; FAN],
    loading: u32,
    resident: u32,
}

impl<L: Copy + Default, R: Copy + Default> Group<L, R> {
    fn new() -> Self {
        Self { requests: [L::default(); FAN], frames: [R::default(); FAN], loading: 0, resident: 0 }
    }

    const fn known(&self) -> u32 {
        self.loading | self.resident
    }

    fn get(&self, page: u64) -> Option<PageState<L, R>> {
        let at = place(page, 0);
        let bit = 1_u32.wrapping_shl(at as u32);
        if self.resident & bit != 0 {
            self.frames.get(at).copied().map(PageState::Resident)
        } else if self.loading & bit != 0 {
            self.requests.get(at).copied().map(PageState::Loading)
        } else {
            None
        }
    }

    fn set(&mut self, page: u64, state: Option<PageState<L, R>>) {
        let at = place(page, 0);
        let bit = 1_u32.wrapping_shl(at as u32);
        self.loading &= !bit;
        self.resident &= !bit;
        match state {
            Some(PageState::Loading(request)) => {
                self.requests.get_mut(at).into_iter().for_each(|place| *place = request);
                self.loading |= bit;
            }
            Some(PageState::Resident(frame)) => {
                self.frames.get_mut(at).into_iter().for_each(|place| *place = frame);
                self.resident |= bit;
            }
            None => {}
        }
    }

    /// The pages from `page` on that are in, up to the first that is not, at most `limit`.
    fn run(&self, page: u64, limit: u64) -> &[R] {
        let at = place(page, 0);
        let count = u64::from(self.resident.wrapping_shr(at as u32).trailing_ones()).min(limit);
        self.frames.get(at..at.saturating_add(count as usize)).unwrap_or_default()
    }
}

/// A part of the tree: it has no part in which all pages are absent.
#[derive(Debug)]
enum Node<L, R> {
    Inner(Box<[Option<Self>; FAN]>),
    Group(Box<Group<L, R>>),
}

impl<L: Copy + Default, R: Copy + Default> Node<L, R> {
    /// Changes the state of a page in a part where each child stands for `1 << shift` pages; returns the old state.
    fn set(node: &mut Option<Self>, shift: u32, page: u64, state: Option<PageState<L, R>>) -> Option<PageState<L, R>> {
        if node.is_none() && state.is_none() {
            return None;
        }
        let made = node.get_or_insert_with(|| match shift {
            0 => Self::Group(Box::new(Group::new())),
            _ => Self::Inner(Box::new([const { None }; FAN])),
        });
        let (old, is_empty) = match made {
            Self::Group(group) => {
                let old = group.get(page);
                group.set(page, state);
                (old, group.known() == 0)
            }
            Self::Inner(below) => {
                let child = below.get_mut(place(page, shift))?;
                let old = Self::set(child, shift.saturating_sub(SHIFT), page, state);
                (old, child.is_none() && below.iter().all(Option::is_none))
            }
        };
        if is_empty {
            *node = None;
        }
        old
    }

    /// The first page from `page` on whose bit is set in the mask that `of` returns for its group, in a part that
    /// begins with page `first`.
    fn next(&self, shift: u32, first: u64, page: u64, of: &impl Fn(&Group<L, R>) -> u32) -> Option<u64> {
        // Those before `page` do not count.
        let before = page.saturating_sub(first);
        match self {
            Self::Group(group) => {
                let kept = u32::try_from(before).ok().and_then(|before| u32::MAX.checked_shl(before)).unwrap_or(0);
                let bits = of(group) & kept;
                (bits != 0).then(|| first.saturating_add(u64::from(bits.trailing_zeros())))
            }
            Self::Inner(below) => {
                let skipped = before.wrapping_shr(shift);
                (0..).zip(below.iter()).skip(usize::try_from(skipped).unwrap_or(FAN)).find_map(|(at, child)| {
                    let first = first.saturating_add(u64::wrapping_shl(at, shift));
                    child.as_ref()?.next(shift.saturating_sub(SHIFT), first, page, of)
                })
            }
        }
    }
}

/// The pages of one object by number. `L` names a request, `R` a resident page. Finding one takes steps in proportion
/// to the object's depth, however many are in.
#[derive(Debug)]
pub struct Pages<L, R> {
    count: u64,
    root: Option<Node<L, R>>,
    /// Pages that a child of the root stands for, as an exponent; 0 if the root is a group.
    shift: u32,
    resident: u64,
}

impl<L: Copy + Default, R: Copy + Default> Pages<L, R> {
    /// An object of `count` pages, all absent.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        let mut shift = 0_u32;
        while shift < 60 && count.saturating_sub(1).wrapping_shr(shift) >= FAN as u64 {
            shift = shift.saturating_add(SHIFT);
        }
        Self { count, root: None, shift, resident: 0 }
    }

    /// How many pages the object has.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The group of a page, unless all of it is absent.
    #[inline]
    fn group(&self, page: u64) -> Option<&Group<L, R>> {
        let (mut node, mut shift) = (self.root.as_ref().filter(|_| page < self.count)?, self.shift);
        loop {
            match node {
                Node::Group(group) => return Some(group),
                Node::Inner(below) => node = below.get(place(page, shift))?.as_ref()?,
            }
            shift = shift.saturating_sub(SHIFT);
        }
    }

    /// The state of a page; `None` if it is absent or past the end.
    #[must_use]
    #[inline]
    pub fn get(&self, page: u64) -> Option<PageState<L, R>> {
        self.group(page)?.get(page)
    }

    /// How many pages are in.
    #[must_use]
    pub const fn resident(&self) -> u64 {
        self.resident
    }

    /// How many absent pages to ask for together, `page` first: at most `limit`, up to the end of
    /// the object or the first page that is not absent. The result is 0 if `page` itself must not be
    /// asked for.
    #[must_use]
    pub fn run_of_absent(&self, page: u64, limit: u64) -> u64 {
        let end = self.count.min(page.saturating_add(limit));
        self.next(page, Group::known).map_or(end, |next| next.min(end)).saturating_sub(page)
    }

    fn next(&self, page: u64, of: impl Fn(&Group<L, R>) -> u32) -> Option<u64> {
        self.root.as_ref()?.next(self.shift, 0, page, &of)
    }

    /// The present pages from `page` on, at most `limit`, up to the first that is absent or the last of the same group.
    /// Call it again for the pages after those if [`Self::goes_on`] says so.
    #[must_use]
    #[inline]
    pub fn run_of_resident(&self, page: u64, limit: u64) -> &[R] {
        self.group(page).map_or(&[], |group| group.run(page, limit))
    }

    /// Whether a run of pages that are in, which ended before `page`, may go on there.
    #[must_use]
    #[inline]
    pub const fn goes_on(&self, page: u64) -> bool {
        page.is_multiple_of(FAN as u64)
    }

    /// Changes what is known of a page.
    fn set(&mut self, page: u64, state: Option<PageState<L, R>>) -> Option<PageState<L, R>> {
        if page >= self.count {
            return None;
        }
        let more = matches!(state, Some(PageState::Resident(_)));
        let old = Node::set(&mut self.root, self.shift, page, state);
        let fewer = matches!(old, Some(PageState::Resident(_)));
        self.resident = self.resident.saturating_add(u64::from(more)).saturating_sub(u64::from(fewer));
        old
    }

    /// Marks a run as being loaded.
    pub fn begin(&mut self, page: u64, count: u64, request: L) {
        for at in page..page.saturating_add(count).min(self.count) {
            self.set(at, Some(PageState::Loading(request)));
        }
    }

    /// A page came in.
    pub fn complete(&mut self, page: u64, resident: R) {
        self.set(page, Some(PageState::Resident(resident)));
    }

    /// Makes a page absent again; returns its earlier state.
    pub fn remove(&mut self, page: u64) -> Option<PageState<L, R>> {
        self.set(page, None)
    }

    /// The first page that is in, from `page` on.
    #[must_use]
    pub fn next_resident(&self, page: u64) -> Option<(u64, R)> {
        let next = self.next(page, |group| group.resident)?;
        match self.get(next)? {
            PageState::Resident(resident) => Some((next, resident)),
            PageState::Loading(_) => None,
        }
    }

    /// The pages that are in.
    pub fn iter_resident(&self) -> impl Iterator<Item = (u64, R)> + '_ {
        let mut from = 0;
        core::iter::from_fn(move || {
            let next = self.next_resident(from)?;
            from = next.0.saturating_add(1);
            Some(next)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    /// All of a run of pages that are in.
    fn whole_run<R: Copy + Default>(pages: &Pages<impl Copy + Default, R>, page: u64, limit: u64) -> Vec<R> {
        let mut whole = Vec::new();
        loop {
            let next = page.saturating_add(whole.len() as u64);
            let run = pages.run_of_resident(next, limit - whole.len() as u64);
            whole.extend_from_slice(run);
            if run.is_empty() || !pages.goes_on(next + run.len() as u64) {
                return whole;
            }
        }
    }

    #[test]
    fn runs_stop_at_what_is_known() {
        let mut pages: Pages<u8, u8> = Pages::new(10);
        assert_eq!(pages.run_of_absent(0, 4), 4);
        assert_eq!(pages.run_of_absent(8, 4), 2);
        assert_eq!(pages.run_of_absent(10, 4), 0);
        pages.begin(3, 2, 1);
        assert_eq!(pages.run_of_absent(0, 8), 3);
        assert_eq!(pages.run_of_absent(3, 8), 0);
        assert_eq!(pages.get(4), Some(PageState::Loading(1)));
        pages.complete(3, 7);
        pages.remove(4);
        assert_eq!(pages.resident(), 1);
        assert_eq!((pages.next_resident(0), pages.next_resident(4)), (Some((3, 7)), None));
        assert_eq!(pages.run_of_absent(4, 8), 6);
        pages.begin(9, 5, 2);
        assert_eq!(pages.get(10), None);
        pages.complete(10, 1);
        assert_eq!(pages.get(10), None);
    }

    #[test]
    fn runs_of_pages_that_are_in_stop_at_the_first_that_is_not() {
        let mut pages: Pages<u8, u8> = Pages::new(20);
        pages.begin(2, 6, 1);
        for page in [2, 3, 4, 6, 7] {
            pages.complete(page, page as u8);
        }
        let run = |page, limit| whole_run(&pages, page, limit);
        assert_eq!(run(2, 16), [2, 3, 4]);
        assert_eq!(run(2, 2), [2, 3]);
        assert_eq!(run(6, 16), [6, 7]);
        assert_eq!(run(5, 16), []);
        assert_eq!(run(0, 16), []);
        assert_eq!(run(u64::MAX, 16), []);
    }

    proptest! {
        /// Against a map, near the borders of groups and of nodes above them.
        #[test]
        fn pages_behave_like_a_map(
            border in prop::sample::select(vec![0_u64, 96, 960, 32_700]),
            steps in prop::collection::vec((0_u8..4, 0_u64..140, 1_u64..40), 0..60),
        ) {
            let count = border + 130;
            let mut pages: Pages<u64, u64> = Pages::new(count);
            let mut model = BTreeMap::new();
            for (step, page, length) in steps {
                let page = border + page;
                for at in page..(page + length).min(count) {
                    let old = match step {
                        0 => model.insert(at, PageState::Loading(page)),
                        1 => model.insert(at, PageState::Resident(at + 1)),
                        _ => model.remove(&at),
                    };
                    match step {
                        0 => pages.begin(at, 1, page),
                        1 => pages.complete(at, at + 1),
                        _ => prop_assert_eq!(pages.remove(at), old),
                    }
                }
                let is_in = |page: u64| matches!(model.get(&page), Some(PageState::Resident(_)));
                let resident: Vec<u64> = (border..count).filter(|page| is_in(*page)).collect();
                prop_assert_eq!(pages.resident(), resident.len() as u64);
                prop_assert_eq!(pages.iter_resident().map(|(page, _)| page).collect::<Vec<_>>(), resident);
                prop_assert_eq!(pages.root.is_none(), model.is_empty(), "a part of absent pages");
                for at in border.saturating_sub(3)..count + 10 {
                    prop_assert_eq!(pages.get(at), model.get(&at).copied());
                    let absent = (at..count.min(at + length)).take_while(|page| !model.contains_key(page)).count();
                    prop_assert_eq!(pages.run_of_absent(at, length), absent as u64);
                    let run = whole_run(&pages, at, length);
                    let wanted: Vec<u64> = (at..at + length).take_while(|page| is_in(*page)).map(|page| page + 1).collect();
                    prop_assert_eq!(run, wanted);
                    prop_assert_eq!(pages.next_resident(at).map(|(page, _)| page), (at..count).find(|page| is_in(*page)));
                }
            }
        }
    }
}
