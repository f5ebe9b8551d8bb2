//! A document of schemas, and the places in it that references name.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

use crate::keyword::{self, Draft, Keyword};

/// A schema that references start from: the document, or a schema inside with a name of its own.
#[derive(Clone, Copy)]
pub struct Root<'d> {
    pub schema: &'d Value,
    pub draft: Draft,
}

/// A schema, and the closest root around it.
#[derive(Clone, Copy)]
pub struct Place<'d> {
    pub schema: &'d Value,
    pub root: Root<'d>,
}

/// A document of schemas.
pub struct Document<'d> {
    root: Root<'d>,
    /// The roots inside, by name.
    named: BTreeMap<&'d str, Root<'d>>,
    /// The anchors of all roots. None if several places have the same one.
    anchors: BTreeMap<&'d str, Option<Place<'d>>>,
}

impl<'d> Document<'d> {
    pub fn new(root: &'d Value) -> Self {
        let root = Root { schema: root, draft: Draft::of(root).unwrap_or(Draft::Y2020) };
        let mut document = Self { root, named: BTreeMap::new(), anchors: BTreeMap::new() };
        let mut fresh = Vec::from([root.place()]);
        while let Some(place) = fresh.pop() {
            let place = place.entered();
            let draft = place.root.draft;
            if let Some(id) = keyword::id(place.schema, draft) {
                document.named.entry(id).or_insert(place.root);
            }
            for name in keyword::anchors(place.schema, draft) {
                document.anchors.entry(name).and_modify(|found| *found = None).or_insert(Some(place));
            }
            let members = place.schema.as_object().into_iter().flatten();
            let schemas = members.flat_map(|(key, value)| schemas(Keyword::of(key), value));
            fresh.extend(schemas.map(|schema| Place { schema, ..place }));
        }
        document
    }

    /// The place of the whole document.
    pub fn whole(&self) -> Place<'d> {
        self.root.place()
    }

    /// The place that a reference names in a schema with this root. None if it is outside of this document or ambiguous.
    pub fn find(&self, reference: &str, root: Root<'d>) -> Option<Place<'d>> {
        let (name, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let root = match name {
            "" => root,
            name => *self.named.get(name)?,
        };
        let fragment = decoded(fragment)?;
        if fragment.is_empty() {
            return Some(root.place());
        }
        let Some(pointer) = fragment.strip_prefix('/') else {
            return *self.anchors.get(fragment.as_str())?;
        };
        let (mut place, mut holder) = (root.place(), Keyword::One);
        for step in pointer.split('/') {
            let step = step.replace("~1", "/").replace("~0", "~");
            let (schema, keyword) = match place.schema {
                Value::Object(members) => (members.get(&step)?, holder.member(&step)),
                Value::Array(items) if step.bytes().all(|byte| byte.is_ascii_digit()) => {
                    (items.get(step.parse::<usize>().ok()?)?, holder.item())
                }
                _ => return None,
            };
            (place.schema, holder) = (schema, keyword);
            // An object that is no schema, such as the schemas by name in `properties`, has no name of its own.
            if matches!(keyword, Keyword::One | Keyword::OneOrList) {
                place = place.entered();
            }
        }
        Some(place)
    }
}

impl<'d> Root<'d> {
    fn place(self) -> Place<'d> {
        Place { schema: self.schema, root: self }
    }
}

impl<'d> Place<'d> {
    /// The same place, with its schema as the root if that has a name of its own.
    pub fn entered(self) -> Self {
        let draft = Draft::of(self.schema).unwrap_or(self.root.draft);
        match keyword::id(self.schema, draft) {
            Some(_) => Root { schema: self.schema, draft }.place(),
            None => self,
        }
    }
}

/// The schemas that a member of this kind holds.
fn schemas(keyword: Keyword, value: &Value) -> impl Iterator<Item = &Value> {
    let one = matches!(keyword, Keyword::One | Keyword::OneOrList).then_some(value);
    let list = matches!(keyword, Keyword::List | Keyword::OneOrList).then_some(value);
    let named = matches!(keyword, Keyword::Named | Keyword::Definitions).then_some(value);
    let listed = list.and_then(Value::as_array).into_iter().flatten();
    let by_name = named.and_then(Value::as_object).into_iter().flat_map(|members| members.values());
    one.into_iter().chain(listed).chain(by_name)
}

/// A fragment with its percent-encoded bytes decoded.
fn decoded(fragment: &str) -> Option<String> {
    if !fragment.contains('%') {
        return Some(fragment.to_string());
    }
    let mut bytes = Vec::new();
    let mut rest = fragment;
    while let Some((before, behind)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let (digits, after) = behind.split_at_checked(2)?;
        let both = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| both)?);
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}
