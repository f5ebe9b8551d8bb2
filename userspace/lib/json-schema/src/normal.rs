//! The form that schemas are brought to.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use crate::document::{Document, Place};
use crate::keyword::{Keyword, is_checked_format};

/// Schemas in a result. A place that several references reach is in there once for each place around it that is named, too.
const PARTS: u32 = 1 << 16;

/// What becomes of a reference that names nothing in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// The schema is refused.
    Refuse,
    /// It constrains nothing.
    Ignore,
}

/// A schema whose references all are `#/$defs/` with the name of a definition, and whose other keywords all constrain.
#[derive(Clone, Debug, PartialEq)]
pub struct Normal {
    /// The schema.
    pub schema: Value,
    /// What it and they refer to.
    pub definitions: Map<String, Value>,
}

impl Normal {
    /// The whole as one document.
    pub fn into_document(self) -> Value {
        let Self { mut schema, definitions } = self;
        if let Some(members) = schema.as_object_mut().filter(|_| !definitions.is_empty()) {
            members.insert("$defs".into(), definitions.into());
        }
        schema
    }
}

/// Brings a schema to the form of [`Normal`].
///
/// # Errors
/// A part of it is no schema, a reference names nothing in it, or it is too large. The text is the end of a
/// sentence that begins with "the schema".
pub fn normalise(document: &Value, unresolved: Unresolved) -> Result<Normal, String> {
    let document = Document::new(document);
    let mut making = Making { document, unresolved, numbers: BTreeMap::new(), referred: Vec::new(), parts: PARTS };
    let whole = making.document.whole();
    let schema = making.schema(whole)?;
    let mut definitions = Map::new();
    while let Some(place) = making.referred.get(definitions.len()).copied() {
        let definition = making.schema(place)?;
        definitions.insert(definitions.len().to_string(), definition);
    }
    Ok(Normal { schema, definitions })
}

struct Making<'d> {
    document: Document<'d>,
    unresolved: Unresolved,
    /// The numbers of places that are referred to, by where they lie in memory: several references may name one.
    numbers: BTreeMap<*const Value, usize>,
    referred: Vec<Place<'d>>,
    /// How many more schemas the result may have.
    parts: u32,
}

impl<'d> Making<'d> {
    fn schema(&mut self, place: Place<'d>) -> Result<Value, String> {
        self.parts = self.parts.checked_sub(1).ok_or_else(|| format!("has more than {PARTS} parts"))?;
        let place = place.entered();
        let members = match place.schema {
            Value::Object(members) => members,
            Value::Bool(_) => return Ok(place.schema.clone()),
            _ => return Err("has something in it that is no schema".into()),
        };
        let mut made = Map::new();
        for (key, value) in members {
            let keyword = Keyword::of(key);
            let made_of = match keyword {
                Keyword::Annotation | Keyword::Definitions => None,
                Keyword::Reference => self.reference(value, place.root)?,
                Keyword::Plain => Some(value.clone()),
                Keyword::Count => Some(whole(value)),
                Keyword::One => Some(self.schema(Place { schema: value, ..place })?),
                Keyword::List | Keyword::OneOrList => Some(match value {
                    Value::Array(schemas) => {
                        let each = schemas.iter().map(|schema| self.schema(Place { schema, ..place }));
                        each.collect::<Result<Vec<Value>, String>>()?.into()
                    }
                    one if keyword == Keyword::OneOrList => self.schema(Place { schema: one, ..place })?,
                    _ => return Err(format!("says nothing by its {key}")),
                }),
                Keyword::Named => Some(self.named(key, value, place)?),
            };
            let name = if keyword == Keyword::Reference { "$ref" } else { key.as_str() };
            let Some(made_of) = made_of.filter(|made_of| constrains(name, made_of)) else { continue };
            if made.insert(name.to_string(), made_of).is_some() {
                return Err("has two references in one place".into());
            }
        }
        Ok(Value::Object(in_new_words(made)))
    }

    fn named(&mut self, key: &str, value: &'d Value, place: Place<'d>) -> Result<Value, String> {
        let Value::Object(schemas) = value else { return Err(format!("says nothing by its {key}")) };
        let mut made = Map::new();
        for (name, schema) in schemas {
            let names_only = key == "dependencies" && schema.is_array();
            let one = if names_only { schema.clone() } else { self.schema(Place { schema, ..place })? };
            made.insert(name.clone(), one);
        }
        Ok(made.into())
    }

    /// The reference under the name that it has in the result.
    fn reference(&mut self, reference: &Value, root: &'d Value) -> Result<Option<Value>, String> {
        let Some(place) = reference.as_str().and_then(|name| self.document.find(name, root)) else {
            return match self.unresolved {
                Unresolved::Refuse => Err(format!("refers to {reference}, and there is no such place in it")),
                Unresolved::Ignore => Ok(None),
            };
        };
        let referred = &mut self.referred;
        let number = *self.numbers.entry(core::ptr::from_ref(place.schema)).or_insert_with(|| {
            referred.push(place);
            referred.len().saturating_sub(1)
        });
        Ok(Some(format!("#/$defs/{number}").into()))
    }
}

/// A count, which may be written with a point.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "It is compared with what it was.")]
fn whole(value: &Value) -> Value {
    let count = value.as_f64().map(|count| (count, count as u64)).filter(|(count, whole)| *whole as f64 == *count);
    count.filter(|_| value.is_f64()).map_or_else(|| value.clone(), |(_, whole)| whole.into())
}

/// Whether a keyword with this value constrains anything by itself.
fn constrains(key: &str, value: &Value) -> bool {
    let allows_all = |value: &Value| *value == Value::Bool(true) || *value == json!({});
    match key {
        "format" => value.as_str().is_some_and(is_checked_format),
        "uniqueItems" => *value != Value::Bool(false),
        "unevaluatedItems" | "unevaluatedProperties" => !allows_all(value),
        // Names are strings.
        "propertyNames" => !allows_all(value) && *value != json!({ "type": "string" }),
        "dependencies" | "dependentRequired" | "dependentSchemas" | "patternProperties" | "properties" => {
            *value != json!({})
        }
        _ => true,
    }
}

/// A schema in the words of the newest draft, without those that say something of others only which are not there.
fn in_new_words(schema: Map<String, Value>) -> Map<String, Value> {
    let is_list = schema.get("items").is_some_and(Value::is_array);
    let (has_if, has_contains) = (schema.contains_key("if"), schema.contains_key("contains"));
    let mut new = Map::new();
    for (key, value) in schema {
        let key = match key.as_str() {
            "items" if is_list => "prefixItems",
            "additionalItems" if is_list => "items",
            "additionalItems" => continue,
            "then" | "else" if !has_if => continue,
            "minContains" | "maxContains" if !has_contains => continue,
            _ => &key,
        };
        new.insert(key.to_string(), value);
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(schema: &Value) -> Result<Value, String> {
        normalise(schema, Unresolved::Refuse).map(Normal::into_document)
    }

    /// Every spelling of a reference names the same definition.
    #[test]
    fn references_are_found_however_they_are_spelled() {
        let document = json!({
            "$id": "https://example.org/tool",
            "properties": {
                "a/b": { "type": "string", "$anchor": "named" },
                "c~d": { "type": "integer" },
                "e f": { "type": "null" },
                "g%h": { "type": "boolean" },
                "": { "minimum": 1 },
                "items": { "prefixItems": [{ "const": 1 }, { "const": 2 }] },
            },
            "$defs": { "x": { "properties": { "y": { "maximum": 3 } } }, "ü": { "type": "array" } },
        });
        for (reference, found) in [
            ("#/properties/a~1b", json!({ "type": "string" })),
            ("#/properties/a%7E1b", json!({ "type": "string" })),
            ("#named", json!({ "type": "string" })),
            ("#/properties/c~0d", json!({ "type": "integer" })),
            ("#/properties/e%20f", json!({ "type": "null" })),
            ("#/properties/e f", json!({ "type": "null" })),
            ("#/properties/g%25h", json!({ "type": "boolean" })),
            ("#/properties/", json!({ "minimum": 1 })),
            ("#/properties/items/prefixItems/1", json!({ "const": 2 })),
            ("#/$defs/x/properties/y", json!({ "maximum": 3 })),
            ("#/$defs/%C3%BC", json!({ "type": "array" })),
            ("https://example.org/tool#/$defs/x/properties/y", json!({ "maximum": 3 })),
        ] {
            let mut schema = document.clone();
            schema["properties"]["new"] = json!({ "$ref": reference, "title": "beside it" });
            let made = normal(&schema).unwrap();
            assert_eq!(made["properties"]["new"], json!({ "$ref": "#/$defs/0" }), "{reference}");
            assert_eq!(made["$defs"], json!({ "0": found }), "{reference}");
        }
    }

    #[test]
    fn a_schema_may_refer_to_itself() {
        for reference in ["#", "https://example.org/tree", "https://example.org/tree#"] {
            let child = json!({ "$ref": reference });
            let schema = json!({ "$id": "https://example.org/tree", "properties": { "child": child } });
            let inside = json!({ "properties": { "child": { "$ref": "#/$defs/0" } } });
            let mut expected = inside.clone();
            expected["$defs"] = json!({ "0": inside });
            assert_eq!(normal(&schema).unwrap(), expected);
        }
        // Of two places that refer to each other each is there once.
        let schema = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "items": { "$ref": "#/$defs/b" } }, "b": { "items": { "$ref": "#/$defs/a" } } } });
        let definitions =
            json!({ "0": { "items": { "$ref": "#/$defs/1" } }, "1": { "items": { "$ref": "#/$defs/0" } } });
        assert_eq!(normal(&schema).unwrap(), json!({ "$ref": "#/$defs/0", "$defs": definitions }));
    }

    /// A schema inside with a name of its own is the root of its references.
    #[test]
    fn references_count_from_the_closest_name() {
        let inner =
            json!({ "$id": "inner", "properties": { "a": { "$ref": "#/$defs/x" } }, "$defs": { "x": { "const": 1 } } });
        let schema = json!({ "properties": { "i": inner, "j": { "$ref": "inner#/$defs/x" } }, "$defs": { "x": { "const": 2 } } });
        let made = normal(&schema).unwrap();
        assert_eq!(made["$defs"], json!({ "0": { "const": 1 } }));
        assert_eq!(made["properties"]["i"]["properties"]["a"], made["properties"]["j"]);
    }

    #[test]
    fn what_is_no_reference_is_left_as_it_is() {
        for schema in [
            json!({ "const": { "$ref": "#/nowhere", "title": 1 } }),
            json!({ "enum": [{ "$ref": "#/nowhere" }, { "$defs": 1 }] }),
            json!({ "properties": { "$ref": { "type": "string" }, "$defs": { "type": "null" }, "title": { "const": 1 } } }),
            json!({ "dependencies": { "a": ["b"], "c": { "minimum": 1 } } }),
        ] {
            assert_eq!(normal(&schema), Ok(schema));
        }
    }

    #[test]
    fn what_constrains_nothing_is_left_out() {
        for (key, value) in [
            ("$schema", json!("http://json-schema.org/draft-07/schema#")),
            ("$comment", json!("c")),
            ("title", json!("t")),
            ("description", json!("d")),
            ("default", json!({ "$ref": "#/nowhere" })),
            ("examples", json!([{ "$ref": "#/nowhere" }])),
            ("example", json!(1)),
            ("deprecated", json!(true)),
            ("nullable", json!(true)),
            ("readOnly", json!(true)),
            ("writeOnly", json!(true)),
            ("contentEncoding", json!("base64")),
            ("contentMediaType", json!("image/png")),
            ("contentSchema", json!({ "type": 7 })),
            ("x-order", json!(1)),
            ("discriminator", json!({ "propertyName": "kind" })),
            ("$vocabulary", json!({})),
            ("$dynamicAnchor", json!("node")),
            ("$recursiveAnchor", json!(true)),
            ("$defs", json!({ "unused": 7 })),
            ("uniqueItems", json!(false)),
            ("propertyNames", json!({ "type": "string", "title": "key" })),
            ("unevaluatedProperties", json!({ "description": "any" })),
            ("dependentRequired", json!({})),
            ("maxContains", json!(1)),
            ("then", json!({ "minimum": 1 })),
            ("format", json!("path")),
            ("format", json!("int64")),
            ("format", json!(7)),
        ] {
            let schema = json!({ "type": "string", key: value });
            assert_eq!(normal(&schema).unwrap(), json!({ "type": "string" }), "{schema}");
        }
        let date = json!({ "format": "date" });
        assert_eq!(normal(&date), Ok(date));
    }

    #[test]
    fn words_of_older_drafts_are_understood() {
        let tuple = json!({ "items": [{ "const": 1 }], "additionalItems": false, "minItems": 1.0 });
        assert_eq!(normal(&tuple).unwrap(), json!({ "prefixItems": [{ "const": 1 }], "items": false, "minItems": 1 }));
        let list = json!({ "items": { "const": 1 }, "additionalItems": false });
        assert_eq!(normal(&list).unwrap(), json!({ "items": { "const": 1 } }));
        let named = json!({ "items": { "$ref": "#a" }, "definitions": { "x": { "$id": "#a", "type": "null" } } });
        assert_eq!(normal(&named).unwrap()["$defs"], json!({ "0": { "type": "null" } }));
        let recursive = json!({ "properties": { "a": { "$recursiveRef": "#" } } });
        assert_eq!(normal(&recursive).unwrap()["properties"]["a"], json!({ "$ref": "#/$defs/0" }));
    }

    #[test]
    fn what_names_nothing_is_told_or_ignored() {
        for reference in [
            "#/$defs/a",
            "https://example.org/x",
            "#b",
            "#/%zz",
            "#/%",
            "#/properties/a/-1",
            "other.json#/a",
            "#/required/0",
        ] {
            let schema = json!({ "properties": { "a": { "$ref": reference, "minimum": 1 } }, "required": ["a"] });
            let told = normal(&schema).unwrap_err();
            assert!(told.contains(reference) || told.contains("no schema"), "{told}");
        }
        let schema = json!({ "$ref": "#/nowhere", "minimum": 1 });
        assert_eq!(normalise(&schema, Unresolved::Ignore).unwrap().into_document(), json!({ "minimum": 1 }));
        for schema in
            [json!(7), json!({ "items": 7 }), json!({ "properties": [] }), json!({ "allOf": {} }), json!({ "$ref": 7 })]
        {
            assert!(normal(&schema).is_err(), "{schema}");
        }
    }

    /// Places within places that are all referred to would be there as often as they are deep.
    #[test]
    fn results_are_bounded() {
        let mut schema = json!({ "anyOf": vec![json!({ "minimum": 1 }); 2000] });
        let mut references = Vec::new();
        let mut path = "#".to_string();
        for _ in 0..100 {
            schema = json!({ "items": schema });
            path.push_str("/items");
            references.push(json!({ "$ref": path }));
        }
        schema["allOf"] = references.into();
        assert!(normal(&schema).is_err_and(|why| why.contains("parts")));
    }
}
