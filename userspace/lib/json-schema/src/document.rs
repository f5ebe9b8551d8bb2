//! A document, and what references in it name.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

use crate::keyword::{self, Keyword};

/// A schema, and the one from whose root its references count: the closest around it that has a name of its own.
#[derive(Clone, Copy)]
pub struct Place<'d> {
    pub schema: &'d Value,
    pub root: &'d Value,
}

/// A document of schemas.
pub struct Document<'d> {
    root: &'d Value,
    /// Schemas with names of their own.
    named: Vec<(&'d str, &'d Value)>,
    /// Names that count within the schemas which are their roots.
    anchors: Vec<(&'d str, Place<'d>)>,
}

impl<'d> Document<'d> {
    pub fn new(root: &'d Value) -> Self {
        let mut document = Self { root, named: Vec::new(), anchors: Vec::new() };
        let mut fresh = Vec::from([Place { schema: root, root }]);
        while let Some(place) = fresh.pop() {
            let place = place.entered();
            document.named.extend(keyword::id(place.schema).map(|id| (id, place.schema)));
            document.anchors.extend(keyword::anchors(place.schema).map(|name| (name, place)));
            let members = place.schema.as_object().into_iter().flatten();
            let schemas = members.flat_map(|(key, value)| schemas(Keyword::of(key), value));
            fresh.extend(schemas.map(|schema| Place { schema, root: place.root }));
        }
        document
    }

    /// The place of the whole.
    pub fn whole(&self) -> Place<'d> {
        Place { schema: self.root, root: self.root }
    }

    /// What a reference names, in a schema with this root. None where that is not in this document, or is not one place.
    pub fn find(&self, reference: &str, root: &'d Value) -> Option<Place<'d>> {
        let (name, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let root = match name {
            "" => root,
            name => self.named.iter().find(|(id, _)| *id == name)?.1,
        };
        let fragment = decoded(fragment)?;
        if fragment.is_empty() {
            return Some(Place { schema: root, root });
        }
        let Some(pointer) = fragment.strip_prefix('/') else {
            let mut found = self.anchors.iter().filter(|(name, _)| *name == fragment);
            let (_, place) = found.next()?;
            return found.next().is_none().then_some(*place);
        };
        pointer.split('/').try_fold(Place { schema: root, root }, |place, step| {
            let step = step.replace("~1", "/").replace("~0", "~");
            let schema = match place.schema {
                Value::Object(members) => members.get(&step)?,
                Value::Array(items) if step.bytes().all(|byte| byte.is_ascii_digit()) => {
                    items.get(step.parse::<usize>().ok()?)?
                }
                _ => return None,
            };
            Some(Place { schema, root: place.root }.entered())
        })
    }
}

impl<'d> Place<'d> {
    /// The same, its own root where it has a name of its own.
    pub fn entered(self) -> Self {
        match keyword::id(self.schema) {
            Some(_) => Self { root: self.schema, ..self },
            None => self,
        }
    }
}

/// The schemas that a member holds.
fn schemas(keyword: Keyword, value: &Value) -> impl Iterator<Item = &Value> {
    let one = matches!(keyword, Keyword::One | Keyword::OneOrList).then_some(value);
    let list = matches!(keyword, Keyword::List | Keyword::OneOrList).then_some(value);
    let named = matches!(keyword, Keyword::Named | Keyword::Definitions).then_some(value);
    let listed = list.and_then(Value::as_array).into_iter().flatten();
    let by_name = named.and_then(Value::as_object).into_iter().flat_map(|members| members.values());
    one.into_iter().chain(listed).chain(by_name)
}

/// A part of an address without the signs that stand for bytes.
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
