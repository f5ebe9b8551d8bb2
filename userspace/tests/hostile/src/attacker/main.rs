//! An ordinary process that attacks the kernel. Its first argument names the attack.
//!
//! It ends with code 0 if the kernel withstood, with code 1 and a line in the log if it did not;
//! some attacks are meant to end the process. The runner knows which.
#![cfg_attr(capos_guest, no_std, no_main)]
extern crate alloc;

mod calls;
mod canary;
mod capabilities;
mod devices;
mod exhaust;
mod fields;
mod invoke;
mod kit;
mod memory;
mod noise;
mod operations;
mod pager;
mod pointers;
mod privilege;
mod random;
mod threads;
mod waits;

use alloc::format;
use alloc::string::String;

use capos_rt::{Context, Env, Error};

use kit::Kit;

fn hexadecimal(text: &str) -> Result<u64, Error> {
    u64::from_str_radix(text, 16).context("a hexadecimal argument")
}

/// Uses CPU time for ever, in one of several ways.
async fn spend(kit: &Kit, way: &str) -> Result<(), Error> {
    match way {
        "enter" => noise::enter(),
        "nops" => noise::no_operations(),
        "calls" => noise::call_itself(kit),
        "signals" => noise::notify(kit),
        "child" => exhaust::child_spends(kit, 0).await,
        "limited-child" => exhaust::child_spends(kit, 100_000_000).await,
        _ => noise::spin(),
    }
}

/// Arguments that take more memory than a process begins with: all of them are there.
fn huge_arguments(env: &Env) -> Result<(), Error> {
    let many = env.arguments().iter().skip(2).enumerate();
    let whole = many.filter(|(at, argument)| argument.starts_with(&format!("{at}")) && argument.len() > 1000).count();
    kit::ensure(whole == 500, || format!("{whole} of 500 arguments came"))
}

async fn attack(env: &Env, name: &str, argument: &str) -> Result<(), Error> {
    // Attacks that need nothing come first, so that an attack is as plain as it can be.
    match name {
        "canary" => return canary::sing(env).await,
        "call-with-few-frames" => return canary::ask(env).await,
        "nothing" => return Ok(()),
        "read" | "write" | "jump" => return memory::access(name, hexadecimal(argument)?),
        "instruction" => return privilege::instruction(argument),
        "system-call" => return privilege::system_call(hexadecimal(argument)?),
        "exit-scope" => return threads::exit_scope(hexadecimal(argument)?),
        "gs-base" => return privilege::gs_base(),
        "descriptor-tables" => return privilege::tables(),
        "write-constants" => return memory::write_constants(),
        "write-code" => return memory::write_code(),
        "write-launch-record" => return memory::write_record(),
        "run-stack" => return memory::run_stack(),
        "run-heap" => return memory::run_heap(),
        "run-ring" => return memory::run_ring(),
        "stack-overflow" => return memory::overflow_stack(),
        "write-alias" => return memory::write_alias().await,
        "read-weights" => return pager::read_pages(env, u8::try_from(hexadecimal(argument)?).unwrap_or(0)).await,
        "huge-arguments" => return huge_arguments(env),
        "spin" => noise::spin(),
        "enter" => noise::enter(),
        _ => {}
    }
    let kit = &Kit::new(env).await?;
    let seed = || hexadecimal(argument);
    match name {
        "pointers" => pointers::run(kit).await,
        "overlapping-buffers" => pointers::overlapping(kit).await,
        "reserved-fields" => fields::reserved(kit).await,
        "opcodes" => fields::opcodes(kit).await,
        "sizes" => fields::sizes(kit).await,
        "malformed-messages" => fields::messages(kit).await,
        "forged-capabilities" => capabilities::forged(kit).await,
        "stale-capabilities" => capabilities::stale(kit).await,
        "missing-rights" => capabilities::rights(kit).await,
        "release-own" => capabilities::release_own(kit).await,
        "revoke-all" => capabilities::revoke_all(kit).await,
        "invoke-registers" => invoke::registers(kit).await,
        "invoke-refusals" => invoke::refusals(kit).await,
        "invoke-random" => invoke::random(kit, seed()?).await,
        "random-entries" => random::entries(kit, seed()?).await,
        "random-rings" => random::rings(kit, seed()?).await,
        "random-operations" => operations::run(kit, seed()?).await,
        "random-kernel-words" => random::kernel_words(kit, seed()?).await,
        "receive-into-rings" => random::receive_into(kit).await,
        "corrupt-tail" => random::tail(kit, seed()?).await,
        "corrupt-head" => random::head(kit, seed()?).await,
        "word-waiters" => threads::waiters(kit).await,
        "thread-storm" => threads::storm(kit).await,
        "own-thread" => threads::own(kit).await,
        "unmapped-rings" => threads::unmapped_rings(kit).await,
        "ended-threads" => threads::ended(kit).await,
        "copies-elsewhere" => threads::copies_elsewhere(kit).await,
        "stale-translation" => threads::stale_translation(kit).await,
        "busy-elsewhere" => threads::busy_elsewhere(kit).await,
        "revoke-elsewhere" => threads::revoke_elsewhere(kit).await,
        "changing-entries" => threads::changing_entries(kit).await,
        "answer-twice" => calls::answer_twice(kit).await,
        "drop-reply" => calls::drop_reply(kit).await,
        "pass-reply" => calls::pass_reply(kit).await,
        "answer-cancelled" => calls::answer_cancelled(kit).await,
        "call-itself" => calls::call_itself(kit).await,
        "move-in-flight" => calls::move_in_flight(kit).await,
        "cancel-all" => calls::cancel_all(kit).await,
        "end-in-flight" => calls::end_in_flight(kit).await,
        "send-itself" => calls::send_itself(kit).await,
        "wait-on-replies" => waits::on_replies(kit).await,
        "wait-on-many-replies" => waits::on_many_replies(kit).await,
        "derive-deep" => calls::derive_deep(kit).await,
        "exhaust-frames" => exhaust::frames(kit).await,
        "exhaust-page-tables" => exhaust::page_tables(kit).await,
        "exhaust-capabilities" => exhaust::capabilities(kit).await,
        "exhaust-objects" => exhaust::objects(kit).await,
        "exhaust-processes" => exhaust::processes(kit).await,
        "exhaust-threads" => exhaust::threads(kit).await,
        "exhaust-ring-slots" => exhaust::ring_slots(kit).await,
        "exhaust-operations" => exhaust::in_flight(kit).await,
        "exhaust-machine" => exhaust::machine(kit).await,
        "exhaust-kernel-heap" => exhaust::kernel_heap(kit).await,
        "bad-threads" => exhaust::bad_threads(kit).await,
        "account-chain" => exhaust::account_chain(kit).await,
        "kept-objects" => exhaust::kept_objects(kit).await,
        "dead-process" => exhaust::dead_process(kit).await,
        "devices" => devices::run(kit).await,
        "random-mappings" => memory::random(kit, seed()?).await,
        "answer-from-weights" => pager::answer_from_weights(kit).await,
        "orphans" => exhaust::orphans(kit).await,
        "bad-mappings" => memory::maps(kit).await,
        "mapping-rights" => memory::map_rights(kit).await,
        "confuse-objects" => memory::confuse(kit).await,
        "revoked-mapping" => memory::revoked(kit).await,
        "unmap-ring" => memory::unmap_ring(kit).await,
        "unmap-code" => memory::unmap_code(kit).await,
        "unmap-stack" => memory::unmap_stack(kit).await,
        "unmap-all" => memory::unmap_all(kit).await,
        "write-weights" => memory::weights(kit).await,
        "processor-states" => privilege::states(kit),
        "log" => noise::log(kit).await,
        "sleep" => noise::sleep(kit).await,
        "spend-time" => spend(kit, argument).await,
        "cut-account" => exhaust::cut_account(kit).await,
        "storm-of-nops" => noise::no_operations(),
        "storm-of-calls" => noise::call_itself(kit),
        "storm-of-signals" => noise::notify(kit),
        "pager" => pager::serve(kit, argument).await,
        "copy-weights" => pager::copy_pages(kit, argument).await,
        "read-weights-by-kernel" => pager::read_by_kernel(kit).await,
        "own-pager" => pager::own_pager(kit, false).await,
        "own-pager-by-kernel" => pager::own_pager(kit, true).await,
        "revoked-pager" => pager::revoked_pager(kit, false).await,
        "revoked-pager-by-kernel" => pager::revoked_pager(kit, true).await,
        "bad-paged-memory" => pager::bad_objects(kit).await,
        _ => Err(Error::new(format!("there is no attack `{name}`"))),
    }
}

async fn run(env: Env) -> Result<(), Error> {
    let argument = |at: usize| env.arguments().get(at).cloned().unwrap_or_else(String::new);
    attack(&env, &argument(0), &argument(1)).await
}

capos_rt::program!(run);
