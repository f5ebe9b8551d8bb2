//! Revocation against a reference model: random sequences of deriving, transferring, releasing, calling, mapping, faulting
//! and dying, while up to two revocations are in progress, each a step at a time.
//!
//! `SEQUENCES=1000000` runs as many, `SEQUENCE=n` that one alone, printing what it does.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests count as tests.

mod reference;
mod world;

use capos_abi::{CapId, Rights, Status};
use capos_captable::NodeId;
use rand_pcg::Pcg32;
use rand_pcg::rand_core::{Rng, SeedableRng};
use reference::{Kind, Reference};
use world::{Offer, Step, World};

/// As many as there are without `SEQUENCES`.
const SEQUENCES: u64 = 1_000_000;
/// The most operations of one.
const LONGEST: u32 = 48;
/// The most things: each operation makes one at most.
const MOST: usize = LONGEST as usize;
const PROCESSES: usize = 3;
/// Revocations that are in progress at one time.
const AT_ONCE: usize = 2;

/// A capability that exists or existed: its identifier, its table, and its node in the reference.
#[derive(Clone, Copy, Debug)]
struct Name {
    process: usize,
    id: CapId,
    thing: usize,
}

/// A sequence, and both sides of the comparison.
struct Sequence {
    random: Pcg32,
    world: World,
    reference: Reference,
    /// Every identifier that was ever given out.
    names: Vec<Name>,
    /// For each thing that is a capability, the last of them.
    last: [(usize, CapId); MOST],
    /// Transfers that were judged and not carried out yet.
    offers: Vec<(Offer, usize)>,
    /// Revocations in progress, each with what it revokes.
    revocations: Vec<(NodeId, usize)>,
    tells: bool,
}

impl Sequence {
    fn new(number: u64, tells: bool) -> Self {
        Self {
            random: Pcg32::seed_from_u64(number),
            world: World::new(PROCESSES),
            reference: Reference::default(),
            names: Vec::new(),
            last: [(0, CapId::NULL); MOST],
            offers: Vec::new(),
            revocations: Vec::new(),
            tells,
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.next_u32() as usize % end
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.tells {
            println!("{}", what());
        }
    }

    fn run(&mut self) {
        let length = 1 + self.random.next_u32() % LONGEST;
        for _ in 0..length {
            self.operate();
            self.compare();
        }
        // Revocations in progress end, in any order.
        while !self.revocations.is_empty() {
            self.step();
            self.compare();
        }
        for process in 0..PROCESSES {
            self.world.end(process);
            self.reference.end(process);
        }
        self.compare();
        let left = (self.world.nodes(), self.world.waiting(), self.world.capabilities());
        assert_eq!(left, (0, 0, 0), "something is left");
    }

    /// One random operation.
    fn operate(&mut self) {
        let choice = self.below(32);
        if self.names.is_empty() || choice == 0 {
            return self.create();
        }
        let at = self.below(self.names.len());
        let name = self.names[at];
        match choice {
            1..=4 => self.derive(name),
            5..=7 => self.offer(name),
            8..=10 => self.hand_over(),
            11..=13 => self.map(name),
            14 => self.unmap_or_fault(),
            15..=17 => self.call(name),
            18 => self.deliver(),
            19 => self.end_call(),
            20..=22 => self.release(name),
            23 if self.below(8) == 0 => self.end(),
            23..=25 => self.revoke(name),
            _ => self.step(),
        }
    }

    fn create(&mut self) {
        let process = self.below(PROCESSES);
        let mark = self.reference.things.len();
        match self.world.create(process, mark) {
            Ok(id) => {
                let thing = self.reference.add(Kind::Capability, None, process, Rights::ALL);
                self.name(process, id, thing);
                self.tell(|| format!("{thing} is created in process {process}"));
            }
            Err(status) => assert_eq!(status, Status::Disconnected),
        }
    }

    fn name(&mut self, process: usize, id: CapId, thing: usize) {
        self.names.push(Name { process, id, thing });
        self.last[thing] = (process, id);
    }

    /// Whether a name is to mean something: its thing lives, and has not moved away.
    fn is_valid(&self, name: Name) -> bool {
        self.reference.things[name.thing].lives && self.last[name.thing] == (name.process, name.id)
    }

    /// A copy in the same table, with fewer rights.
    fn derive(&mut self, name: Name) {
        let mask = Rights(self.random.next_u32());
        let valid = self.is_valid(name);
        match self.world.offer(name.process, name.id, mask, false) {
            Ok(offer) => {
                assert!(valid, "{} is used after its end", name.thing);
                self.copy(&offer, name.thing, name.process);
            }
            Err(status) => assert_eq!((status, valid), (Status::StaleCapability, false)),
        }
    }

    fn copy(&mut self, offer: &Offer, source: usize, to: usize) {
        let mark = self.reference.things.len();
        let lives = self.reference.things[source].lives;
        match self.world.hand_over(offer, to, mark) {
            Ok(id) => {
                assert!(lives, "{source} is copied after its end");
                let thing = self.reference.add(Kind::Capability, Some(source), to, offer.capability.rights);
                self.name(to, id, thing);
                self.tell(|| format!("{thing} derives from {source}, in process {to}"));
            }
            Err(Status::Disconnected) => {}
            Err(status) => assert_eq!((status, lives), (Status::StaleCapability, false)),
        }
    }

    /// The first part of a transfer: it is judged.
    fn offer(&mut self, name: Name) {
        let (mask, moves) = (Rights(self.random.next_u32()), self.below(2) == 0);
        let valid = self.is_valid(name);
        match self.world.offer(name.process, name.id, mask, moves) {
            Ok(offer) => {
                assert!(valid, "{} is offered after its end", name.thing);
                self.offers.push((offer, name.thing));
                self.tell(|| format!("{} is offered, to move: {moves}", name.thing));
            }
            Err(status) => assert_eq!((status, valid), (Status::StaleCapability, false)),
        }
    }

    /// The second part: it is carried out, whatever has happened meanwhile.
    fn hand_over(&mut self) {
        if self.offers.is_empty() {
            return;
        }
        let at = self.below(self.offers.len());
        let (offer, thing) = self.offers.swap_remove(at);
        let to = self.below(PROCESSES);
        if !offer.moves {
            return self.copy(&offer, thing, to);
        }
        let valid = self.is_valid(Name { process: offer.from, id: offer.id, thing });
        match self.world.hand_over(&offer, to, thing) {
            Ok(id) => {
                assert!(valid, "{thing} moves after its end");
                let moved = &mut self.reference.things[thing];
                (moved.home, moved.rights) = (to, offer.capability.rights);
                self.name(to, id, thing);
                self.tell(|| format!("{thing} moves to process {to}"));
            }
            Err(Status::Disconnected) => {}
            Err(status) => assert_eq!((status, valid), (Status::StaleCapability, false)),
        }
    }

    /// A mapping or a call is made through a capability.
    fn made(&mut self, name: Name, made: Result<Kind, Status>) {
        let valid = self.is_valid(name);
        match made {
            Ok(kind) => {
                assert!(valid, "{} is used after its end", name.thing);
                let thing = self.reference.add(kind, Some(name.thing), name.process, Rights::NONE);
                self.tell(|| format!("{thing}, {kind:?}, is made through {}", name.thing));
            }
            Err(status) => assert_eq!((status, valid), (Status::StaleCapability, false)),
        }
    }

    fn map(&mut self, name: Name) {
        let made = self.world.map(name.process, name.id).map(Kind::Mapping);
        self.made(name, made);
    }

    fn call(&mut self, name: Name) {
        let made = self.world.call(name.process, name.id).map(Kind::Call);
        self.made(name, made);
    }

    /// A random thing, its kind, and whether it lives.
    fn any_thing(&mut self) -> (usize, Kind, bool) {
        let at = self.below(self.reference.things.len());
        let thing = &self.reference.things[at];
        (at, thing.kind, thing.lives)
    }

    fn unmap_or_fault(&mut self) {
        let (thing, Kind::Mapping(number), lives) = self.any_thing() else { return };
        if self.below(2) == 0 {
            assert_eq!(self.world.fault(number), lives, "a fault on {thing}");
            return;
        }
        assert_eq!(self.world.unmap(number), lives, "{thing} is unmapped");
        self.reference.things[thing].lives = false;
        self.tell(|| format!("{thing} is unmapped"));
    }

    /// The queue has living calls alone: a server never gets one that has ended.
    fn deliver(&mut self) {
        let Some(number) = self.world.deliver() else { return };
        let thing = self.reference.things.iter().find(|thing| thing.kind == Kind::Call(number)).unwrap();
        assert!(thing.lives, "call {number} is delivered after its end");
    }

    fn end_call(&mut self) {
        let (thing, Kind::Call(number), lives) = self.any_thing() else { return };
        assert_eq!(self.world.end_call(number), lives, "call {thing} ends");
        self.reference.things[thing].lives = false;
        self.tell(|| format!("call {thing} ends"));
    }

    fn release(&mut self, name: Name) {
        let valid = self.is_valid(name);
        match self.world.release(name.process, name.id) {
            Ok(()) => {
                assert!(valid, "{} is released after its end", name.thing);
                self.reference.things[name.thing].lives = false;
                self.tell(|| format!("{} is released", name.thing));
            }
            Err(status) => assert_eq!((status, valid), (Status::StaleCapability, false)),
        }
    }

    fn end(&mut self) {
        let process = self.below(PROCESSES);
        self.world.end(process);
        self.reference.end(process);
        self.tell(|| format!("process {process} ends"));
    }

    fn revoke(&mut self, name: Name) {
        if self.revocations.len() == AT_ONCE {
            return;
        }
        let valid = self.is_valid(name);
        match self.world.revoke(name.process, name.id) {
            Ok(node) => {
                assert!(valid, "{} is revoked after its end", name.thing);
                self.revocations.push((node, name.thing));
                self.tell(|| format!("{} begins to be revoked", name.thing));
            }
            Err(status) => assert_eq!((status, valid), (Status::StaleCapability, false)),
        }
    }

    /// One step of a revocation: it ends one living thing that derives from the revoked capability, or finds none. A
    /// revocation whose capability has been released meanwhile, or revoked itself, is over.
    fn step(&mut self) {
        if self.revocations.is_empty() {
            return;
        }
        let at = self.below(self.revocations.len());
        let (node, root) = self.revocations[at];
        let Some(step) = self.world.step(node) else {
            self.revocations.swap_remove(at);
            if self.reference.things[root].lives {
                let left: Vec<usize> = self.reference.below(root).collect();
                assert!(left.is_empty(), "{left:?} are left of what derives from {root}");
            }
            return;
        };
        let place = |kind: Kind| self.reference.things.iter().position(|thing| thing.kind == kind).unwrap();
        let thing = match step {
            Step::Capability(mark) => mark,
            Step::Mapping(number) => place(Kind::Mapping(number)),
            Step::Call(number) => place(Kind::Call(number)),
        };
        self.tell(|| format!("{thing} goes by revoking {root}"));
        assert!(self.reference.things[root].lives, "{root}, which is gone, is revoked");
        assert!(self.reference.things[thing].lives, "{thing} goes twice");
        assert!(self.reference.derives(thing, root), "{thing} does not derive from {root} and goes with it");
        if self.reference.things[thing].kind == Kind::Capability {
            self.reference.lose(thing);
            let left: Vec<usize> = self.reference.made_through(thing).collect();
            assert!(left.is_empty(), "{left:?} were made through {thing}, which has gone by revoking {root}");
        }
        self.reference.things[thing].lives = false;
    }

    /// Both sides agree on everything that ever existed.
    fn compare(&mut self) {
        for (at, thing) in self.reference.things.iter().enumerate() {
            match thing.kind {
                Kind::Capability => {}
                Kind::Mapping(number) => {
                    assert_eq!(self.world.is_mapped(number), thing.lives, "mapping {at}");
                    assert!(thing.lives || !self.world.is_faulting(number), "a fault on {at} outlives it");
                }
                Kind::Call(number) => assert_eq!(self.world.is_in_flight(number), thing.lives, "call {at}"),
            }
        }
        let mut capabilities = 0;
        for name in &self.names {
            let thing = &self.reference.things[name.thing];
            let found = self.world.get(name.process, name.id);
            if self.is_valid(*name) {
                capabilities += 1;
                let found = found.map(|found| (found.mark, found.rights));
                assert_eq!(found, Ok((name.thing, thing.rights)), "{}", name.thing);
            } else {
                assert_eq!(found.map(|found| found.mark), Err(Status::StaleCapability), "{}", name.thing);
            }
        }
        assert_eq!(self.world.capabilities(), capabilities);
        let living = self.reference.living();
        assert!(self.world.nodes() <= 3 * living, "{} nodes for {living} living things", self.world.nodes());
        // One is enough at a time: the reference looks at all that derives from it.
        if let Some(name) = self.names.get(self.world.nodes() % self.names.len().max(1)).copied()
            && self.is_valid(name)
        {
            let is_capability = |thing: &usize| self.reference.things[*thing].kind == Kind::Capability;
            // What was made through a capability that was released derives from what is above it, too.
            if self.reference.below(name.thing).any(|thing| is_capability(&thing)) {
                assert!(self.world.has_derived(name.process, name.id), "from {}", name.thing);
            }
            if self.reference.below(name.thing).next().is_none() {
                assert!(!self.world.has_derived(name.process, name.id), "from {}", name.thing);
            }
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}

#[test]
fn revocation_agrees_with_a_reference_that_forgets_nothing() {
    if let Some(number) = number("SEQUENCE") {
        return Sequence::new(number, true).run();
    }
    let all = number("SEQUENCES").unwrap_or(SEQUENCES);
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    std::thread::scope(|scope| {
        for first in 0..threads {
            scope.spawn(move || {
                for number in (first..all).step_by(threads as usize) {
                    let run = std::panic::catch_unwind(|| Sequence::new(number, false).run());
                    assert!(run.is_ok(), "sequence {number} fails: SEQUENCE={number} tells what it does");
                }
            });
        }
    });
}
