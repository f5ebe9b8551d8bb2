//! The crate's tables, forest and queue, combined as in the kernel: one revocation is taken step by step, so that
//! others can act between any two.

use capos_abi::{CapId, Rights, Status};
use capos_captable::{Forest, Found, KeyedList, ListKey, NodeId, Table};

/// The holder of a node of the forest.
#[derive(Debug)]
enum Holder {
    Slot(usize, CapId),
    Mapping(usize),
    Call(usize),
}

/// A slot of a table. `mark` is the test's: it distinguishes capabilities.
#[derive(Clone, Copy, Debug)]
pub struct Capability {
    pub mark: usize,
    pub rights: Rights,
    /// None while it is expected from another process.
    node: Option<NodeId>,
}

/// A capability as its sender offers it: judged, not yet taken.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub from: usize,
    pub id: CapId,
    pub moves: bool,
    pub capability: Capability,
}

struct Call {
    process: usize,
    cap: CapId,
    /// Its own place in the forest, once its capability has left the table.
    attachment: Option<NodeId>,
    /// Its place in the endpoint's queue, until a server has it.
    queued: Option<ListKey>,
}

struct Mapping {
    process: usize,
    node: NodeId,
    /// Whether a thread has touched a page of it that is not in, and waits.
    faults: bool,
}

struct Process {
    table: Table<Capability>,
    ended: bool,
}

/// The result of one step of a revocation.
pub enum Step {
    /// The capability with this mark is gone.
    Capability(usize),
    Mapping(usize),
    Call(usize),
}

/// All of it.
pub struct World {
    forest: Forest<Holder>,
    processes: Vec<Process>,
    calls: Vec<Option<Call>>,
    mappings: Vec<Option<Mapping>>,
    /// Calls that wait for a server.
    endpoint: KeyedList<usize>,
}

impl World {
    pub fn new(processes: usize) -> Self {
        let process = || Process { table: Table::new(), ended: false };
        Self {
            forest: Forest::new(),
            processes: std::iter::repeat_with(process).take(processes).collect(),
            calls: Vec::new(),
            mappings: Vec::new(),
            endpoint: KeyedList::new(),
        }
    }

    pub fn get(&self, process: usize, id: CapId) -> Result<Capability, Status> {
        self.processes[process].table.get(id).copied()
    }

    /// A new capability, which derives from `parent`.
    fn insert(&mut self, process: usize, mark: usize, rights: Rights, parent: Option<NodeId>) -> Result<CapId, Status> {
        if self.processes[process].ended {
            return Err(Status::Disconnected);
        }
        let id = self.processes[process].table.insert(Capability { mark, rights, node: None }).unwrap();
        let holder = Holder::Slot(process, id);
        let node = match parent {
            Some(parent) => self.forest.insert_child(parent, holder),
            None => self.forest.insert_root(holder),
        };
        let Ok(node) = node else {
            self.processes[process].table.remove(id).unwrap();
            return Err(Status::StaleCapability);
        };
        self.processes[process].table.get_mut(id).unwrap().node = Some(node);
        Ok(id)
    }

    pub fn create(&mut self, process: usize, mark: usize) -> Result<CapId, Status> {
        self.insert(process, mark, Rights::ALL, None)
    }

    pub fn offer(&self, from: usize, id: CapId, mask: Rights, moves: bool) -> Result<Offer, Status> {
        let mut capability = self.get(from, id)?;
        capability.rights = capability.rights.intersection(mask);
        Ok(Offer { from, id, moves, capability })
    }

    /// Gives the offered capability to a process; `mark` is the mark of a copy.
    pub fn hand_over(&mut self, offer: &Offer, to: usize, mark: usize) -> Result<CapId, Status> {
        let Capability { mark: own, rights, node } = offer.capability;
        if !offer.moves {
            return self.insert(to, mark, rights, node);
        }
        if self.processes[to].ended {
            return Err(Status::Disconnected);
        }
        let id = self.processes[to].table.insert(Capability { mark: own, rights, node: None }).unwrap();
        match self.take(offer.from, offer.id) {
            Ok(taken) => {
                self.processes[to].table.get_mut(id).unwrap().node = taken.node;
                if let Some(node) = taken.node {
                    self.forest.set_holder(node, Holder::Slot(to, id));
                }
                Ok(id)
            }
            Err(status) => {
                self.processes[to].table.remove(id).unwrap();
                Err(status)
            }
        }
    }

    /// Takes a capability out of a table; calls through it go on, and stay revocable.
    fn take(&mut self, process: usize, id: CapId) -> Result<Capability, Status> {
        let capability = self.processes[process].table.remove(id)?;
        let node = capability.node.unwrap();
        for (number, call) in self.calls.iter_mut().enumerate() {
            if let Some(call) = call
                && call.process == process
                && call.cap == id
            {
                call.attachment = Some(self.forest.attach(node, Holder::Call(number)).unwrap());
            }
        }
        Ok(capability)
    }

    pub fn release(&mut self, process: usize, id: CapId) -> Result<(), Status> {
        let capability = self.take(process, id)?;
        self.forest.remove(capability.node.unwrap()).unwrap();
        Ok(())
    }

    /// Maps the object; a number for the mapping.
    pub fn map(&mut self, process: usize, id: CapId) -> Result<usize, Status> {
        let node = self.get(process, id)?.node.unwrap();
        let number = self.mappings.len();
        let node = self.forest.attach(node, Holder::Mapping(number)).map_err(|_| Status::StaleCapability)?;
        self.mappings.push(Some(Mapping { process, node, faults: false }));
        Ok(number)
    }

    /// A thread waits for a page of the mapping; whether there is one.
    pub fn fault(&mut self, number: usize) -> bool {
        self.mappings[number].as_mut().map(|mapping| mapping.faults = true).is_some()
    }

    pub fn is_mapped(&self, number: usize) -> bool {
        self.mappings[number].is_some()
    }

    /// Whether a thread waits for a page of the mapping.
    pub fn is_faulting(&self, number: usize) -> bool {
        self.mappings[number].as_ref().is_some_and(|mapping| mapping.faults)
    }

    pub fn unmap(&mut self, number: usize) -> bool {
        let Some(mapping) = self.mappings[number].take() else { return false };
        self.forest.remove(mapping.node).unwrap();
        true
    }

    /// Calls through a capability: the call queues at the endpoint; a number for it.
    pub fn call(&mut self, process: usize, id: CapId) -> Result<usize, Status> {
        self.get(process, id)?;
        let number = self.calls.len();
        let queued = Some(self.endpoint.push(number).unwrap());
        self.calls.push(Some(Call { process, cap: id, attachment: None, queued }));
        Ok(number)
    }

    pub fn is_in_flight(&self, number: usize) -> bool {
        self.calls[number].is_some()
    }

    /// A server receives the oldest call.
    pub fn deliver(&mut self) -> Option<usize> {
        let number = self.endpoint.pop()?;
        self.calls[number].as_mut().unwrap().queued = None;
        Some(number)
    }

    /// Ends a call, by an answer or by cancelling.
    pub fn end_call(&mut self, number: usize) -> bool {
        let Some(call) = self.calls[number].take() else { return false };
        if let Some(node) = call.attachment {
            self.forest.remove(node);
        }
        if let Some(key) = call.queued {
            self.endpoint.remove(key).unwrap();
        }
        true
    }

    /// Begins to revoke what derives from a capability.
    pub fn revoke(&self, process: usize, id: CapId) -> Result<NodeId, Status> {
        Ok(self.get(process, id)?.node.unwrap())
    }

    /// One step of it; none if nothing is left to do.
    pub fn step(&mut self, node: NodeId) -> Option<Step> {
        let found = loop {
            if let Found::Thing(found, _) = self.forest.find_descendant(node)? {
                break found;
            }
        };
        Some(match self.forest.remove(found)? {
            Holder::Slot(process, id) => {
                let lost = self.processes[process].table.remove(id).unwrap();
                for number in 0..self.calls.len() {
                    let through = |call: &Call| call.process == process && call.cap == id && call.attachment.is_none();
                    if self.calls[number].as_ref().is_some_and(through) {
                        self.end_call(number);
                    }
                }
                Step::Capability(lost.mark)
            }
            Holder::Mapping(number) => {
                assert!(self.mappings[number].take().is_some(), "mapping {number} was not there");
                Step::Mapping(number)
            }
            Holder::Call(number) => {
                assert!(self.end_call(number), "call {number} was not in flight");
                Step::Call(number)
            }
        })
    }

    /// A process ends.
    pub fn end(&mut self, process: usize) {
        self.processes[process].ended = true;
        for number in 0..self.calls.len() {
            if self.calls[number].as_ref().is_some_and(|call| call.process == process) {
                self.end_call(number);
            }
        }
        let mut hint = 0;
        while let Some((_, capability)) = self.processes[process].table.pop(&mut hint, u32::MAX) {
            self.forest.remove(capability.node.unwrap()).unwrap();
        }
        for number in 0..self.mappings.len() {
            if self.mappings[number].as_ref().is_some_and(|mapping| mapping.process == process) {
                self.unmap(number);
            }
        }
    }

    /// Whether capabilities derive from this one; it may stay true while what was made through released ones lives.
    pub fn has_derived(&self, process: usize, id: CapId) -> bool {
        self.forest.has_derived(self.get(process, id).unwrap().node.unwrap())
    }

    /// Nodes of the forest, joints included.
    pub fn nodes(&self) -> usize {
        self.forest.len()
    }

    /// Calls that wait for a server.
    pub fn waiting(&self) -> usize {
        self.endpoint.len()
    }

    /// Capabilities in all tables.
    pub fn capabilities(&self) -> usize {
        self.processes.iter().map(|process| process.table.len() as usize).sum()
    }
}
