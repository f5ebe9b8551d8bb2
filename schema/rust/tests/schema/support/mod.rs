//! The test schema's modules, and values of its types.
#![allow(dead_code)]

use proptest::prelude::*;

use crate::everything::{
    Colour, Defaults, Json, Mixed, MixedPlace, MixedState, MixedStateBroken, MixedWhich, Pointers, Scalars, Shape,
    ShapeBox, Tree,
};

pub fn colour() -> impl Strategy<Value = Colour> {
    proptest::sample::select(Colour::ALL)
}

pub fn scalars() -> impl Strategy<Value = Scalars> {
    (any::<(bool, i8, i16, i32, i64)>(), any::<(u8, u16, u32, u64)>(), -1e30_f32..1e30, -1e300_f64..1e300, colour())
        .prop_map(|((flag, int8, int16, int32, int64), (uint8, uint16, uint32, uint64), float32, float64, colour)| {
            Scalars {
                nothing: (),
                flag,
                int8,
                int16,
                int32,
                int64,
                uint8,
                uint16,
                uint32,
                uint64,
                float32,
                float64,
                colour,
            }
        })
}

fn list<S: Strategy>(inner: S) -> impl Strategy<Value = Vec<S::Value>>
where
    S::Value: std::fmt::Debug,
{
    proptest::collection::vec(inner, 0..5)
}

pub fn pointers() -> impl Strategy<Value = Pointers> {
    (
        (".*", any::<Vec<u8>>(), ".*", scalars(), any::<Vec<bool>>(), any::<Vec<i64>>()),
        (list(-1e9_f32..1e9), list(".*"), any::<Vec<Vec<u8>>>(), list(colour()), list(scalars())),
        (any::<Vec<Vec<u16>>>(), list(list(list(".*"))), proptest::option::of(".*"), 0_usize..9),
    )
        .prop_map(
            |(
                (text, data, note, scalars, flags, numbers),
                (halves, texts, blobs, colours, structs),
                (nested, deep, maybe, nothings),
            )| Pointers {
                text,
                data,
                note: note.into_bytes(),
                scalars,
                flags,
                numbers,
                halves,
                texts,
                blobs,
                colours,
                structs,
                nested,
                deep,
                maybe,
                nothings: vec![(); nothings],
            },
        )
}

pub fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        Just(Shape::Point),
        (-1e9_f64..1e9).prop_map(Shape::Circle),
        ".*".prop_map(Shape::Label),
        colour().prop_map(Shape::Colour),
        any::<Vec<i32>>().prop_map(Shape::Corners),
        scalars().prop_map(Shape::Inside),
        any::<(u32, u32)>().prop_map(|(width, height)| Shape::Box(ShapeBox { width, height })),
    ]
}

pub fn mixed() -> impl Strategy<Value = Mixed> {
    let state = prop_oneof![
        Just(MixedState::Idle),
        any::<u32>().prop_map(MixedState::Busy),
        (".*", any::<u64>()).prop_map(|(why, when)| MixedState::Broken(MixedStateBroken { why, when })),
    ];
    let which = prop_oneof![Just(MixedWhich::Plain), ".*".prop_map(MixedWhich::Words)];
    (any::<u64>(), state, any::<(i32, i32)>(), ".*", which).prop_map(|(id, state, (x, y), r#type, which)| Mixed {
        id,
        state,
        place: MixedPlace { x, y },
        r#type,
        which,
    })
}

pub fn tree() -> impl Strategy<Value = Tree> {
    let leaf = ".*".prop_map(|name| Tree { name, ..Tree::default() });
    leaf.prop_recursive(4, 24, 3, |inner| {
        (".*", proptest::collection::vec(inner.clone(), 0..3), proptest::option::of(inner))
            .prop_map(|(name, children, best)| Tree { name, children, best: best.map(Box::new) })
    })
}

pub fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![Just(Json::Null), ".*".prop_map(Json::Text)];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Json::List),
            inner.prop_map(|inner| Json::Wrapped(Some(Box::new(inner)))),
        ]
    })
}

pub fn defaults() -> impl Strategy<Value = Defaults> {
    (any::<(u32, i16)>(), -1e9_f64..1e9, ".*", colour(), any::<(bool, u8)>()).prop_map(
        |((count, below), ratio, title, colour, (on, must))| Defaults { count, below, ratio, title, colour, on, must },
    )
}
