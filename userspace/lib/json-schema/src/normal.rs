//! Normalised schemas.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use crate::document::{Document, Place, Root};
use crate::keyword::{Draft, Keyword, is_checked_format};

/// The most parts of a result: schemas, and the values and long texts in them. A schema that has several definitions around
/// it occurs in each of them.
const PARTS: usize = 1 << 16;
/// The bytes of text that count as one part.
const TEXT: usize = 64;

/// The treatment of a reference that names nothing in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// The schema is refused.
    Refuse,
    /// The reference constrains nothing.
    Ignore,
}

/// A schema whose references all are `#/$defs/` with the name of a definition, and whose other keywords are all constraints.
#[derive(Clone, Debug, PartialEq)]
pub struct Normal {
    /// The schema.
    pub schema: Value,
    /// The definitions that the schema and other definitions refer to.
    pub definitions: Map<String, Value>,
}

impl Normal {
    /// The schema with its definitions as one document.
    pub fn into_document(self) -> Value {
        let Self { mut schema, definitions } = self;
        if let Some(members) = schema.as_object_mut().filter(|_| !definitions.is_empty()) {
            members.insert("$defs".into(), definitions.into());
        }
        schema
    }
}

/// Normalises a schema.
///
/// # Errors
/// A part of it is not a schema, a reference names nothing in it, or it is too large. The message is the end of a sentence
/// that begins with "the schema".
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
    /// The numbers of the definitions, by the address of their schemas: several references may name one.
    numbers: BTreeMap<*const Value, usize>,
    referred: Vec<Place<'d>>,
    /// The number of parts that the result may still have.
    parts: usize,
}

impl<'d> Making<'d> {
    fn schema(&mut self, place: Place<'d>) -> Result<Value, String> {
        self.charge(1)?;
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
                Keyword::Plain | Keyword::Count => {
                    self.charge(parts(value))?;
                    Some(if keyword == Keyword::Count { whole(value) } else { value.clone() })
                }
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
        in_new_words(made, place.root.draft).map(Value::Object)
    }

    fn charge(&mut self, parts: usize) -> Result<(), String> {
        self.parts = self.parts.checked_sub(parts).ok_or_else(|| format!("has more than {PARTS} parts"))?;
        Ok(())
    }

    fn named(&mut self, key: &str, value: &'d Value, place: Place<'d>) -> Result<Value, String> {
        let Value::Object(schemas) = value else { return Err(format!("says nothing by its {key}")) };
        let mut made = Map::new();
        for (name, schema) in schemas {
            self.charge(name.len() / TEXT)?;
            let names_only = key == "dependencies" && schema.is_array();
            let one = if names_only {
                self.charge(parts(schema))?;
                schema.clone()
            } else {
                self.schema(Place { schema, ..place })?
            };
            made.insert(name.clone(), one);
        }
        Ok(made.into())
    }

    /// The reference in the form that the result uses.
    fn reference(&mut self, reference: &Value, root: Root<'d>) -> Result<Option<Value>, String> {
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

/// The parts of a value that contains no schema.
fn parts(value: &Value) -> usize {
    let sum = |parts: usize, more: usize| parts.saturating_add(more);
    match value {
        Value::String(text) => sum(1, text.len() / TEXT),
        Value::Array(items) => items.iter().map(parts).fold(1, sum),
        Value::Object(members) => members.iter().map(|(name, value)| sum(name.len() / TEXT, parts(value))).fold(1, sum),
        _ => 1,
    }
}

/// A count, which may be written as a floating-point number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "The result is compared with the original."
)]
fn whole(value: &Value) -> Value {
    let count = value.as_f64().map(|count| (count, count as u64)).filter(|(count, whole)| *whole as f64 == *count);
    count.filter(|_| value.is_f64()).map_or_else(|| value.clone(), |(_, whole)| whole.into())
}

/// Whether a keyword with this value is a constraint.
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

/// Rewrites a schema of this draft in the keywords of the newest one. Leaves out the keywords that have no effect without
/// another one that is missing.
fn in_new_words(mut schema: Map<String, Value>, draft: Draft) -> Result<Map<String, Value>, String> {
    let is_list = schema.get("items").is_some_and(Value::is_array);
    // A list of `items` belongs to older drafts, which do not know `prefixItems`.
    if is_list && schema.remove("prefixItems").is_some() && draft == Draft::Y2020 {
        return Err("has prefixItems next to a list of items".into());
    }
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
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(schema: &Value) -> Result<Value, String> {
        normalise(schema, Unresolved::Refuse).map(Normal::into_document)
    }

    /// A reference is resolved in each of its spellings.
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
        // Two definitions that refer to each other occur once each.
        let schema = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "items": { "$ref": "#/$defs/b" } }, "b": { "items": { "$ref": "#/$defs/a" } } } });
        let definitions =
            json!({ "0": { "items": { "$ref": "#/$defs/1" } }, "1": { "items": { "$ref": "#/$defs/0" } } });
        assert_eq!(normal(&schema).unwrap(), json!({ "$ref": "#/$defs/0", "$defs": definitions }));
    }

    /// References in a schema with a name of its own start from that schema.
    #[test]
    fn references_count_from_the_closest_name() {
        let inner =
            json!({ "$id": "inner", "properties": { "a": { "$ref": "#/$defs/x" } }, "$defs": { "x": { "const": 1 } } });
        let schema = json!({ "properties": { "i": inner, "j": { "$ref": "inner#/$defs/x" } }, "$defs": { "x": { "const": 2 } } });
        let made = normal(&schema).unwrap();
        assert_eq!(made["$defs"], json!({ "0": { "const": 1 } }));
        assert_eq!(made["properties"]["i"]["properties"]["a"], made["properties"]["j"]);
    }

    /// An `id` names a schema in drafts 3 and 4 only, and only if it is text and a member of a schema.
    #[test]
    fn an_id_is_a_name_in_old_drafts_only() {
        const OLD: &str = "http://json-schema.org/draft-04/schema#";
        const NEW: &str = "https://json-schema.org/draft/2020-12/schema";
        let inside = |named: Value| {
            let mut inside =
                json!({ "items": { "$ref": "#/definitions/x" }, "definitions": { "x": { "minimum": 1 } } });
            inside.as_object_mut().unwrap().extend(named.as_object().unwrap().clone());
            inside
        };
        for (draft, inside, minimum) in [
            (OLD, inside(json!({ "id": "urn:a" })), 1),
            (NEW, inside(json!({ "id": "urn:a" })), 2),
            (NEW, inside(json!({ "id": "urn:a", "$schema": OLD })), 1),
            (OLD, inside(json!({ "$id": "urn:a" })), 2),
            (OLD, inside(json!({ "$id": "urn:a", "$schema": NEW })), 1),
            (OLD, inside(json!({ "id": { "type": "string" } })), 2),
            (OLD, inside(json!({ "id": 7, "$id": "urn:a" })), 2),
            (NEW, inside(json!({ "$id": 7, "id": "urn:a" })), 2),
        ] {
            let schema =
                json!({ "$schema": draft, "properties": { "a": inside }, "definitions": { "x": { "minimum": 2 } } });
            assert_eq!(normal(&schema).unwrap()["$defs"], json!({ "0": { "minimum": minimum } }), "{schema}");
        }
        // What lies in a member that holds no schema is no name.
        let schema = json!({
            "$schema": OLD,
            "items": { "$ref": "#/x-shared/a" },
            "x-shared": { "id": "urn:a", "a": { "items": { "$ref": "#/definitions/x" } } },
            "definitions": { "x": { "minimum": 2 } },
        });
        assert_eq!(normal(&schema).unwrap()["$defs"]["1"], json!({ "minimum": 2 }));
    }

    #[test]
    fn a_list_of_items_and_prefix_items_are_not_mixed() {
        let both = json!({ "prefixItems": [{ "minimum": 1 }], "items": [{ "minimum": 2 }] });
        assert_eq!(normal(&both), Err("has prefixItems next to a list of items".into()));
        let mut old = both;
        old["$schema"] = "https://json-schema.org/draft/2019-09/schema".into();
        assert_eq!(normal(&old).unwrap(), json!({ "prefixItems": [{ "minimum": 2 }] }));
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

    /// Each of 100 nested definitions would contain a copy of the large innermost one.
    #[test]
    fn results_are_bounded() {
        for innermost in [
            json!({ "anyOf": vec![json!({ "minimum": 1 }); 2000] }),
            json!({ "enum": vec![1; 2000] }),
            json!({ "const": { "a".repeat(1 << 16): "b".repeat(1 << 16) } }),
            json!({ "properties": { "a".repeat(1 << 17): true } }),
            json!({ "dependencies": { "a": vec!["b"; 2000] } }),
        ] {
            let mut schema = innermost;
            let mut references = Vec::new();
            let mut path = "#".to_string();
            for _ in 0..100 {
                schema = json!({ "items": schema });
                path.push_str("/items");
                references.push(json!({ "$ref": path }));
            }
            assert!(normal(&schema).is_ok());
            schema["allOf"] = references.into();
            assert!(normal(&schema).is_err_and(|why| why.contains("parts")));
        }
    }
}
