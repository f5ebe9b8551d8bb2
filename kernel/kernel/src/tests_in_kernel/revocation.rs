//! Tests of what revocation costs. The scenario counts instructions in place of time.

use alloc::string::String;
use alloc::sync::Arc;

use super::bench::{memory, settle};
use crate::memory::page_table::Access;
use crate::object::account::Account;
use crate::object::address_space::Backing;
use crate::object::process::{Cause, End, Process};
use crate::{derivation, log, time};

/// What the measured processes may hold.
const LIMITS: [u64; 5] = [2048, 64, 4, 4, 32];
const BASE: u64 = 0x100_0000;

/// Instructions that revoking `count` mappings of one object takes, where a mapping that is not revoked
/// lies between each two.
fn revoke_mappings(account: &Arc<Account>, count: u64) -> u64 {
    let own = account.carve(LIMITS).unwrap();
    let process = Process::new(String::from("mapper"), own, None).unwrap();
    let object = memory(&process.account, 1, 1);
    let access = Access { read: true, ..Access::default() };
    let root = derivation::add(None, derivation::Holder::Kernel).unwrap();
    let node = derivation::add(Some(root), derivation::Holder::Kernel).unwrap();
    let before = process.account.usage();
    for page in 0..count * 2 {
        let range = (BASE + page * 4096, 4096);
        let through = page.is_multiple_of(2).then_some(node);
        process.space.map(Backing::Memory(Arc::clone(&object)), range, 0, access, through).unwrap();
    }
    let bookkeeping = process.account.usage()[0] - before[0];
    assert!(bookkeeping * 12 >= count * 2, "{bookkeeping} frames are charged for {} regions", count * 2);
    let start = time::tsc();
    derivation::revoke(root);
    let cost = time::tsc() - start;
    assert!(process.space.check(BASE, 1, false).is_err());
    assert!(process.space.check(BASE + 4096, 1, false).is_ok());
    derivation::forget(node);
    derivation::forget(root);
    process.doom(End { cause: Cause::Exited, code: 0, report: String::new() });
    settle();
    cost
}

/// Revoking many mappings costs not much more for each of them than revoking few.
pub fn many_mappings_cost_as_few(account: &Arc<Account>) {
    let [few, more, many] = [100, 1000, 10_000].map(|count| {
        let cost = revoke_mappings(account, count) / count;
        log!("revoking {count} mappings among as many others: {cost} instructions each");
        cost
    });
    assert!(more < few * 2 && many < few * 3, "{few}, {more} and {many} instructions for each mapping");
}
