//! Which pages of one paged object are in.

use alloc::collections::BTreeMap;

/// What is known of a page that is not simply absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageState<L, R> {
    /// A request for it is under way.
    Loading(L),
    /// It is in.
    Resident(R),
}

/// The pages of one object by number. `L` names a request, `R` a resident page.
#[derive(Debug)]
pub struct Pages<L, R> {
    count: u64,
    states: BTreeMap<u64, PageState<L, R>>,
}

impl<L: Copy, R: Copy> Pages<L, R> {
    /// An object of `count` pages, all absent.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self { count, states: BTreeMap::new() }
    }

    /// How many pages the object has.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The state of a page; `None` where it is absent or past the end.
    #[must_use]
    pub fn get(&self, page: u64) -> Option<PageState<L, R>> {
        self.states.get(&page).copied()
    }

    /// How many pages are in.
    #[must_use]
    pub fn resident(&self) -> u64 {
        self.iter_resident().fold(0_u64, |sum, _| sum.saturating_add(1))
    }

    /// How many absent pages to ask for together, `page` first: at most `limit`, up to the end of
    /// the object or the first page that is not absent. 0 where `page` itself is not to be asked for.
    #[must_use]
    pub fn run_of_absent(&self, page: u64, limit: u64) -> u64 {
        let end = self.count.min(page.saturating_add(limit));
        let stop = self.states.range(page..).next().map_or(end, |(next, _)| (*next).min(end));
        stop.saturating_sub(page)
    }

    /// The pages from `page` on that are in, at most `limit`, up to the first that is not.
    pub fn run_of_resident(&self, page: u64, limit: u64) -> impl Iterator<Item = R> {
        let pages = page..page.saturating_add(limit);
        self.states.range(pages.clone()).zip(pages).map_while(|((at, state), wanted)| match state {
            PageState::Resident(resident) if *at == wanted => Some(*resident),
            _ => None,
        })
    }

    /// Marks a run as being loaded.
    pub fn begin(&mut self, page: u64, count: u64, request: L) {
        for at in page..page.saturating_add(count).min(self.count) {
            self.states.insert(at, PageState::Loading(request));
        }
    }

    /// A page came in.
    pub fn complete(&mut self, page: u64, resident: R) {
        if page < self.count {
            self.states.insert(page, PageState::Resident(resident));
        }
    }

    /// A page is absent again; what it was.
    pub fn remove(&mut self, page: u64) -> Option<PageState<L, R>> {
        self.states.remove(&page)
    }

    /// The first page that is in, from `page` on.
    #[must_use]
    pub fn next_resident(&self, page: u64) -> Option<(u64, R)> {
        self.states.range(page..).find_map(|(page, state)| match state {
            PageState::Resident(resident) => Some((*page, *resident)),
            PageState::Loading(_) => None,
        })
    }

    /// The pages that are in.
    pub fn iter_resident(&self) -> impl Iterator<Item = (u64, R)> + '_ {
        self.states.iter().filter_map(|(page, state)| match state {
            PageState::Resident(resident) => Some((*page, *resident)),
            PageState::Loading(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let run = |page, limit| pages.run_of_resident(page, limit).collect::<Vec<_>>();
        assert_eq!(run(2, 16), [2, 3, 4]);
        assert_eq!(run(2, 2), [2, 3]);
        assert_eq!(run(6, 16), [6, 7]);
        assert_eq!(run(5, 16), []);
        assert_eq!(run(0, 16), []);
        assert_eq!(run(u64::MAX, 16), []);
    }
}
