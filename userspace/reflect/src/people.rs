//! Results as a person reads them: by the types of the schema and their annotations, whichever tool they are of.
//!
//! A list of structs is a table, with rows that need attention first. Numbers have units, points in time are dates, and states
//! are words. Programs and models get the JSON form ([`crate::decode_results`]).

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capnp::dynamic_value;
use capnp::introspect::{Type, TypeVariant};
use capnp::schema::{EnumSchema, Field, StructSchema};
use capos_schema::annotations_capnp::{concern, detail, heading, runner, unit, zero};
use capos_schema::reflection::{MethodInfo, Unit};
use serde_json::{Map, Value};

use crate::amount::{duration, size};
use crate::encode::has_annotation;
use crate::pointer;

/// Nanoseconds in a second and in a millisecond.
const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;
/// The text of a result without values.
const NOTHING: &str = "done";
/// Bytes in a page.
const PAGE: u64 = 4096;

/// A value as a person reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// What was done, of a method without results.
    Done(String),
    /// A text or a single value. A text has its own lines.
    Text(String),
    /// Values, each with what it is.
    Fields(Vec<(String, Self)>),
    /// Things of one kind.
    Table(Table),
}

/// Things of one kind, one in each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// What they are, in the plural.
    pub things: String,
    /// Headings, and whether the column holds numbers. A list of single values has one column without a heading.
    pub columns: Vec<(String, bool)>,
    /// The rows, each with a cell for each column. Those that need attention come first.
    pub rows: Vec<Vec<String>>,
    /// The states of rows that need attention, in the order of the rows.
    pub concerns: Vec<String>,
}

/// The text of a result as a person reads it. `arguments` are those of the call, and `date` is the text of a point in time, in
/// nanoseconds since 1970. None if the text is not of this method's results.
#[must_use]
pub fn show(method: &MethodInfo, (arguments, text): (&Value, &str), date: &dyn Fn(u64) -> String) -> Option<Shown> {
    let walk = Walk { date };
    let schema = pointer::schema_of((method.results_type)()).ok()?;
    let fields = fields_of(schema)?;
    let fields: Vec<Field> = fields.into_iter().filter(|field| !has(*field, runner::ID)).collect();
    match fields.as_slice() {
        // A failure has another text.
        [] => (text == NOTHING).then(|| Shown::Done(done(method, arguments))),
        // The runner gives such a result unchanged.
        [field] if matches!(field.get_type().which(), TypeVariant::Text | TypeVariant::Data | TypeVariant::Enum(_)) => {
            Some(Shown::Text(text.to_owned()))
        }
        _ => {
            let value: Value = serde_json::from_str(text).ok()?;
            walk.structure(&fields, value.as_object()?, true)
        }
    }
}

/// What a person reads after a success without results.
fn done(method: &MethodInfo, arguments: &Value) -> String {
    let Some(template) = method.done else { return NOTHING.to_string() };
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, (name, after))) =
        rest.split_once('{').and_then(|(before, behind)| Some((before, behind.split_once('}')?)))
    {
        text.push_str(before);
        match arguments.get(name) {
            Some(Value::String(value)) => text.push_str(value),
            Some(value) => text.push_str(&value.to_string()),
            None => text.push_str(&words(name)),
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

struct Walk<'a> {
    date: &'a dyn Fn(u64) -> String,
}

impl Walk<'_> {
    /// The members that are there. A struct with one member to show is that member, if it is the `whole` result.
    fn structure(&self, fields: &[Field], members: &Map<String, Value>, whole: bool) -> Option<Shown> {
        let mut shown = Vec::new();
        for field in fields {
            let Some(value) = members.get(name_of(*field)?) else { continue };
            if let Some(value) = self.value(*field, value)? {
                shown.push((heading_of(*field)?, value));
            }
        }
        match (whole, shown.len()) {
            // A number alone says nothing.
            (true, 1) if !matches!(shown.first(), Some((_, Shown::Text(_)))) => shown.pop().map(|(_, value)| value),
            _ => Some(Shown::Fields(shown)),
        }
    }

    /// The value of a field; nothing if it stands for nothing. None if it is not of the field's type.
    fn value(&self, field: Field, value: &Value) -> Option<Option<Shown>> {
        if is_zero(value)
            && let Some(text) = text_of(field, zero::ID)
        {
            return Some((!text.is_empty()).then_some(Shown::Text(text)));
        }
        Some(Some(match (field.get_type().which(), value) {
            (TypeVariant::Struct(inner), Value::Object(members)) => {
                self.structure(&fields_of(inner.into())?, members, false)?
            }
            (TypeVariant::List(inner), Value::Array(items)) => self.list(heading_of(field)?, inner, items)?,
            (ty, value) => Shown::Text(self.single(ty, Some(field), value)),
        }))
    }

    fn list(&self, things: String, inner: Type, items: &[Value]) -> Option<Shown> {
        let TypeVariant::Struct(schema) = inner.which() else {
            let rows = items.iter().map(|item| Vec::from([self.single(inner.which(), None, item)])).collect();
            let columns = Vec::from([(String::new(), false)]);
            return Some(Shown::Table(Table { things, columns, rows, concerns: Vec::new() }));
        };
        let mut fields = fields_of(schema.into())?;
        fields.retain(|field| !has(*field, detail::ID));
        let mut rows: Vec<(Option<String>, Vec<String>)> = Vec::new();
        for item in items {
            let members = item.as_object()?;
            let mut cells = Vec::new();
            let mut concern = None;
            for field in &fields {
                let value = members.get(name_of(*field)?);
                concern = concern.or_else(|| value.and_then(|value| concern_of(*field, value)));
                let shown = value.map(|value| self.value(*field, value));
                cells.push(match shown {
                    Some(shown) => shown?.map(|shown| flat(&shown)).unwrap_or_default(),
                    None => String::new(),
                });
            }
            rows.push((concern, cells));
        }
        rows.sort_by_key(|(concern, _)| concern.is_none());
        let concerns = rows.iter().filter_map(|(concern, _)| concern.clone()).collect();
        let mut rows: Vec<Vec<String>> = rows.into_iter().map(|(_, cells)| cells).collect();
        let mut columns = Vec::new();
        for field in &fields {
            columns.push((heading_of(*field)?, is_number(*field)));
        }
        // A column in which nothing is said takes no room.
        let said = |at: usize| rows.iter().any(|row| row.get(at).is_some_and(|cell| !cell.is_empty()));
        let kept: Vec<bool> = (0..columns.len()).map(said).collect();
        keep(&mut columns, &kept);
        rows.iter_mut().for_each(|row| keep(row, &kept));
        Some(Shown::Table(Table { things, columns, rows, concerns }))
    }

    /// A value on one line.
    fn single(&self, ty: TypeVariant, field: Option<Field>, value: &Value) -> String {
        let number = value.as_u64().zip(field.and_then(unit_of));
        if let Some((number, unit)) = number {
            return match unit {
                Unit::Bytes => size(number),
                Unit::Pages => size(number.saturating_mul(PAGE)),
                Unit::Seconds => duration(number.saturating_mul(SECOND)),
                Unit::Milliseconds => duration(number.saturating_mul(MILLISECOND)),
                Unit::Nanoseconds => duration(number),
                Unit::UnixSeconds => (self.date)(number.saturating_mul(SECOND)),
                Unit::UnixMilliseconds => (self.date)(number.saturating_mul(MILLISECOND)),
            };
        }
        match (ty, value) {
            (TypeVariant::Enum(_), Value::String(name)) => words(name),
            (_, Value::String(text)) => text.clone(),
            (_, Value::Bool(is)) => String::from(if *is { "yes" } else { "no" }),
            (_, Value::Null) => String::new(),
            _ => value.to_string(),
        }
    }
}

/// A value within a line.
fn flat(shown: &Shown) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match shown {
        Shown::Done(text) | Shown::Text(text) => text.clone(),
        Shown::Fields(fields) => joined(fields.iter().map(|(name, value)| format!("{name} {}", flat(value))).collect()),
        Shown::Table(table) => joined(table.rows.iter().map(|row| row.join(" ")).collect()),
    }
}

fn keep<T>(items: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    items.retain(|_| kept.next().copied().unwrap_or(true));
}

fn is_zero(value: &Value) -> bool {
    value.as_u64() == Some(0) || value.as_str() == Some("")
}

fn fields_of(schema: StructSchema) -> Option<Vec<Field>> {
    Some(schema.get_fields().ok()?.iter().collect())
}

fn has(field: Field, id: u64) -> bool {
    has_annotation(field, id).unwrap_or(false)
}

fn name_of(field: Field) -> Option<&'static str> {
    field.get_proto().get_name().ok()?.to_str().ok()
}

fn text_of(field: Field, id: u64) -> Option<String> {
    match field.get_annotations().ok()?.find(id)?.get_value().ok()? {
        dynamic_value::Reader::Text(text) => text.to_str().ok().map(ToString::to_string),
        _ => None,
    }
}

fn unit_of(field: Field) -> Option<Unit> {
    match field.get_annotations().ok()?.find(unit::ID)?.get_value().ok()? {
        dynamic_value::Reader::Enum(unit) => Unit::ALL.get(usize::from(unit.get_value())).copied(),
        _ => None,
    }
}

/// What a person reads above a value: the words of the field's name, without that of its unit.
fn heading_of(field: Field) -> Option<String> {
    if let Some(text) = text_of(field, heading::ID) {
        return Some(text);
    }
    let words = words(name_of(field)?);
    let short = words.rsplit_once(' ').filter(|_| unit_of(field).is_some());
    Some(match short {
        Some((short, "bytes" | "unix" | "seconds" | "milliseconds" | "nanoseconds")) => short.to_owned(),
        _ => words,
    })
}

fn is_number(field: Field) -> bool {
    let is_time = matches!(unit_of(field), Some(Unit::UnixSeconds | Unit::UnixMilliseconds));
    !is_time
        && matches!(
            field.get_type().which(),
            TypeVariant::Int8
                | TypeVariant::Int16
                | TypeVariant::Int32
                | TypeVariant::Int64
                | TypeVariant::UInt8
                | TypeVariant::UInt16
                | TypeVariant::UInt32
                | TypeVariant::UInt64
                | TypeVariant::Float32
                | TypeVariant::Float64
        )
}

/// The state that this value is, if somebody should look at it.
fn concern_of(field: Field, value: &Value) -> Option<String> {
    let (TypeVariant::Enum(schema), Value::String(name)) = (field.get_type().which(), value) else { return None };
    let enumerants = EnumSchema::from(schema).get_enumerants().ok()?;
    let found = enumerants.iter().find(|enumerant| {
        enumerant.get_proto().get_name().ok().and_then(|name| name.to_str().ok()) == Some(name.as_str())
    })?;
    found.get_annotations().ok()?.find(concern::ID).is_some().then(|| words(name))
}

/// A name of the schema as words: `lastExit` is `last exit`.
#[must_use]
pub fn words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}
