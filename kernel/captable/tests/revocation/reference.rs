//! The meaning of revocation, as simply as possible: nothing is ever forgotten, and derivation is found by going from
//! parent to parent. It shares no code and no idea with the forest.

use capos_abi::Rights;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Capability,
    /// Made through a capability: a mapping or a call, with the number that the world gave it.
    Mapping(usize),
    Call(usize),
}

#[derive(Clone, Debug)]
pub struct Thing {
    pub kind: Kind,
    pub parent: Option<usize>,
    /// The process that holds it.
    pub home: usize,
    pub rights: Rights,
    pub lives: bool,
}

/// Everything that there ever was; a thing is called by its place here.
#[derive(Default)]
pub struct Reference {
    pub things: Vec<Thing>,
}

impl Reference {
    pub fn add(&mut self, kind: Kind, parent: Option<usize>, home: usize, rights: Rights) -> usize {
        self.things.push(Thing { kind, parent, home, rights, lives: true });
        self.things.len() - 1
    }

    /// Whether revoking `ancestor` is to end `thing`. Attachments of `ancestor` itself stay.
    pub fn derives(&self, thing: usize, ancestor: usize) -> bool {
        let first = self.things[thing].parent;
        if self.things[thing].kind != Kind::Capability && first == Some(ancestor) {
            return false;
        }
        std::iter::successors(first, |at| self.things[*at].parent).any(|found| found == ancestor)
    }

    /// Everything alive that a revocation of `ancestor` removes.
    pub fn below(&self, ancestor: usize) -> impl Iterator<Item = usize> {
        (0..self.things.len()).filter(move |thing| self.things[*thing].lives && self.derives(*thing, ancestor))
    }

    /// Everything alive that was made through this capability itself.
    pub fn made_through(&self, capability: usize) -> impl Iterator<Item = usize> {
        let through = move |thing: &Thing| thing.kind != Kind::Capability && thing.parent == Some(capability);
        (0..self.things.len()).filter(move |at| self.things[*at].lives && through(&self.things[*at]))
    }

    /// A revocation ends a capability, and with it the calls that are in flight through it.
    pub fn lose(&mut self, capability: usize) {
        self.things[capability].lives = false;
        for thing in &mut self.things {
            if thing.parent == Some(capability) && matches!(thing.kind, Kind::Call(_)) {
                thing.lives = false;
            }
        }
    }

    /// A process ends, with its own objects and nothing else.
    pub fn end(&mut self, process: usize) {
        self.things.iter_mut().filter(|thing| thing.home == process).for_each(|thing| thing.lives = false);
    }

    pub fn living(&self) -> usize {
        self.things.iter().filter(|thing| thing.lives).count()
    }
}
