//! What the members of a schema are.

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
    /// Schemas by name. Lists of names may be among them.
    Named,
    /// A number that counts.
    Count,
    /// Values that are compared as they are.
    Plain,
    /// Nothing that constrains.
    Annotation,
}

impl Keyword {
    /// What a member of this name is, in any draft.
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
}

/// Whether a string can be checked for this format. All other formats are annotations.
pub fn is_checked_format(name: &str) -> bool {
    const CHECKED: [&str; 10] =
        ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];
    CHECKED.contains(&name)
}

/// The name that a schema has for references from elsewhere.
pub fn id(schema: &Value) -> Option<&str> {
    let id = schema.get("$id").or_else(|| schema.get("id"))?.as_str()?;
    Some(id.strip_suffix('#').unwrap_or(id)).filter(|id| !id.is_empty() && !id.starts_with('#'))
}

/// The names that a schema has for references within its document.
pub fn anchors(schema: &Value) -> impl Iterator<Item = &str> {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    let old = ["$id", "id"].into_iter().filter_map(move |key| text(key)?.strip_prefix('#'));
    ["$anchor", "$dynamicAnchor"].into_iter().filter_map(text).chain(old).filter(|name| !name.is_empty())
}
