//! The kinds of a schema's members.

use serde_json::Value;

/// What a member of a schema holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyword {
    /// A reference.
    Reference,
    /// Definitions that references name.
    Definitions,
    /// One schema.
    One,
    /// A list of schemas.
    List,
    /// One schema, or in older drafts a list of them.
    OneOrList,
    /// Schemas by name. Some may be lists of names instead.
    Named,
    /// A count.
    Count,
    /// A value that contains no schema.
    Plain,
    /// A member that constrains nothing.
    Annotation,
}

impl Keyword {
    /// The kind of the member with this name, in any draft.
    pub fn of(name: &str) -> Self {
        match name {
            "$ref" | "$dynamicRef" | "$recursiveRef" => Self::Reference,
            "$defs" | "definitions" => Self::Definitions,
            "additionalProperties"
            | "additionalItems"
            | "contains"
            | "else"
            | "if"
            | "not"
            | "propertyNames"
            | "then"
            | "unevaluatedItems"
            | "unevaluatedProperties" => Self::One,
            "items" => Self::OneOrList,
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => Self::List,
            "dependencies" | "dependentSchemas" | "patternProperties" | "properties" => Self::Named,
            "maxContains" | "maxItems" | "maxLength" | "maxProperties" | "minContains" | "minItems" | "minLength"
            | "minProperties" => Self::Count,
            "const" | "dependentRequired" | "enum" | "exclusiveMaximum" | "exclusiveMinimum" | "format" | "maximum"
            | "minimum" | "multipleOf" | "pattern" | "required" | "type" | "uniqueItems" => Self::Plain,
            _ => Self::Annotation,
        }
    }

    /// The kind of a member of an object that a member of this kind holds.
    pub fn member(self, name: &str) -> Self {
        match self {
            Self::One | Self::OneOrList => Self::of(name),
            Self::Named | Self::Definitions => Self::One,
            _ => Self::Annotation,
        }
    }

    /// The kind of an item of a list that a member of this kind holds.
    pub fn item(self) -> Self {
        match self {
            Self::List | Self::OneOrList => Self::One,
            _ => Self::Annotation,
        }
    }
}

/// Whether strings are checked for this format. All other formats are annotations.
pub fn is_checked_format(name: &str) -> bool {
    const CHECKED: [&str; 10] =
        ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];
    CHECKED.contains(&name)
}

/// A version of JSON Schema, as far as the versions differ here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Draft {
    /// Draft 3 and draft 4: the name of a schema is its `id`.
    Four,
    /// Draft 6 and draft 7.
    Seven,
    /// 2019-09.
    Y2019,
    /// 2020-12, and any schema that does not name its version.
    Y2020,
}

impl Draft {
    /// The version that a schema names in its `$schema`, if it names one that is known.
    pub fn of(schema: &Value) -> Option<Self> {
        let (_, version) = schema.get("$schema")?.as_str()?.split_once("://json-schema.org/")?;
        match version.strip_suffix('#').unwrap_or(version) {
            "draft-03/schema" | "draft-04/schema" => Some(Self::Four),
            "draft-06/schema" | "draft-07/schema" => Some(Self::Seven),
            "draft/2019-09/schema" => Some(Self::Y2019),
            "draft/2020-12/schema" | "schema" => Some(Self::Y2020),
            _ => None,
        }
    }

    /// The member that names a schema. Up to draft 7 it has no effect next to a reference.
    fn id(self, schema: &Value) -> Option<&str> {
        let key = if self == Self::Four { "id" } else { "$id" };
        let id = schema.get(key)?.as_str()?;
        (self > Self::Seven || schema.get("$ref").is_none()).then_some(id)
    }
}

/// The name by which references from other schemas find this one.
pub fn id(schema: &Value, draft: Draft) -> Option<&str> {
    let id = draft.id(schema)?;
    Some(id.strip_suffix('#').unwrap_or(id)).filter(|id| !id.is_empty() && !id.starts_with('#'))
}

/// The names by which references within the same root find this schema.
pub fn anchors(schema: &Value, draft: Draft) -> impl Iterator<Item = &str> {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    let old = draft.id(schema).and_then(|id| id.strip_prefix('#'));
    ["$anchor", "$dynamicAnchor"].into_iter().filter_map(text).chain(old).filter(|name| !name.is_empty())
}
