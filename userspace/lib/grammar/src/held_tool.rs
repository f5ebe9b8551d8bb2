//! The schemas of calls, as the library wants them.

use capos_chat::unmarked::may_lack_arguments;
use capos_chat::{CallForm, Tool};
use capos_json_schema::{Normal, Unresolved, normalise};
use serde_json::{Map, Value, json};

/// The least whole number that grammars count: of 64 bits with a sign, the next above the least that is also one of floating
/// point, as which schemas' bounds are read.
const LEAST: i64 = i64::MIN + 1024;

/// How closely calls of a tool are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closeness {
    /// To everything in the tool's schema.
    Schema,
    /// To the part that the library can enforce.
    Parts,
}

/// A tool, with the schema that constrains its arguments.
pub struct HeldTool<'t> {
    pub name: &'t str,
    /// Whether calls without a mark may lack their arguments.
    pub may_lack_arguments: bool,
    arguments: Normal,
    closeness: Closeness,
}

impl<'t> HeldTool<'t> {
    /// Held as closely as that.
    ///
    /// # Errors
    /// Why the schema cannot be read.
    pub fn new(tool: &'t Tool, closeness: Closeness) -> Result<Self, String> {
        let unresolved = match closeness {
            Closeness::Schema => Unresolved::Refuse,
            Closeness::Parts => Unresolved::Ignore,
        };
        let normal = normalise(&tool.parameters, unresolved).map_err(|why| format!("the schema {why}"))?;
        Ok(Self {
            name: &tool.name,
            may_lack_arguments: may_lack_arguments(tool),
            arguments: countable(normal),
            closeness,
        })
    }

    /// Constrained to some object.
    pub fn loose(tool: &'t Tool) -> Self {
        let any = Normal { schema: Value::Bool(true), definitions: Map::new() };
        Self {
            name: &tool.name,
            may_lack_arguments: may_lack_arguments(tool),
            arguments: any,
            closeness: Closeness::Schema,
        }
    }

    /// The schema of a call.
    pub fn call(&self, form: CallForm) -> Value {
        let properties = json!({ "name": { "const": self.name }, form.arguments(): self.object() });
        let required = json!(["name", form.arguments()]);
        let schema =
            json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties });
        self.spaced(schema)
    }

    /// The schema of the arguments, if they are separate.
    pub fn arguments(&self) -> Value {
        self.spaced(self.object())
    }

    /// The same, with white space of this pattern between the parts of their JSON.
    pub fn arguments_with_space(&self, space: &str) -> Value {
        self.document(self.object(), json!({ "whitespace_flexible": true, "whitespace_pattern": space }))
    }

    /// The constraints of arguments: an object, whatever else the schema says.
    fn object(&self) -> Value {
        match &self.arguments.schema {
            Value::Object(schema) => {
                let mut schema = schema.clone();
                schema.insert("type".into(), "object".into());
                schema.into()
            }
            _ => json!({ "type": "object" }),
        }
    }

    fn spaced(&self, schema: Value) -> Value {
        self.document(schema, without_space())
    }

    /// A document that these arguments are a part of.
    fn document(&self, schema: Value, mut options: Value) -> Value {
        if self.closeness == Closeness::Parts
            && let Some(options) = options.as_object_mut()
        {
            options.insert("lenient".into(), true.into());
        }
        document(schema, &self.arguments.definitions, options)
    }
}

/// The schema of an answer; why it cannot be enforced.
pub fn answer_schema(schema: &Value) -> Result<Value, String> {
    let normal = normalise(schema, Unresolved::Refuse).map_err(|why| format!("the answer's schema {why}"))?;
    let Normal { schema, definitions } = countable(normal);
    Ok(document(schema, &definitions, without_space()))
}

/// JSON without white space but a space after commas and colons, or none there either.
fn without_space() -> Value {
    json!({ "whitespace_flexible": false, "item_separator": ", ?", "key_separator": ": ?" })
}

fn document(mut schema: Value, definitions: &Map<String, Value>, options: Value) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        if !definitions.is_empty() {
            schema.insert("$defs".into(), definitions.clone().into());
        }
        schema.insert("x-guidance".into(), options);
    }
    schema
}

/// A schema whose whole numbers the library can count: it has none below [`LEAST`], as which it also takes those just above.
/// The fewest numbers that programs use are lost by it.
fn countable(normal: Normal) -> Normal {
    let definitions = normal.definitions.into_iter().map(|(name, schema)| (name, with_least(schema)));
    Normal { schema: with_least(normal.schema), definitions: definitions.collect() }
}

fn with_least(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                let is_least = matches!(key.as_str(), "minimum" | "exclusiveMinimum");
                if is_least && member.as_f64().is_some_and(|least| least < LEAST as f64) {
                    *member = LEAST.into();
                } else if !matches!(key.as_str(), "const" | "enum") {
                    *member = with_least(member.take());
                }
            }
        }
        Value::Array(members) => members.iter_mut().for_each(|member| *member = with_least(member.take())),
        _ => {}
    }
    schema
}
