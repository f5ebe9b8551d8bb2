//! Whether an answer conforms to the JSON Schema of its request.
//!
//! The engine holds answers to it token by token; a written answer is compared with it when all of it is there. A
//! schema with keywords that are not checked is rejected, so that nothing passes for checked that was not.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_json_schema::{Unresolved, normalise};
use serde_json::{Map, Number, Value};

/// Comparisons for one answer: references and alternatives may repeat the same ones.
const STEPS: u32 = 1 << 20;
/// How deep references may lead.
const DEPTH: u32 = 256;

/// Keywords with one schema.
const ONE: [&str; 3] = ["additionalProperties", "items", "not"];
/// Keywords with a list of schemas.
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
/// Keywords with a number that counts something.
const COUNTS: [&str; 6] = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
/// Keywords with a number that others are compared with.
const BOUNDS: [&str; 5] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
/// The types that a value can have.
const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

/// A schema, every part of which can be checked.
#[derive(Debug)]
pub struct Schema {
    root: Value,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// It is invalid JSON, or has keywords that answers are not checked against; names them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let written: Value =
            serde_json::from_str(text).map_err(|error| format!("the response schema is no JSON: {error}"))?;
        let wrong = |why| format!("the response schema {why}");
        let normal = normalise(&written, Unresolved::Refuse).map_err(wrong)?;
        [&normal.schema].into_iter().chain(normal.definitions.values()).try_for_each(is_comparable).map_err(wrong)?;
        Ok(Self { root: normal.into_document() })
    }

    /// Whether an answer keeps to it.
    ///
    /// # Errors
    /// It does not; says where and why.
    pub fn check(&self, answer: &str) -> Result<(), String> {
        let value: Value = serde_json::from_str(answer).map_err(|error| format!("it is no JSON: {error}"))?;
        Comparison { root: &self.root, steps: STEPS, depth: 0, place: Vec::new() }.value(&self.root, &value)
    }
}

/// Whether all keywords of a schema are checked.
fn is_comparable(schema: &Value) -> Result<(), String> {
    let Value::Object(schema) = schema else { return Ok(()) };
    for (key, value) in schema {
        let is =
            |kind: fn(&Value) -> bool| kind(value).then_some(()).ok_or_else(|| format!("says nothing by its {key}"));
        let has = |keys: &[&str]| keys.contains(&key.as_str());
        match key.as_str() {
            "$ref" | "const" => {}
            "type" => is(|value| match value {
                Value::Array(types) => types.iter().all(is_type),
                one => is_type(one),
            })?,
            "enum" => is(Value::is_array)?,
            "required" => is(|value| value.as_array().is_some_and(|names| names.iter().all(Value::is_string)))?,
            "uniqueItems" => is(Value::is_boolean)?,
            _ if has(&COUNTS) => is(Value::is_u64)?,
            "multipleOf" => is(|value| value.as_f64().is_some_and(|number| number > 0.0))?,
            _ if has(&BOUNDS) => is(Value::is_number)?,
            _ if has(&ONE) => is_comparable(value)?,
            _ if has(&LISTS) => value.as_array().into_iter().flatten().try_for_each(is_comparable)?,
            "properties" => value.as_object().into_iter().flat_map(Map::values).try_for_each(is_comparable)?,
            _ => return Err(format!("asks for {key:?}, which written answers are not compared with")),
        }
    }
    Ok(())
}

fn is_type(value: &Value) -> bool {
    value.as_str().is_some_and(|name| TYPES.contains(&name))
}

/// An answer that is being compared.
struct Comparison<'s> {
    root: &'s Value,
    steps: u32,
    depth: u32,
    /// Where in the answer it is.
    place: Vec<String>,
}

impl Comparison<'_> {
    fn wrong(&self, why: &str) -> String {
        if self.place.is_empty() { why.to_string() } else { format!("at /{}: {why}", self.place.join("/")) }
    }

    fn ensure(&self, holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
        if holds { Ok(()) } else { Err(self.wrong(&why())) }
    }

    fn step(&mut self) -> Result<(), String> {
        self.steps = self.steps.checked_sub(1).ok_or_else(|| self.wrong("there is too much to compare"))?;
        Ok(())
    }

    /// Compares a part of the answer.
    fn part(&mut self, name: String, schema: &Value, value: &Value) -> Result<(), String> {
        self.place.push(name);
        let found = self.value(schema, value);
        self.place.pop();
        found
    }

    fn value(&mut self, schema: &Value, value: &Value) -> Result<(), String> {
        self.step()?;
        self.depth = self.depth.saturating_add(1);
        self.ensure(self.depth <= DEPTH, || "the schema's references lead too deep".into())?;
        match schema {
            Value::Object(schema) => self.object(schema, value)?,
            _ => self.ensure(*schema != Value::Bool(false), || "nothing may be here".into())?,
        }
        self.depth = self.depth.saturating_sub(1);
        Ok(())
    }

    fn object(&mut self, schema: &Map<String, Value>, value: &Value) -> Result<(), String> {
        if let Some(place) = schema.get("$ref").and_then(Value::as_str) {
            let root = self.root;
            let referred = root.pointer(place.trim_start_matches('#'));
            self.value(referred.unwrap_or(&Value::Bool(false)), value)?;
        }
        if let Some(types) = schema.get("type") {
            let fits = match types {
                Value::Array(types) => types.iter().any(|name| is_of(name, value)),
                one => is_of(one, value),
            };
            self.ensure(fits, || format!("{} is not of type {types}", kind(value)))?;
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            let fits = self.contains(values, value)?;
            self.ensure(fits, || "it is not one of the permitted values".into())?;
        }
        if let Some(only) = schema.get("const") {
            let fits = self.same(only, value)?;
            self.ensure(fits, || format!("it is not {only}"))?;
        }
        self.alternatives(schema, value)?;
        match value {
            Value::Number(number) => self.number(schema, number),
            Value::String(text) => self.count(schema, "Length", text.chars().count(), "characters"),
            Value::Array(items) => self.items(schema, items),
            Value::Object(members) => self.members(schema, members),
            Value::Null | Value::Bool(_) => Ok(()),
        }
    }

    fn alternatives(&mut self, schema: &Map<String, Value>, value: &Value) -> Result<(), String> {
        for all in list(schema, "allOf") {
            self.value(all, value)?;
        }
        for (key, one_only) in [("anyOf", false), ("oneOf", true)] {
            if !schema.contains_key(key) {
                continue;
            }
            let mut fitting = 0u32;
            for one in list(schema, key) {
                fitting = fitting.saturating_add(u32::from(self.fits(one, value)?));
            }
            self.ensure(fitting > 0, || "it matches no alternative".into())?;
            self.ensure(fitting == 1 || !one_only, || "it matches more than one alternative".into())?;
        }
        match schema.get("not") {
            Some(not) => {
                let fits = self.fits(not, value)?;
                self.ensure(!fits, || "it matches what `not` excludes".into())
            }
            None => Ok(()),
        }
    }

    /// Whether a value keeps to a schema, if it need not; an error if that could not be found out.
    fn fits(&mut self, schema: &Value, value: &Value) -> Result<bool, String> {
        let (depth, place) = (self.depth, self.place.len());
        let found = self.value(schema, value);
        if found.is_err() && (self.steps == 0 || self.depth > DEPTH) {
            return Err(found.err().unwrap_or_default());
        }
        self.depth = depth;
        self.place.truncate(place);
        Ok(found.is_ok())
    }

    fn number(&self, schema: &Map<String, Value>, number: &Number) -> Result<(), String> {
        let Some(value) = number.as_f64() else { return Ok(()) };
        for key in BOUNDS {
            let Some(bound) = schema.get(key).and_then(Value::as_f64) else { continue };
            let fits = match key {
                "minimum" => value >= bound,
                "maximum" => value <= bound,
                "exclusiveMinimum" => value > bound,
                "exclusiveMaximum" => value < bound,
                _ => value % bound == 0.0,
            };
            self.ensure(fits, || format!("{number} is not what {key} {bound} allows"))?;
        }
        Ok(())
    }

    fn count(&self, schema: &Map<String, Value>, what: &str, count: usize, of: &str) -> Result<(), String> {
        let bound = |key: &str| schema.get(&format!("{key}{what}")).and_then(Value::as_u64);
        let count = count as u64;
        self.ensure(bound("min").is_none_or(|least| count >= least), || format!("it has only {count} {of}"))?;
        self.ensure(bound("max").is_none_or(|most| count <= most), || format!("it has {count} {of}"))
    }

    fn items(&mut self, schema: &Map<String, Value>, items: &[Value]) -> Result<(), String> {
        self.count(schema, "Items", items.len(), "items")?;
        let first = list(schema, "prefixItems");
        for (at, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(at).or_else(|| schema.get("items")) {
                self.part(at.to_string(), schema, item)?;
            }
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            for (at, item) in items.iter().enumerate() {
                let again = self.contains(items.get(..at).unwrap_or_default(), item)?;
                self.ensure(!again, || format!("item {at} is there before"))?;
            }
        }
        Ok(())
    }

    fn members(&mut self, schema: &Map<String, Value>, members: &Map<String, Value>) -> Result<(), String> {
        self.count(schema, "Properties", members.len(), "members")?;
        for name in list(schema, "required").iter().filter_map(Value::as_str) {
            self.ensure(members.contains_key(name), || format!("{name:?} is missing"))?;
        }
        let known = schema.get("properties").and_then(Value::as_object);
        for (name, member) in members {
            if let Some(schema) = known.and_then(|known| known.get(name)) {
                self.part(name.clone(), schema, member)?;
            } else if let Some(schema) = schema.get("additionalProperties") {
                self.part(name.clone(), schema, member)?;
            }
        }
        Ok(())
    }

    fn contains(&mut self, values: &[Value], value: &Value) -> Result<bool, String> {
        for one in values {
            if self.same(one, value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether two values are the same; 1 and 1.0 are.
    fn same(&mut self, one: &Value, other: &Value) -> Result<bool, String> {
        self.step()?;
        Ok(match (one, other) {
            (Value::Number(one), Value::Number(other)) => {
                let whole = one.is_f64() || other.is_f64();
                one == other || whole && one.as_f64() == other.as_f64()
            }
            (Value::Array(one), Value::Array(other)) => {
                let mut same = one.len() == other.len();
                for (one, other) in one.iter().zip(other) {
                    same = same && self.same(one, other)?;
                }
                same
            }
            (Value::Object(one), Value::Object(other)) => {
                let mut same = one.len() == other.len();
                for (name, one) in one {
                    same = same && other.get(name).map_or(Ok(false), |other| self.same(one, other))?;
                }
                same
            }
            _ => one == other,
        })
    }
}

fn list<'s>(schema: &'s Map<String, Value>, key: &str) -> &'s [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether a value is of a type of this name.
fn is_of(name: &Value, value: &Value) -> bool {
    let whole = |number: &Number| !number.is_f64() || number.as_f64().is_some_and(|number| number % 1.0 == 0.0);
    match name.as_str() {
        Some("integer") => value.as_number().is_some_and(whole),
        Some("number") => value.is_number(),
        name => name == Some(kind(value)),
    }
}

/// The type of a value, except whole numbers.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &str, answer: &str) -> Result<(), String> {
        Schema::parse(schema).unwrap().check(answer)
    }

    /// B18: each schema with answers that keep to it, and answers that do not.
    #[test]
    fn answers_keep_to_a_schema_or_do_not() {
        let cases: [(&str, &[&str], &[&str]); 17] = [
            ("true", &["1", "null", "{}"], &["", "x", "{", "1 2"]),
            ("false", &[], &["1", "null"]),
            (r#"{"type":"integer"}"#, &["1", "-7", "2.0", "18446744073709551615"], &["1.5", "\"1\"", "null"]),
            (r#"{"type":["string","null"]}"#, &["\"\"", "null"], &["0", "[]"]),
            (r#"{"enum":[1,"a",{"b":[2]}]}"#, &["1.0", "\"a\"", r#"{"b":[2.0]}"#], &["2", r#"{"b":[2,2]}"#, "{}"]),
            (r#"{"const":{"a":1,"b":2}}"#, &[r#"{"b":2,"a":1}"#], &[r#"{"a":1}"#, r#"{"a":1,"b":2,"c":3}"#]),
            (r#"{"minimum":1,"exclusiveMaximum":3}"#, &["1", "2.9", "\"x\""], &["0", "3"]),
            (r#"{"maximum":3,"exclusiveMinimum":1,"multipleOf":0.5}"#, &["3", "1.5"], &["1", "3.5", "1.6"]),
            (r#"{"minLength":2,"maxLength":3}"#, &["\"üü\"", "\"abc\"", "7"], &["\"ü\"", "\"abcd\""]),
            (
                r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}"#,
                &[r#"{"n":1}"#],
                &["{}", r#"{"n":"1"}"#, r#"{"n":1,"m":2}"#, "[]", "Warm."],
            ),
            (
                r#"{"properties":{"n":true},"additionalProperties":{"type":"string"},"maxProperties":2}"#,
                &[r#"{"n":1,"m":"x"}"#, "7"],
                &[r#"{"m":1}"#, r#"{"n":1,"l":"","m":""}"#],
            ),
            (
                r#"{"items":{"type":"number"},"prefixItems":[{"type":"string"}],"minItems":1,"maxItems":3}"#,
                &["[\"a\"]", "[\"a\",1,2]"],
                &["[]", "[1]", "[\"a\",\"b\"]", "[\"a\",1,2,3]"],
            ),
            (r#"{"uniqueItems":true}"#, &["[1,2]", "[[1],[2]]"], &["[1,2,1.0]", "[{\"a\":1},{\"a\":1}]"]),
            (r#"{"anyOf":[{"type":"string"},{"minimum":3}]}"#, &["\"a\"", "3", "null"], &["2"]),
            (r#"{"oneOf":[{"type":"integer"},{"minimum":3}]}"#, &["2", "3.5"], &["3", "2.5"]),
            (r#"{"allOf":[{"minimum":1},{"maximum":2}],"not":{"const":1.5}}"#, &["1", "2"], &["0", "3", "1.5"]),
            (
                r##"{"$defs":{"tree":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"$ref":"#/$defs/tree"}"##,
                &["[]", "[[],[[]]]"],
                &["[1]", "[[],[[2]]]", "{}"],
            ),
        ];
        for (schema, good, bad) in cases {
            for answer in good {
                assert_eq!(check(schema, answer), Ok(()), "{schema} {answer}");
            }
            for answer in bad {
                assert!(check(schema, answer).is_err(), "{schema} {answer}");
            }
        }
    }

    /// References name places however they are spelled, and annotations require nothing.
    #[test]
    fn references_and_annotations_are_read_as_the_standard_has_them() {
        let defs = r##""$defs":{"a/b":{"type":"string"},"c d":{"type":"null"},"e~f":{"minimum":1}}"##;
        for (schema, good, bad) in [
            (format!(r##"{{"$ref":"#/$defs/a~1b",{defs}}}"##), "\"x\"", "1"),
            (format!(r##"{{"$ref":"#/$defs/c%20d",{defs}}}"##), "null", "1"),
            (format!(r##"{{"items":{{"$ref":"#/$defs/e~0f"}},{defs}}}"##), "[1]", "[0]"),
            (
                r##"{"properties":{"a":{"$ref":"#"}},"additionalProperties":false}"##.into(),
                r#"{"a":{}}"#,
                r#"{"a":{"b":1}}"#,
            ),
            (
                r#"{"type":"string","format":"path","contentEncoding":"base64","x-a":{"if":1},"nullable":true}"#.into(),
                "\"x\"",
                "1",
            ),
            (r#"{"items":[{"type":"null"}],"additionalItems":false}"#.into(), "[null]", "[null,1]"),
            (
                r#"{"uniqueItems":false,"propertyNames":{"type":"string"},"items":{"type":"null"}}"#.into(),
                "[null,null]",
                "[1]",
            ),
        ] {
            assert_eq!(check(&schema, good), Ok(()), "{schema}");
            assert!(check(&schema, bad).is_err(), "{schema}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let schema = r#"{"properties":{"a":{"items":{"type":"integer"}}}}"#;
        assert_eq!(check(schema, r#"{"a":[1,"x"]}"#), Err("at /a/1: string is not of type \"integer\"".into()));
        assert_eq!(check(r#"{"required":["a"]}"#, "{}"), Err("\"a\" is missing".into()));
        assert!(check("true", "Warm.").is_err_and(|why| why.starts_with("it is no JSON: ")));
    }

    /// B18: keywords that are not checked are rejected, so that nothing passes for checked.
    #[test]
    fn what_is_not_compared_is_refused() {
        for (schema, why) in [
            ("{", "no JSON"),
            ("7", "no schema"),
            (r#"{"pattern":"a"}"#, "\"pattern\""),
            (r#"{"properties":{"a":{"format":"date"}}}"#, "\"format\""),
            (r#"{"if":{}}"#, "\"if\""),
            (r#"{"items":[{},7]}"#, "no schema"),
            (r#"{"type":"zahl"}"#, "type"),
            (r#"{"required":"a"}"#, "required"),
            (r#"{"minItems":-1}"#, "minItems"),
            (r#"{"multipleOf":0}"#, "multipleOf"),
            (r#"{"$ref":"https://example.org/x"}"#, "example.org"),
            (r##"{"$ref":"#/$defs/a"}"##, "#/$defs/a"),
            (r##"{"title":{"if":{}},"$ref":"#/title"}"##, "\"if\""),
        ] {
            let refused = Schema::parse(schema).unwrap_err();
            assert!(refused.starts_with("the response schema ") && refused.contains(why), "{schema}: {refused}");
        }
    }

    /// References that lead nowhere, and alternatives that multiply, end with an error message.
    #[test]
    fn work_is_bounded() {
        assert!(check(r##"{"$ref":"#"}"##, "1").is_err_and(|why| why.contains("too deep")));
        assert!(check(r##"{"anyOf":[{"$ref":"#"},{}]}"##, "1").is_err_and(|why| why.contains("too deep")));
        let twice = |name: &str| format!(r##"{{"anyOf":[{{"$ref":"#/$defs/{name}"}},{{"$ref":"#/$defs/{name}"}}]}}"##);
        let defs: Vec<String> = (0..40).map(|at| format!("\"d{at}\":{}", twice(&format!("d{}", at + 1)))).collect();
        let schema = format!(r##"{{"$defs":{{{},"d40":false}},"$ref":"#/$defs/d0"}}"##, defs.join(","));
        assert!(check(&schema, "1").is_err_and(|why| why.contains("too much")));
    }
}
