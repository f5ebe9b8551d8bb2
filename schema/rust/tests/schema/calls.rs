//! Clients and servers made from the test schema, connected inside the process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use crate::everything_capnp;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Context;

use capos_schema::cap::{
    AsCap, Begun, CallContext, CallError, Cap, CapTransport, Client, Dispatch, ExceptionKind, Export, Message,
    ReadResult, Rights, Status, TransferMode,
};
use capos_schema::kernel::TimerClient;
use capos_schema::local::{Local, run};

use crate::everything::*;

/// A counter that can be dropped visibly.
struct Count {
    total: Cell<i64>,
    drops: Rc<Cell<u32>>,
}

impl Drop for Count {
    fn drop(&mut self) {
        self.drops.set(self.drops.get() + 1);
    }
}

impl CounterServer for Count {
    async fn add(&self, _cx: &CallContext, by: i64) -> Result<i64, CallError> {
        let total = self.total.get().checked_add(by).ok_or_else(|| CallError::failed("the counter is full"))?;
        self.total.set(total);
        Ok(total)
    }

    async fn reset(&self, _cx: &CallContext) -> Result<(), CallError> {
        self.total.set(0);
        Ok(())
    }
}

struct Both {
    count: Count,
    name: RefCell<String>,
}

impl CounterServer for Both {
    async fn add(&self, cx: &CallContext, by: i64) -> Result<i64, CallError> {
        self.count.add(cx, by).await
    }

    async fn reset(&self, cx: &CallContext) -> Result<(), CallError> {
        self.count.reset(cx).await
    }
}

impl NamedServer for Both {
    async fn name(&self, _cx: &CallContext) -> Result<String, CallError> {
        Ok(self.name.borrow().clone())
    }
}

impl NamedCounterServer for Both {
    async fn rename(&self, _cx: &CallContext, name: String) -> Result<(), CallError> {
        *self.name.borrow_mut() = name;
        Ok(())
    }
}

struct Server {
    local: Rc<Local>,
    drops: Rc<Cell<u32>>,
}

impl EverythingServer for Server {
    async fn nothing(&self, _cx: &CallContext) -> Result<(), CallError> {
        Ok(())
    }

    async fn scalars(&self, _cx: &CallContext, params: Scalars) -> Result<Scalars, CallError> {
        Ok(params)
    }

    async fn echo(
        &self,
        _cx: &CallContext,
        pointers: Pointers,
        colour: Colour,
        data: Vec<u8>,
        texts: Vec<String>,
        shape: Shape,
    ) -> Result<EverythingEchoResults, CallError> {
        Ok(EverythingEchoResults { pointers, colour, data, texts, shape })
    }

    async fn make_counter(&self, _cx: &CallContext, start: i64) -> Result<CounterClient, CallError> {
        let count = Count { total: Cell::new(start), drops: self.drops.clone() };
        CounterClient::serve(&self.local, Rc::new(count))
    }

    async fn share(
        &self,
        cx: &CallContext,
        counter: CounterClient,
        any: MarkerClient,
        all: Vec<CounterClient>,
    ) -> Result<EverythingShareResults, CallError> {
        let mut sum = counter.add(0).await? + any.cast::<CounterClient>().add(0).await?;
        for counter in all {
            sum += counter.add(0).await?;
        }
        Ok(EverythingShareResults { sum, badge: cx.badge })
    }

    async fn handle(&self, _cx: &CallContext, handle: Handle) -> Result<Handle, CallError> {
        Ok(handle)
    }

    async fn maybe(
        &self,
        _cx: &CallContext,
        text: Option<String>,
        counter: Option<CounterClient>,
    ) -> Result<Option<String>, CallError> {
        match counter {
            Some(counter) => Ok(Some(counter.add(0).await?.to_string())),
            None => Ok(text),
        }
    }

    async fn fail(&self, _cx: &CallContext, kind: u16, reason: String) -> Result<(), CallError> {
        Err(match kind {
            0 => CallError::failed(reason),
            1 => CallError::overloaded(reason),
            2 => CallError::disconnected(reason),
            3 => CallError::unimplemented(reason),
            4 => CallError::invalid_argument(reason),
            _ => CallError::Transport(Status::Disconnected),
        })
    }

    async fn tree(
        &self,
        _cx: &CallContext,
        tree: Tree,
        json: Json,
        mixed: Mixed,
    ) -> Result<EverythingTreeResults, CallError> {
        Ok(EverythingTreeResults { tree, json, mixed })
    }

    async fn defaults(&self, _cx: &CallContext, count: u32, name: String, must: bool) -> Result<Defaults, CallError> {
        Ok(Defaults { count, title: name, on: must, ..Defaults::default() })
    }

    async fn r#match(&self, _cx: &CallContext, self_: String, r#type: String) -> Result<String, CallError> {
        Ok(format!("{self_}{type}"))
    }

    async fn lookalikes(
        &self,
        _cx: &CallContext,
        inner: Outer,
        value: Vec<Tree>,
        first: Vec<String>,
        item: Vec<Vec<String>>,
        at: String,
        number: u8,
    ) -> Result<EverythingLookalikesResults, CallError> {
        Ok(EverythingLookalikesResults { inner, value, first, item, at, number })
    }

    async fn large(&self, _cx: &CallContext, bytes: u32) -> Result<EverythingLargeResults, CallError> {
        let counter = self.make_counter(_cx, 1).await?;
        Ok(EverythingLargeResults { data: vec![7; bytes as usize], counter })
    }
}

fn start() -> (Rc<Local>, Rc<Cell<u32>>, EverythingClient) {
    let (local, drops) = (Rc::new(Local::default()), Rc::new(Cell::new(0)));
    let server = Server { local: local.clone(), drops: drops.clone() };
    let client = EverythingClient::serve(&local, Rc::new(server)).expect("exporting cannot fail here");
    (local, drops, client)
}

#[test]
fn arguments_and_results_arrive() {
    let (_, _, client) = start();
    run(async {
        client.nothing().await.expect("nothing");
        let scalars = Scalars { int64: i64::MIN, uint64: u64::MAX, colour: Colour::Green, ..Scalars::default() };
        assert_eq!(client.scalars(&scalars).await, Ok(scalars.clone()));
        let pointers = Pointers { text: "über".into(), blobs: vec![vec![], vec![1, 2]], ..Pointers::default() };
        let texts = vec!["a".to_owned(), String::new()];
        let shape = Shape::Box(ShapeBox { width: 1, height: 2 });
        let reply = client.echo(&pointers, Colour::DarkBlue, b"bytes", &texts, &shape).await.expect("echo");
        assert_eq!(reply.pointers, pointers);
        assert_eq!((reply.colour, reply.data.as_slice()), (Colour::DarkBlue, b"bytes".as_slice()));
        assert_eq!((reply.texts, reply.shape), (texts, shape));
        assert_eq!(client.r#match("a", "b").await.as_deref(), Ok("ab"));
        let defaults = client.defaults(3, "n", true).await.expect("defaults");
        assert_eq!((defaults.count, defaults.title.as_str(), defaults.below), (3, "n", -3));
    })
    .expect("nothing waits");
}

#[test]
fn arguments_may_be_called_as_generated_code_calls_its_own() {
    let (_, _, client) = start();
    let inner = Outer { inner: OuterInner { value: 3 }, all: vec![OuterInner { value: 4 }, OuterInner { value: 5 }] };
    let value = vec![Tree { name: "oak".into(), ..Tree::default() }, Tree::default()];
    let (first, item) = (vec!["a".to_owned(), "b".to_owned()], vec![vec!["c".to_owned()], vec![]]);
    let reply =
        run(client.lookalikes(&inner, &value, &first, &item, "here", 6)).expect("nothing waits").expect("lookalikes");
    let wanted = EverythingLookalikesResults { inner, value, first, item, at: "here".into(), number: 6 };
    assert_eq!(reply, wanted);
}

#[test]
fn capabilities_travel_both_ways_and_are_released() {
    let (_, drops, client) = start();
    run(async {
        let five = client.make_counter(5).await.expect("counter");
        let seven = client.make_counter(7).await.expect("counter");
        assert_eq!(five.add(1).await, Ok(6));
        let shared = client.share(&five, &seven, &[five.clone(), seven.clone()]).await.expect("share");
        assert_eq!(shared.sum, 26);
        assert_eq!(shared.badge, client.as_cap().id(), "the server sees the badge of the capability");
        let handle = Handle { name: "h".into(), counter: five.clone(), any: seven.as_cap().clone(), spare: None };
        let back = client.handle(&handle).await.expect("handle");
        assert_eq!(back, handle);
        let spare = Handle { spare: Some(seven.clone()), ..handle };
        assert_eq!(client.handle(&spare).await.expect("handle").spare, Some(seven.clone()));
        assert_eq!(client.maybe(None, Some(&seven)).await, Ok(Some("7".into())));
        assert_eq!(client.maybe(Some("t"), None).await, Ok(Some("t".into())));
        assert_eq!(client.maybe(None, None).await, Ok(None));
        assert_eq!(drops.get(), 0);
    })
    .expect("nothing waits");
    assert_eq!(drops.get(), 2, "both counters are gone with their last capability");
}

#[test]
fn exceptions_keep_kind_and_reason() {
    let (_, _, client) = start();
    let kinds = [
        ExceptionKind::Failed,
        ExceptionKind::Overloaded,
        ExceptionKind::Disconnected,
        ExceptionKind::Unimplemented,
        ExceptionKind::InvalidArgument,
        ExceptionKind::Disconnected,
    ];
    for (number, kind) in (0_u16..).zip(kinds) {
        let error = run(client.fail(number, "the reason")).expect("nothing waits").expect_err("it fails");
        let CallError::Exception(exception) = &error else { panic!("{error:?}") };
        assert_eq!(exception.kind, kind);
        assert!(number > 4 || error.to_string().ends_with(": the reason"), "{error}");
    }
}

#[test]
fn extended_interfaces_are_called_by_their_own_identifier() {
    let (local, drops, _) = start();
    let both = Both { count: Count { total: Cell::new(0), drops }, name: RefCell::default() };
    let client = NamedCounterClient::serve(&local, Rc::new(both)).expect("exporting cannot fail here");
    run(async {
        client.rename("tally").await.expect("rename");
        assert_eq!(client.add(2).await, Ok(2));
        let (named, counter) = (NamedClient::from(client.clone()), CounterClient::from(client));
        assert_eq!(named.name().await.as_deref(), Ok("tally"));
        assert_eq!(counter.add(2).await, Ok(4));
    })
    .expect("nothing waits");
}

#[test]
fn wrong_interfaces_methods_and_parameters_are_refused() {
    let (_, _, client) = start();
    run(async {
        let wrong = client.clone().cast::<CounterClient>().add(1).await;
        assert_eq!(wrong, Err(CallError::Transport(Status::WrongInterface)));
        let error = client.as_cap().call(EverythingClient::INTERFACE_ID, 99, Default::default()).await.unwrap_err();
        assert!(error.to_string().contains("Everything has no method 99"), "{error}");
        let error = client.as_cap().call(EverythingClient::INTERFACE_ID, 3, Default::default()).await.unwrap_err();
        let CallError::Exception(exception) = error else { panic!("{error:?}") };
        assert_eq!(exception.kind, ExceptionKind::InvalidArgument);
        // A capability that the schema wants is missing.
        let empty = capos_schema::wire::encode::<everything_capnp::everything::share_params::Owned>(4, |_, _| Ok(()))
            .expect("an empty message");
        let error = client.as_cap().call(EverythingClient::INTERFACE_ID, 4, empty).await.unwrap_err();
        assert!(error.to_string().contains("EverythingShareParams.counter: the capability is missing"), "{error}");
    })
    .expect("nothing waits");
}

#[test]
fn a_capability_index_outside_the_array_is_refused() {
    let (_, _, client) = start();
    run(async {
        let counter = client.make_counter(1).await.expect("counter");
        let cap = counter.as_cap().clone();
        let mut message =
            capos_schema::wire::encode::<everything_capnp::everything::share_params::Owned>(4, |mut builder, caps| {
                builder.set_counter(caps.put(&cap));
                builder.set_any(caps.put(&cap));
                Ok(())
            })
            .expect("a message");
        message.caps.pop();
        let error = client.as_cap().call(EverythingClient::INTERFACE_ID, 4, message).await.unwrap_err();
        assert!(error.to_string().contains("EverythingShareParams.any"), "{error}");
    })
    .expect("nothing waits");
}

#[test]
fn rights_and_mode_go_into_the_capability_array() {
    let (_, _, client) = start();
    let weak = client.attenuated(Rights::CALL.union(Rights::READ)).attenuated(Rights::CALL);
    let arg = weak.as_cap().to_arg();
    assert_eq!((arg.rights, arg.mode), (Rights::CALL, TransferMode::Copy));
    assert_eq!(client.moved().as_cap().to_arg().mode, TransferMode::Move);
    assert_eq!(client.as_cap().to_arg().rights, Rights::ALL);
}

#[test]
fn results_that_outgrow_the_first_guess_keep_their_capabilities() {
    let (_, drops, client) = start();
    run(async {
        let reply = client.large(100_000).await.expect("large");
        assert_eq!(reply.data.len(), 100_000);
        assert_eq!(reply.counter.add(1).await, Ok(2));
    })
    .expect("nothing waits");
    assert_eq!(drops.get(), 1);
}

/// A message that cannot be sent is not made: the sender gets the status that sending would return, and the caller an
/// error message.
#[test]
fn what_is_longer_than_a_message_is_told_to_both_sides() {
    let (_, _, client) = start();
    let refused = run(client.large(2 << 20)).expect("nothing waits").expect_err("2 MiB of results");
    assert!(refused.to_string().contains("longer than 1 MiB; send it as memory"), "{refused}");
    let long = Tree { name: "x".repeat(2 << 20), ..Tree::default() };
    let asked = run(client.tree(&long, &Json::Null, &Mixed::default())).expect("nothing waits");
    assert_eq!(asked.map(drop), Err(CallError::Transport(Status::TooLarge)));
}

#[test]
fn objects_can_be_held_without_knowing_their_type() {
    let local = Local::default();
    let drops = Rc::new(Cell::new(0));
    let count = Rc::new(Count { total: Cell::new(1), drops });
    let object: Rc<dyn Dispatch> = Rc::new(CounterService(count));
    assert_eq!(object.interface_id(), CounterClient::INTERFACE_ID);
    assert!(object.implements(CounterClient::INTERFACE_ID) && !object.implements(NamedClient::INTERFACE_ID));
    let cap: Cap = local.export(object).expect("exporting cannot fail here");
    assert_eq!(run(CounterClient::from_cap(cap).add(1)), Some(Ok(2)));
}

/// A transport that answers in registers, or does not, and whose messages all fail.
struct Registers(Option<u64>, Rc<Cell<u32>>);

impl CapTransport for Registers {
    fn begin(&self, _: (u64, u16), _: Message, _: u32, _: &mut Context<'_>, _: ReadResult<'_>) -> Begun {
        self.1.set(self.1.get() + 1);
        Begun::Ended(Err(CallError::failed("by a message")))
    }

    fn invoke(&self, method: (u64, u16)) -> Option<u64> {
        assert!([(TimerClient::INTERFACE_ID, 0), (TimerClient::INTERFACE_ID, 2)].contains(&method));
        self.0
    }

    fn id(&self) -> u64 {
        7
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn what_is_answered_in_registers_needs_no_message() {
    let messages = Rc::new(Cell::new(0));
    let timer = |number| TimerClient::from_cap(Cap::new(Registers(number, messages.clone())));
    assert_eq!(run(timer(Some(9)).now()).unwrap().unwrap(), 9);
    assert_eq!(run(timer(Some(8)).wall_clock()).unwrap().unwrap(), 8);
    assert_eq!(messages.get(), 0);
    // If they do not answer, a message asks, and its error says why.
    let refused = run(timer(None).now()).unwrap().unwrap_err();
    assert!(refused.to_string().contains("by a message"), "{refused}");
    assert_eq!(messages.get(), 1);
    // A method that is not of that kind never uses them.
    assert!(run(timer(Some(9)).sleep_until(1)).unwrap().is_err());
    assert_eq!(messages.get(), 2);
}
