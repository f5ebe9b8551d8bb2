//! A process's capability table: slots that are reused, identifiers that are not.

use alloc::vec::Vec;
use capos_abi::{CapId, Status};

/// No free slot.
const NIL: u32 = u32::MAX;

/// The kernel has no memory for one more slot, or every identifier is used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

struct Slot<T> {
    /// Generation of the present occupant, or of the next one if the slot is empty.
    generation: u32,
    next_free: u32,
    value: Option<T>,
}

/// Maps [`CapId`]s to values. An identifier is never given out twice.
pub struct Table<T> {
    slots: Vec<Slot<T>>,
    first_free: u32,
    live: u32,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Table<T> {
    /// An empty table; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { slots: Vec::new(), first_free: NIL, live: 0 }
    }

    /// How many capabilities it holds.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.live
    }

    /// Whether it holds none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The identifier that the next value gets.
    ///
    /// # Errors
    /// [`Full`].
    #[inline(always)]
    pub fn next_id(&mut self) -> Result<CapId, Full> {
        if self.first_free == NIL {
            self.first_free = self.grow()?;
        }
        let slot = self.slots.get(self.first_free as usize).ok_or(Full)?;
        Ok(CapId::new(self.first_free, slot.generation))
    }

    /// Puts a value into a free slot.
    ///
    /// # Errors
    /// [`Full`], with the table unchanged; the value is dropped.
    pub fn insert(&mut self, value: T) -> Result<CapId, Full> {
        self.insert_with(|_| value)
    }

    /// Puts the value that `make` builds, knowing its identifier, into a free slot.
    ///
    /// # Errors
    /// [`Full`]; then `make` was not called and the table is unchanged.
    #[inline(always)]
    pub fn insert_with(&mut self, make: impl FnOnce(CapId) -> T) -> Result<CapId, Full> {
        let index = if self.first_free == NIL { self.grow()? } else { self.first_free };
        let slot = self.slots.get_mut(index as usize).ok_or(Full)?;
        let id = CapId::new(index, slot.generation);
        self.first_free = slot.next_free;
        slot.value = Some(make(id));
        self.live = self.live.wrapping_add(1);
        Ok(id)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Result<u32, Full> {
        let index = u32::try_from(self.slots.len()).map_err(|_| Full)?;
        if index == NIL {
            return Err(Full);
        }
        self.slots.try_reserve(1).map_err(|_| Full)?;
        self.slots.push(Slot { generation: 1, next_free: NIL, value: None });
        Ok(index)
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self, id: CapId) -> Status {
        match self.slots.get(id.index() as usize) {
            Some(slot) if id.generation() != 0 && id.generation() < slot.generation => Status::StaleCapability,
            _ => Status::BadCapability,
        }
    }

    /// The value with this identifier.
    ///
    /// # Errors
    /// [`Status::BadCapability`] if the identifier was never given out, [`Status::StaleCapability`]
    /// if its value is gone.
    #[inline(always)]
    pub fn get(&self, id: CapId) -> Result<&T, Status> {
        match self.slots.get(id.index() as usize) {
            Some(Slot { generation, value: Some(value), .. }) if *generation == id.generation() => Ok(value),
            _ => Err(self.refuse(id)),
        }
    }

    /// The same, to change it.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn get_mut(&mut self, id: CapId) -> Result<&mut T, Status> {
        self.get(id)?;
        // It is there.
        let value = self.slots.get_mut(id.index() as usize).and_then(|slot| slot.value.as_mut());
        value.ok_or(Status::BadCapability)
    }

    /// Takes a value out; its identifier is stale from now on.
    ///
    /// # Errors
    /// As [`Table::get`].
    #[inline(always)]
    pub fn remove(&mut self, id: CapId) -> Result<T, Status> {
        let slot = self.slots.get_mut(id.index() as usize).filter(|slot| slot.generation == id.generation());
        let Some((slot, value)) = slot.and_then(|slot| slot.value.take().map(|value| (slot, value))) else {
            return Err(self.refuse(id));
        };
        self.live = self.live.wrapping_sub(1);
        // A slot whose generations are used up is never used again, so no identifier comes twice.
        slot.generation = slot.generation.saturating_add(1);
        if slot.generation != u32::MAX {
            slot.next_free = self.first_free;
            self.first_free = id.index();
        }
        Ok(value)
    }

    /// Gives a value a later identifier of its slot: those up to that one are stale from now on, as if they had been given out
    /// and taken back.
    ///
    /// # Errors
    /// As [`Table::get`]; [`Status::BadCapability`] if it is no later one.
    pub fn advance(&mut self, id: CapId, later: CapId) -> Result<(), Status> {
        self.get(id)?;
        if later.index() != id.index() || later.generation() < id.generation() {
            return Err(Status::BadCapability);
        }
        if let Some(slot) = self.slots.get_mut(id.index() as usize) {
            slot.generation = later.generation();
        }
        Ok(())
    }

    /// Takes out any one value: how a dying process's table is emptied. `hint` is where to start
    /// looking and is advanced; start with 0. `None` where nothing was found among the next `most` slots.
    pub fn pop(&mut self, hint: &mut u32, most: u32) -> Option<(CapId, T)> {
        for _ in 0..most {
            let slot = self.slots.get(*hint as usize)?;
            let id = CapId::new(*hint, slot.generation);
            if slot.value.is_some() {
                return self.remove(id).ok().map(|value| (id, value));
            }
            *hint = hint.saturating_add(1);
        }
        None
    }

    /// Takes up to `most` slots away from a table that is empty and stays so. Whether none is left: then dropping it takes no time.
    pub fn give_back(&mut self, most: usize) -> bool {
        if self.live == 0 {
            self.first_free = NIL;
            self.slots.truncate(self.slots.len().saturating_sub(most));
        }
        self.slots.is_empty()
    }

    /// How many places it has, with those that are free.
    #[must_use]
    pub fn places(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// The identifiers and values at this many places from `first` on, in their order. It looks at no other place.
    pub fn part(&self, first: u32, places: u32) -> impl Iterator<Item = (CapId, &T)> {
        let slots = self.slots.get(first as usize..).unwrap_or_default();
        let places = slots.iter().take(places as usize).enumerate();
        places.filter_map(move |(at, slot)| {
            let index = first.checked_add(u32::try_from(at).ok()?)?;
            slot.value.as_ref().map(|value| (CapId::new(index, slot.generation), value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn identifiers_go_on_and_not_back() {
        let mut table = Table::new();
        let id = table.insert('a').unwrap();
        let later = CapId::new(id.index(), id.generation() + 7);
        assert_eq!(table.advance(later, id), Err(Status::BadCapability));
        assert_eq!(table.advance(id, CapId::new(id.index() + 1, later.generation())), Err(Status::BadCapability));
        assert_eq!(table.advance(id, later), Ok(()));
        assert_eq!(table.advance(later, id), Err(Status::BadCapability));
        assert_eq!((table.get(id), table.get(later)), (Err(Status::StaleCapability), Ok(&'a')));
        assert_eq!(table.remove(later), Ok('a'));
        assert_eq!(table.get(later), Err(Status::StaleCapability));
        assert_eq!(table.insert('b'), Ok(CapId::new(id.index(), later.generation() + 1)));
        // Up to the last generation, after which the slot is not used again.
        let last = CapId::new(id.index(), u32::MAX - 1);
        table.advance(CapId::new(id.index(), later.generation() + 1), last).unwrap();
        assert_eq!(table.remove(last), Ok('b'));
        assert_eq!(table.insert('c').map(CapId::index), Ok(id.index() + 1));
    }

    #[test]
    fn an_identifier_dies_with_its_value() {
        let mut table = Table::new();
        let first = table.insert('a').unwrap();
        assert_eq!(table.get(first), Ok(&'a'));
        assert_eq!(table.remove(first), Ok('a'));
        assert_eq!(table.get(first), Err(Status::StaleCapability));
        let second = table.insert('b').unwrap();
        assert_eq!(second.index(), first.index());
        assert_ne!(second, first);
        assert_eq!(table.get(first), Err(Status::StaleCapability));
        assert_eq!(table.remove(first), Err(Status::StaleCapability));
    }

    #[test]
    fn forged_identifiers_were_never_valid() {
        let mut table = Table::new();
        let id = table.insert(()).unwrap();
        for forged in
            [CapId::NULL, CapId::new(0, 0), CapId::new(0, id.generation() + 1), CapId::new(1, 1), CapId(u64::MAX)]
        {
            assert_eq!(table.get(forged), Err(Status::BadCapability), "{forged:?}");
        }
    }

    #[test]
    fn a_worn_out_slot_retires() {
        let mut table = Table::new();
        let id = table.insert(1).unwrap();
        table.slots[0].generation = u32::MAX - 1;
        let last = CapId::new(0, u32::MAX - 1);
        assert_eq!(table.remove(last), Ok(1));
        assert_eq!(table.insert(2).unwrap().index(), 1);
        assert_eq!(table.get(id), Err(Status::StaleCapability));
        assert_eq!(table.get(CapId::new(0, u32::MAX)), Err(Status::BadCapability));
    }

    /// A part of a table looks at no place beyond its end, whatever its beginning is.
    #[test]
    fn parts_end() {
        let mut table = Table::new();
        let ids: Vec<CapId> = (0..5).map(|value| table.insert(value).unwrap()).collect();
        table.remove(ids[1]).unwrap();
        let part =
            |first, places| table.part(first, places).map(|(id, value)| (id.index(), *value)).collect::<Vec<_>>();
        assert_eq!(part(0, 3), [(0, 0), (2, 2)]);
        assert_eq!(part(3, 9), [(3, 3), (4, 4)]);
        assert!(part(5, 9).is_empty() && part(u32::MAX, u32::MAX).is_empty() && part(0, 0).is_empty());
    }

    proptest! {
        /// Against a map that never forgets an identifier.
        #[test]
        fn agrees_with_a_map(operations in prop::collection::vec((any::<bool>(), any::<u16>()), 0..300)) {
            let mut table = Table::new();
            let mut given: Vec<CapId> = Vec::new();
            let mut model: HashMap<CapId, u16> = HashMap::new();
            for (insert, number) in operations {
                if insert || given.is_empty() {
                    let expected = number.is_multiple_of(2).then(|| table.next_id().unwrap());
                    let id = table.insert(number).unwrap();
                    prop_assert!(expected.is_none_or(|expected| expected == id));
                    prop_assert!(!given.contains(&id));
                    given.push(id);
                    model.insert(id, number);
                } else {
                    let id = given[number as usize % given.len()];
                    let expected = model.remove(&id).ok_or(Status::StaleCapability);
                    prop_assert_eq!(table.remove(id), expected);
                }
                prop_assert_eq!(table.len() as usize, model.len());
                for id in &given {
                    prop_assert_eq!(table.get(*id).ok(), model.get(id));
                }
            }
            let mut hint = 0;
            while let Some((id, value)) = table.pop(&mut hint, u32::MAX) {
                prop_assert_eq!(model.remove(&id), Some(value));
            }
            prop_assert!(model.is_empty() && table.is_empty());
        }
    }
}
