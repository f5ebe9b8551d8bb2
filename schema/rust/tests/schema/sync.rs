//! Synchronous dispatch, as the kernel uses it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use crate::{everything, everything_capnp};
use capos_schema::cap::IncomingMessage;
use capos_schema::sync::{self, Completion, Exception};
use capos_schema::wire;

use crate::everything_capnp::counter;
use crate::everything_dispatch::{COUNTER, COUNTER_METHODS, CounterKernel, dispatch_counter};

struct Object;

impl CounterKernel<i64> for Object {
    fn add(
        &self,
        cx: &mut i64,
        params: counter::add_params::Reader<'_>,
        mut results: counter::add_results::Builder<'_>,
    ) -> Result<Completion, Exception> {
        if params.get_by() == 0 {
            return Ok(Completion::Pending);
        }
        *cx += params.get_by();
        results.set_total(*cx);
        Ok(Completion::Done)
    }

    fn reset(
        &self,
        _cx: &mut i64,
        _params: counter::reset_params::Reader<'_>,
        _results: counter::reset_results::Builder<'_>,
    ) -> Result<Completion, Exception> {
        Err(Exception::failed("never"))
    }
}

fn add(by: i64) -> Vec<capnp::Word> {
    wire::encode::<counter::add_params::Owned>(4, |mut builder, _| {
        builder.set_by(by);
        Ok(())
    })
    .expect("it fits")
    .words
}

#[test]
fn a_method_is_found_by_its_ordinal() {
    let mut total = 40;
    let answer = sync::call(&add(2), |params, results| dispatch_counter(&Object, &mut total, 0, params, results))
        .expect("it adds");
    assert_eq!((answer.completion, answer.order.len()), (Completion::Done, 0));
    let reply = IncomingMessage { words: answer.words, caps: Vec::new() };
    let total = wire::decode::<counter::add_results::Owned, _>(&reply, |reader, _| Ok(reader.get_total()));
    assert_eq!(total, Ok(42));
    assert_eq!(COUNTER, everything::CounterClient::INTERFACE_ID);
    assert_eq!(COUNTER_METHODS, ["add", "reset"]);
}

#[test]
fn a_pending_answer_has_no_words() {
    let answer =
        sync::call(&add(0), |params, results| dispatch_counter(&Object, &mut 0, 0, params, results)).expect("it waits");
    assert_eq!(answer.completion, Completion::Pending);
    assert!(answer.words.is_empty());
}

#[test]
fn refusals_come_in_words() {
    let error = sync::call(&add(1), |params, results| dispatch_counter(&Object, &mut 0, 1, params, results));
    assert_eq!(error.unwrap_err().to_string(), "failed: never");
    let error = sync::call(&add(1), |params, results| dispatch_counter(&Object, &mut 0, 2, params, results));
    assert_eq!(error.unwrap_err().to_string(), "unimplemented: Counter has no method 2");
    let error = sync::call(&[], |params, results| dispatch_counter(&Object, &mut 0, 0, params, results));
    assert!(error.unwrap_err().to_string().starts_with("invalid argument"));
}

#[test]
fn capabilities_are_numbered_in_the_order_of_the_message() {
    use everything_capnp::everything::large_results;
    for bytes in [8_u32, 100_000] {
        let answer = sync::results(|root| {
            let mut results: large_results::Builder<'_> = root.init_as();
            results.set_counter(sync::capability());
            results.reborrow().init_data(bytes).fill(7);
            Ok(Completion::Done)
        })
        .expect("it fits");
        assert_eq!(answer.order, [0]);
        let local = capos_schema::local::Local::default();
        let cap = capos_schema::cap::Export::export(
            &local,
            std::rc::Rc::new(everything::CounterService(std::rc::Rc::new(Never))),
        )
        .expect("exporting cannot fail here");
        let reply = IncomingMessage { words: answer.words, caps: vec![cap.clone()] };
        let results: everything::EverythingLargeResults = wire::decode_value(&reply).expect("one segment");
        assert_eq!(results.data.len(), bytes as usize);
        assert_eq!(results.counter, capos_schema::cap::Client::from_cap(cap));
    }
}

struct Never;

impl everything::CounterServer for Never {
    async fn add(&self, _cx: &capos_schema::cap::CallContext, _by: i64) -> Result<i64, capos_schema::cap::CallError> {
        Err(capos_schema::cap::CallError::failed("never"))
    }

    async fn reset(&self, _cx: &capos_schema::cap::CallContext) -> Result<(), capos_schema::cap::CallError> {
        Err(capos_schema::cap::CallError::failed("never"))
    }
}
