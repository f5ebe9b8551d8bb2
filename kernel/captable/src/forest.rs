//! Which capability derives from which.
//!
//! Every capability that can be copied is a node. A copy is a child of its source. An object that
//! was made through a capability and is not one itself (a mapping, say) is an *attachment*. It ends
//! when the capability is revoked, and lives on when the capability is only released.
//!
//! A removed node with several children or with attachments stays as a nameless joint, so that its
//! descendants are still revoked with its ancestors. A removed node with a single child is replaced by
//! that child. If only attachments are left, each can keep a joint of its own below joints that
//! branch. There are therefore fewer than twice as many joints as living nodes, and removing costs the
//! same however many descendants there are.

use crate::pool::{NIL, Pool};

/// Names a node as long as it lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct NodeId {
    index: u32,
    generation: u64,
}

/// Why nothing was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForestError {
    /// The node to derive from is gone, or it derives from one that is being revoked.
    Gone,
    /// No memory for one more node.
    Exhausted,
    /// The node to derive from is being revoked; or another one is, and it is not known whether this one derives from it, because it lies
    /// too deep.
    Busy,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A capability; without a holder it is a joint.
    Capability,
    Attachment,
}

struct Node<H> {
    generation: u64,
    kind: Kind,
    holder: Option<H>,
    parent: u32,
    next: u32,
    previous: u32,
    first_child: u32,
    first_attachment: u32,
    /// Whether it is [being revoked](Forest::begin_revocation).
    revoking: bool,
}

/// What [`Forest::find_descendant`] has found.
#[derive(Debug)]
pub enum Found<'a, H> {
    /// A capability or an attachment, and its holder.
    Thing(NodeId, &'a H),
    /// A joint. There may be more behind it.
    Joint,
}

/// Children that a joint hands up to the revoked node at once.
const HANDED_UP: usize = 32;
/// How many ancestors are looked at before something is added while there are revocations.
const LOOKED_AT: usize = 64;

/// The derivation forest. `H` is the type of a node's holder: a slot of a table, a mapping.
pub struct Forest<H> {
    nodes: Pool<Node<H>>,
    /// The generation that is given out next; none is ever given out twice.
    generation: u64,
    /// How many nodes are being revoked.
    revocations: usize,
}

impl<H> Default for Forest<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H> Forest<H> {
    /// An empty forest; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { nodes: Pool::new(), generation: 1, revocations: 0 }
    }

    /// Nodes in use, joints included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it holds no node.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.nodes.len() == 0
    }

    /// Bytes that it holds and no node is in.
    #[must_use]
    pub const fn spare_bytes(&self) -> usize {
        self.nodes.spare_bytes()
    }

    /// Adds a capability that derives from nothing.
    ///
    /// # Errors
    /// [`ForestError::Exhausted`].
    pub fn insert_root(&mut self, holder: H) -> Result<NodeId, ForestError> {
        let index = self.allocate(Kind::Capability, holder)?;
        Ok(self.id(index))
    }

    /// Adds a capability that derives from `parent`.
    ///
    /// # Errors
    /// [`ForestError`]; nothing was added.
    pub fn insert_child(&mut self, parent: NodeId, holder: H) -> Result<NodeId, ForestError> {
        self.add(parent, Kind::Capability, holder)
    }

    /// Adds what was made through the capability `parent`.
    ///
    /// # Errors
    /// [`ForestError`]; nothing was added.
    pub fn attach(&mut self, parent: NodeId, holder: H) -> Result<NodeId, ForestError> {
        self.add(parent, Kind::Attachment, holder)
    }

    fn add(&mut self, parent: NodeId, kind: Kind, holder: H) -> Result<NodeId, ForestError> {
        match self.checked(parent) {
            Some(node) if node.kind == Kind::Capability => {}
            _ => return Err(ForestError::Gone),
        }
        if self.revocations > 0 {
            self.check_ancestors(parent.index)?;
        }
        let index = self.allocate(kind, holder)?;
        self.link(parent.index, index);
        Ok(self.id(index))
    }

    /// Whether something may be added below a node: nothing while one of its ancestors is being revoked, so that a revocation
    /// comes to its end.
    fn check_ancestors(&self, index: u32) -> Result<(), ForestError> {
        if self.node(index).is_some_and(|node| node.revoking) {
            return Err(ForestError::Busy);
        }
        let mut at = self.node(index).map_or(NIL, |node| node.parent);
        for _ in 0..LOOKED_AT {
            let Some(node) = self.node(at) else { return Ok(()) };
            if node.revoking {
                return Err(ForestError::Gone);
            }
            at = node.parent;
        }
        Err(ForestError::Busy)
    }

    /// Begins to revoke a node, in steps: from now on nothing is added to what derives from it. Ends when there is
    /// [nothing left](Self::find_descendant) to revoke, when the node is removed, or by [`Self::end_revocation`].
    pub fn begin_revocation(&mut self, id: NodeId) {
        if self.checked(id).is_some_and(|node| !node.revoking) {
            self.revocations = self.revocations.saturating_add(1);
            self.node_mut(id.index).into_iter().for_each(|node| node.revoking = true);
        }
    }

    /// Ends the revocation of a node, whether or not everything is revoked.
    pub fn end_revocation(&mut self, id: NodeId) {
        if self.checked(id).is_some() {
            self.end_revocation_at(id.index);
        }
    }

    fn end_revocation_at(&mut self, index: u32) {
        if self.node(index).is_some_and(|node| node.revoking) {
            self.revocations = self.revocations.saturating_sub(1);
            self.node_mut(index).into_iter().for_each(|node| node.revoking = false);
        }
    }

    /// The holder of the node.
    #[must_use]
    pub fn holder(&self, id: NodeId) -> Option<&H> {
        self.checked(id).and_then(|node| node.holder.as_ref())
    }

    /// Changes the holder of the node: the capability was moved. Returns the old holder.
    pub fn set_holder(&mut self, id: NodeId, holder: H) -> Option<H> {
        self.checked(id)?;
        self.node_mut(id.index).and_then(|node| node.holder.replace(holder))
    }

    /// Removes one node. Its descendants live on and are still revoked with its ancestors.
    pub fn remove(&mut self, id: NodeId) -> Option<H> {
        self.checked(id)?;
        self.end_revocation_at(id.index);
        let generation = self.next_generation();
        let node = self.node_mut(id.index)?;
        let holder = node.holder.take();
        // From now on the identifier is dead, also if a joint stays.
        node.generation = generation;
        if node.kind == Kind::Attachment {
            let parent = node.parent;
            self.unlink(id.index);
            self.release(id.index);
            self.collapse(parent);
        } else {
            self.collapse(id.index);
        }
        holder
    }

    /// Looks for one thing that derives from `id`: call it until `None`, and [remove](Self::remove) each that is found, to revoke. Each
    /// call costs the same however many nodes there are, and all together cost as much as there are nodes below `id`.
    /// Attachments of `id` itself stay. What is not removed yet can still be revoked through what it derives from.
    pub fn find_descendant(&mut self, id: NodeId) -> Option<Found<'_, H>> {
        let child = self.checked(id)?.first_child;
        let Some(node) = self.node(child) else {
            self.end_revocation(id);
            return None;
        };
        // What was made through a capability goes before it does. Only joints hand up what derives from them.
        let (has_holder, attachment) = (node.holder.is_some(), node.first_attachment);
        let found = if attachment == NIL && has_holder { child } else { attachment };
        if found == NIL {
            self.hand_up(child, id.index, HANDED_UP);
            // The caller may not call again, so a joint that joins nothing any more is removed now.
            self.collapse(child);
            return Some(Found::Joint);
        }
        let found = self.id(found);
        Some(self.holder(found).map_or(Found::Joint, |holder| Found::Thing(found, holder)))
    }

    /// Takes one thing that derives from `id`: call until `None` to revoke.
    #[cfg(test)]
    fn pop_descendant(&mut self, id: NodeId) -> Option<H> {
        loop {
            if let Found::Thing(found, _) = self.find_descendant(id)? {
                return self.remove(found);
            }
        }
    }

    /// Whether capabilities derive from a node. It may stay true while attachments of removed ones live.
    pub fn has_derived(&self, id: NodeId) -> bool {
        self.checked(id).is_some_and(|node| node.first_child != NIL)
    }

    fn node(&self, index: u32) -> Option<&Node<H>> {
        self.nodes.get(index)
    }

    fn node_mut(&mut self, index: u32) -> Option<&mut Node<H>> {
        self.nodes.get_mut(index)
    }

    fn checked(&self, id: NodeId) -> Option<&Node<H>> {
        self.node(id.index).filter(|node| node.generation == id.generation)
    }

    fn id(&self, index: u32) -> NodeId {
        NodeId { index, generation: self.node(index).map_or(0, |node| node.generation) }
    }

    fn next_generation(&mut self) -> u64 {
        let generation = self.generation;
        self.generation = generation.wrapping_add(1);
        generation
    }

    fn allocate(&mut self, kind: Kind, holder: H) -> Result<u32, ForestError> {
        let node = Node {
            generation: self.next_generation(),
            kind,
            holder: Some(holder),
            parent: NIL,
            next: NIL,
            previous: NIL,
            first_child: NIL,
            first_attachment: NIL,
            revoking: false,
        };
        self.nodes.insert(node).ok_or(ForestError::Exhausted)
    }

    fn release(&mut self, index: u32) {
        self.nodes.remove(index);
    }

    /// The head of the list that a node of this kind is in.
    fn head_mut(&mut self, parent: u32, kind: Kind) -> Option<&mut u32> {
        self.node_mut(parent).map(|node| match kind {
            Kind::Attachment => &mut node.first_attachment,
            _ => &mut node.first_child,
        })
    }

    /// Makes a lone node the first of its kind below `parent`.
    fn link(&mut self, parent: u32, index: u32) {
        let Some(kind) = self.node(index).map(|node| node.kind) else { return };
        let Some(head) = self.head_mut(parent, kind) else { return };
        let next = core::mem::replace(head, index);
        if let Some(node) = self.node_mut(next) {
            node.previous = index;
        }
        if let Some(node) = self.node_mut(index) {
            node.parent = parent;
            node.next = next;
            node.previous = NIL;
        }
    }

    /// Takes a node out of its parent's list; its own children stay with it.
    fn unlink(&mut self, index: u32) {
        let Some((parent, next, previous, kind)) =
            self.node(index).map(|node| (node.parent, node.next, node.previous, node.kind))
        else {
            return;
        };
        if let Some(before) = self.node_mut(previous) {
            before.next = next;
        } else if let Some(head) = self.head_mut(parent, kind) {
            *head = next;
        }
        if let Some(after) = self.node_mut(next) {
            after.previous = previous;
        }
        if let Some(node) = self.node_mut(index) {
            node.parent = NIL;
            node.next = NIL;
            node.previous = NIL;
        }
    }

    /// Makes up to `most` children of `from` children of `to`. Each node is moved up at most once per revocation, since after that it is a
    /// direct child of the revoked node.
    fn hand_up(&mut self, from: u32, to: u32, most: usize) {
        for _ in 0..most {
            let Some(child) = self.node(from).map(|node| node.first_child).filter(|c| *c != NIL) else { return };
            self.unlink(child);
            self.link(to, child);
        }
    }

    /// Removes a joint that joins nothing any more: one without attachments and with at most one child.
    fn collapse(&mut self, mut index: u32) {
        while let Some(node) = self.node(index) {
            if node.holder.is_some() || node.kind != Kind::Capability || node.first_attachment != NIL {
                return;
            }
            let (parent, child) = (node.parent, node.first_child);
            if self.node(child).is_some_and(|child| child.next != NIL) {
                return;
            }
            if child != NIL {
                self.unlink(child);
                if self.node(parent).is_some() {
                    self.link(parent, child);
                }
            }
            self.unlink(index);
            self.release(index);
            index = parent;
        }
    }
}

#[cfg(test)]
mod tests;
