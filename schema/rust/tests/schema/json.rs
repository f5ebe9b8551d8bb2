//! JSON by reflection, against the schema of every type: it agrees with the typed values.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use crate::{everything, everything_capnp};
use capnp::introspect::{Introspect, Type};
use capos_reflect::{decode, decode_results, encode, encode_params, parse, validate};
use capos_schema::cap::{AsCap, CallContext, CallError, IncomingMessage};
use capos_schema::local::{Local, run};
use capos_schema::reflection::{InterfaceInfo, MethodInfo};
use capos_schema::wire::{Wire, decode_value, encode_value};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{defaults, json as any_json, mixed, pointers, scalars, shape, tree};

const EVERYTHING: &InterfaceInfo = &everything::EVERYTHING_INTERFACE;

fn method(name: &str) -> &'static MethodInfo {
    EVERYTHING.method(name).expect("the method is in the table")
}

fn arrive(message: capos_schema::cap::Message) -> IncomingMessage {
    IncomingMessage { words: message.words, caps: message.caps.into_iter().map(|arg| arg.cap).collect() }
}

/// Typed value to JSON and back, through text.
fn round<T: Wire + PartialEq + std::fmt::Debug>(value: &T) -> Value
where
    T::Capnp: Introspect,
{
    let ty: Type = <T::Capnp as Introspect>::introspect();
    let message = arrive(encode_value(value).expect("it fits"));
    let told = decode(ty, &message).expect("it can be told");
    let text = told.to_string();
    let heard = parse(&text).expect("what is told is JSON");
    let back = encode(ty, &heard).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!(&decode_value::<T>(&arrive(back)).expect("it can be read"), value, "{text}");
    told
}

proptest! {
    #[test]
    fn scalars_round_trip(value in scalars()) { round(&value); }

    #[test]
    fn pointers_round_trip(value in pointers()) { round(&value); }

    #[test]
    fn unions_round_trip(value in shape()) { round(&value); }

    #[test]
    fn structs_that_hold_themselves_round_trip(value in tree()) { round(&value); }

    #[test]
    fn fields_with_defaults_round_trip(value in defaults()) { round(&value); }

    #[test]
    fn what_is_told_fits_the_json_schema(tree in tree(), json in any_json(), mixed in mixed(), pointers in pointers(), shape in shape()) {
        let value = json!({"tree": round(&tree), "json": round(&json), "mixed": round(&mixed)});
        let schema = parse(method("tree").params_schema).expect("the schema is JSON");
        prop_assert_eq!(validate(&schema, &value), Ok(()));
        let value = json!({
            "pointers": round(&pointers), "colour": "red", "data": "AA==", "texts": [], "shape": round(&shape),
        });
        let schema = parse(method("echo").results_schema).expect("the schema is JSON");
        prop_assert_eq!(validate(&schema, &value), Ok(()));
    }

    #[test]
    fn arbitrary_messages_are_told_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let message = IncomingMessage::from_bytes(&bytes, Vec::new());
        let _ = decode_results(method("echo"), &message);
        let _ = decode_results(method("tree"), &message);
    }
}

#[test]
fn the_form_is_the_documented_one() {
    use everything::{Mixed, MixedPlace, MixedState, MixedStateBroken, MixedWhich};
    let value = Mixed {
        id: u64::MAX,
        state: MixedState::Broken(MixedStateBroken { why: "w".into(), when: 3 }),
        place: MixedPlace { x: -1, y: 2 },
        r#type: "t".into(),
        which: MixedWhich::Plain,
    };
    assert_eq!(
        round(&value),
        json!({"id": u64::MAX, "state": {"broken": {"why": "w", "when": 3}}, "place": {"x": -1, "y": 2}, "type": "t", "plain": null})
    );
}

#[test]
fn what_is_not_exactly_right_is_refused_with_its_place() {
    let mixed = json!({"id": 1, "plain": null, "state": {"idle": null}, "place": {"x": 0, "y": 0}, "type": ""});
    let good = json!({"tree": {"name": "", "children": []}, "json": {"null": null}, "mixed": mixed});
    assert!(encode_params(method("tree"), &good).is_ok());
    let change = |pointer: &str, value: Value| {
        let mut changed = good.clone();
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        let parent = changed.pointer_mut(parent).expect("the parent exists");
        match value {
            Value::String(word) if word == "remove" => {
                parent.as_object_mut().expect("an object").remove(name);
            }
            value => parent[name] = value,
        }
        encode_params(method("tree"), &changed).expect_err("it is wrong").to_string()
    };
    for (pointer, value, expected) in [
        ("/more", json!(1), "$.more: there is no field of this name"),
        ("/tree", json!("remove"), "$: the field \"tree\" is missing"),
        ("/tree", json!([]), "$.tree: expected an object, found an array"),
        ("/tree/name", json!("remove"), "$.tree: the field \"name\" is missing"),
        ("/tree/name", json!(3), "$.tree.name: expected a string, found a number"),
        ("/tree/name", json!(null), "$.tree.name: expected a string, found null"),
        ("/tree/children", json!({}), "$.tree.children: expected an array, found an object"),
        ("/tree/children", json!([{"name": "", "children": []}, 4]), "$.tree.children[1]: expected an object"),
        ("/tree/best", json!({"name": ""}), "$.tree.best: the field \"children\" is missing"),
        ("/json", json!({}), "$.json: expected exactly one of null, text, list, wrapped"),
        ("/json/text", json!(""), "$.json: expected exactly one of"),
        ("/json/null", json!(0), "$.json.null: expected null, found a number"),
        ("/mixed/id", json!(-1), "$.mixed.id: the integer -1 is out of range"),
        ("/mixed/id", json!(1.5), "$.mixed.id: expected an integer, found 1.5"),
        ("/mixed/id", json!("1"), "$.mixed.id: expected an integer, found a string"),
        ("/mixed/place/x", json!(2_147_483_648_u64), "$.mixed.place.x: the integer 2147483648 is out of range"),
        ("/mixed/state", json!({"busy": 1, "idle": null}), "$.mixed.state: expected exactly one of idle, busy, broken"),
        ("/mixed/plain", json!("remove"), "$.mixed: expected exactly one of plain, words"),
        ("/mixed/state", json!({"idle": null, "x": 1}), "$.mixed.state.x: there is no field"),
        ("/mixed/$id", json!(1), "$.mixed[\"$id\"]: there is no field"),
    ] {
        let error = change(pointer, value);
        assert!(error.starts_with(expected), "{error}");
    }
    let error = encode_params(method("tree"), &json!(null)).expect_err("it is no object").to_string();
    assert_eq!(error, "$: expected an object, found null");
}

#[test]
fn scalars_keep_their_ranges() {
    let ty = everything_capnp::scalars::Owned::introspect();
    let good = json!({"flag": true, "int8": -128, "int16": 0, "int32": 0, "int64": i64::MIN, "uint8": 255, "uint16": 0,
        "uint32": 0, "uint64": u64::MAX, "float32": 1, "float64": -0.5, "colour": "darkBlue"});
    encode(ty, &good).expect("all are in range");
    for (name, value, part) in [
        ("flag", json!(1), "expected a boolean"),
        ("int8", json!(-129), "out of range"),
        ("int64", json!(u64::MAX), "out of range"),
        ("uint8", json!(256), "out of range"),
        ("uint64", json!(1e3), "expected an integer, found 1000.0"),
        ("float32", json!(1e39), "32-bit float"),
        ("float64", json!("NaN"), "expected a number"),
        ("colour", json!("Red"), "expected one of red, green, darkBlue"),
        ("colour", json!(0), "expected a string"),
        ("nothing", json!(0), "expected null"),
    ] {
        let mut bad = good.clone();
        bad[name] = value;
        let error = encode(ty, &bad).expect_err("it is wrong").to_string();
        assert!(error.starts_with(&format!("$.{name}: ")) && error.contains(part), "{error}");
    }
}

#[test]
fn bytes_are_base64_and_notes_are_text() {
    use everything::Pointers;
    let value = Pointers { data: vec![0, 255], note: "ü".into(), ..Pointers::default() };
    let told = round(&value);
    assert_eq!((&told["data"], &told["note"]), (&json!("AP8="), &json!("ü")));
    assert!(told.get("maybe").is_none(), "what is absent is not told");
    let mut bad = told.clone();
    bad["data"] = json!("AP8");
    let error = encode(everything_capnp::pointers::Owned::introspect(), &bad).expect_err("no padding");
    assert_eq!(error.to_string(), "$.data: expected bytes as base64 with padding");
    let value = Pointers { note: vec![0xff], ..Pointers::default() };
    let message = arrive(encode_value(&value).expect("it fits"));
    let error = decode(everything_capnp::pointers::Owned::introspect(), &message).expect_err("not UTF-8");
    assert_eq!(error.to_string(), "$.note: the data is not UTF-8");
}

#[test]
fn deep_json_is_refused_and_deep_messages_are_too() {
    let mut value = json!({"null": null});
    for _ in 0..70 {
        value = json!({"wrapped": value});
    }
    let ty = everything_capnp::json::Owned::introspect();
    assert!(encode(ty, &value).expect_err("too deep").to_string().contains("deeper"));
}

#[test]
fn a_message_that_claims_millions_of_values_is_refused() {
    use everything::Pointers;
    let value = Pointers { nothings: vec![(); 1 << 20], ..Pointers::default() };
    let message = arrive(encode_value(&value).expect("it is a few words"));
    assert!(message.words.len() < 100);
    let error = decode(everything_capnp::pointers::Owned::introspect(), &message).expect_err("too much");
    assert!(error.to_string().contains("values") || error.to_string().contains("limit"), "{error}");
}

#[test]
fn absent_fields_take_their_defaults() {
    let message = encode_params(method("defaults"), &json!({"must": true})).expect("the others have defaults");
    let told = decode((method("defaults").params_type)(), &arrive(message)).expect("it can be told");
    assert_eq!(told, json!({"count": 7, "name": "x", "must": true}));
    let told = encode(everything_capnp::defaults::Owned::introspect(), &json!({"must": 1})).expect("all others");
    let value: everything::Defaults = decode_value(&arrive(told)).expect("it can be read");
    assert_eq!(value, everything::Defaults { must: 1, ..Default::default() });
}

#[test]
fn methods_that_take_capabilities_are_refused() {
    let error = encode_params(method("share"), &json!({})).expect_err("it takes capabilities");
    assert!(error.to_string().contains("takes capabilities"));
    assert!(method("share").takes_capabilities && method("makeCounter").gives_capabilities);
}

#[test]
fn json_schemas_say_what_is_required_and_in_which_range() {
    let schema = parse(method("defaults").params_schema).expect("the schema is JSON");
    assert_eq!(schema["required"], json!(["must"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(schema["properties"]["count"]["maximum"], json!(u32::MAX));
    let schema = parse(method("scalars").params_schema).expect("the schema is JSON");
    assert_eq!(schema["description"], json!("Every scalar."));
    assert_eq!(schema["properties"]["int64"]["minimum"], json!(i64::MIN));
    assert_eq!(schema["properties"]["uint64"]["maximum"], json!(u64::MAX));
    assert_eq!(schema["properties"]["colour"]["enum"], json!(["red", "green", "darkBlue"]));
    for method in EVERYTHING.methods {
        for schema in [method.params_schema, method.results_schema] {
            let schema = parse(schema).expect("the schema is JSON");
            assert_eq!(capos_reflect::check_schema(&schema), Ok(()), "{}", method.name);
        }
    }
}

#[test]
fn annotations_reach_the_table() {
    let echo = method("echo");
    assert_eq!((echo.tool, echo.timeout_ms, echo.label), (Some("echo_all"), Some(1500), Some("pii")));
    assert!(echo.abortable && echo.untrusted && !echo.pieces);
    assert_eq!(echo.doc, "Returns its argument.");
    assert_eq!(method("fail").category, None);
}

struct Counter;

impl everything::CounterServer for Counter {
    async fn add(&self, _cx: &CallContext, by: i64) -> Result<i64, CallError> {
        Ok(by * 2)
    }

    async fn reset(&self, _cx: &CallContext) -> Result<(), CallError> {
        Ok(())
    }
}

#[test]
fn a_method_is_called_with_json_alone() {
    let local = Local::default();
    let client =
        everything::CounterClient::serve(&local, std::rc::Rc::new(Counter)).expect("exporting cannot fail here");
    let info = &everything::COUNTER_INTERFACE;
    let add = info.method("add").expect("add");
    let params = encode_params(add, &parse(r#"{"by": 21}"#).expect("JSON")).expect("it fits");
    let reply = run(client.as_cap().call(info.id, add.ordinal, params)).expect("nothing waits").expect("it answers");
    assert_eq!(decode_results(add, &reply), Ok(json!({"total": 42})));
}

/// Whether generated code and capnp's own readers agree on any words: `None` if both refuse them.
fn read_by_both<T: Wire + PartialEq + std::fmt::Debug>(words: Vec<capnp::Word>) -> Option<bool>
where
    T::Capnp: Introspect,
    for<'a> <T::Capnp as capnp::traits::Owned>::Reader<'a>: capnp::traits::SetterInput<T::Capnp>,
{
    let message = IncomingMessage { words, caps: Vec::new() };
    match (decode_value::<T>(&message), decode(<T::Capnp as Introspect>::introspect(), &message)) {
        (Ok(here), Ok(_)) => {
            // capnp also copies fields that the schema does not know: damage there keeps it from that.
            let copied = capos_schema::wire::decode::<T::Capnp, _>(&message, |reader, _| {
                // With room for all of it, as one segment.
                let room = capnp::message::HeapAllocator::new().first_segment_words(1 << 16);
                let mut copy = capnp::message::Builder::new(room);
                let copied = copy.set_root::<T::Capnp>(reader);
                Ok(copied.is_ok().then(|| copy.get_segments_for_output().concat()))
            });
            let Some(copied) = copied.expect("it has a root") else { return Some(false) };
            let copied = capos_schema::wire::from_bytes::<T>(&copied);
            assert!(copied.as_ref() == Ok(&here), "capnp reads otherwise: {:?}", copied.err());
            Some(true)
        }
        (Ok(_), Err(error)) => {
            // Here an empty list is the same whatever its element type, and bytes are not text yet.
            let error = error.to_string();
            let known = ["incompatible element type", "list was expected", "the data is not UTF-8"];
            assert!(known.iter().any(|known| error.contains(known)), "only capnp refuses it: {error}");
            Some(false)
        }
        (Err(error), Ok(_)) => {
            // capnp takes the first bits of longer elements.
            assert!(error.to_string().contains("no flags"), "only capnp reads it: {error}");
            Some(false)
        }
        (Err(_), Err(_)) => None,
    }
}

#[test]
fn capnp_reads_the_same_of_damaged_messages() {
    fn damaged<T: Wire>(value: &T, bits: &[prop::sample::Index]) -> Vec<capnp::Word> {
        let mut words = encode_value(value).expect("it fits").words;
        let bytes = capnp::Word::words_to_bytes_mut(&mut words);
        for bit in bits {
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        words
    }
    let config = proptest::test_runner::Config { cases: 3000, failure_persistence: None, ..Default::default() };
    let rng = proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(config, rng);
    let read = std::cell::RefCell::new([0; 3]);
    let note = |how: Option<bool>| read.borrow_mut()[how.map_or(0, |same| 1 + usize::from(same))] += 1;
    let damage = proptest::collection::vec(any::<prop::sample::Index>(), 1..4);
    let values = (pointers(), mixed(), tree(), shape(), defaults(), damage);
    runner
        .run(&values, |(pointers, mixed, tree, shape, defaults, bits)| {
            note(read_by_both::<everything::Pointers>(damaged(&pointers, &bits)));
            note(read_by_both::<everything::Mixed>(damaged(&mixed, &bits)));
            note(read_by_both::<everything::Tree>(damaged(&tree, &bits)));
            note(read_by_both::<everything::Shape>(damaged(&shape, &bits)));
            note(read_by_both::<everything::Defaults>(damaged(&defaults, &bits)));
            Ok(())
        })
        .expect("both read the same");
    let [refused, in_part, same] = read.into_inner();
    assert!(refused > 4000 && same > 4000 && in_part < 1500, "{refused} refused, {in_part} in part, {same} the same");
}
