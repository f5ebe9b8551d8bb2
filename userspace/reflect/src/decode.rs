//! A message to JSON.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capnp::introspect::{Type, TypeVariant};
use capnp::schema::Field;
use capnp::schema_capnp::field;
use capnp::{any_pointer, dynamic_list, dynamic_struct, dynamic_value};
use capos_schema::annotations_capnp::{optional, text};
use capos_schema::cap::IncomingMessage;
use capos_schema::reflection::MethodInfo;
use capos_schema::wire::{self, WireError};
use serde_json::{Map, Number, Value};

use crate::encode::{has_annotation, in_union};
use crate::error::{Path, ReflectError};
use crate::{base64, pointer};

/// The results of a method as JSON. Capabilities are [`crate::CAPABILITY`]; they stay in the message's
/// array.
///
/// # Errors
/// The message is malformed, contains fields that the schema does not know, or is too large.
pub fn decode_results(method: &MethodInfo, results: &IncomingMessage) -> Result<Value, ReflectError> {
    decode((method.results_type)(), results)
}

/// A message of a struct type as JSON.
///
/// # Errors
/// The message is malformed, contains fields that the schema does not know, or is too large.
pub fn decode(ty: Type, message: &IncomingMessage) -> Result<Value, ReflectError> {
    let schema = pointer::schema_of(ty).map_err(|error| Path::default().capnp(&error))?;
    let mut refusal = None;
    let result = wire::decode::<any_pointer::Owned, Value>(message, |root, _caps| {
        let mut walk = Walk { path: Path::default(), left: crate::MAX_VALUES };
        let read = pointer::read(root, schema)
            .map_err(|error| walk.path.capnp(&error))
            .and_then(|reader| walk.structure(reader));
        read.map_err(|error| {
            refusal = Some(error);
            WireError::new("results", "refused")
        })
    });
    match (result, refusal) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(refusal)) => Err(refusal),
        (Err(error), None) => Err(ReflectError::whole(alloc::format!("{error}"))),
    }
}

/// A field that is shown: its name, and whether its data is text.
struct Shown {
    name: String,
    is_text: bool,
}

struct Walk {
    path: Path,
    left: usize,
}

impl Walk {
    fn refuse(&self, error: &capnp::Error) -> ReflectError {
        self.path.capnp(error)
    }

    fn structure(&mut self, reader: dynamic_struct::Reader<'_>) -> Result<Value, ReflectError> {
        let schema = reader.get_schema();
        let mut members = Map::new();
        for field in schema.get_non_union_fields().map_err(|error| self.refuse(&error))? {
            self.field(reader, field, &mut members)?;
        }
        let is_union = schema.get_union_fields().map_err(|error| self.refuse(&error))?.iter().next().is_some();
        if is_union {
            let found = reader.which().map_err(|error| self.refuse(&error))?;
            let Some(field) = found else {
                return Err(self.path.error("the union holds a variant that the schema does not know"));
            };
            self.field(reader, field, &mut members)?;
        }
        Ok(Value::Object(members))
    }

    fn field(
        &mut self,
        reader: dynamic_struct::Reader<'_>,
        field: Field,
        members: &mut Map<String, Value>,
    ) -> Result<(), ReflectError> {
        let shown = self.shown(field)?;
        let is_set = reader.has(field).map_err(|error| self.refuse(&error))?;
        let is_slot = matches!(field.get_proto().which(), Ok(field::Slot(_)));
        let ty = field.get_type().which();
        // If absence has a meaning, a null pointer is left out; in a struct that contains itself it
        // also ends the walk.
        let may_be_absent = has_annotation(field, optional::ID).map_err(|error| self.refuse(&error))?
            || (is_slot && matches!(ty, TypeVariant::Struct(_)));
        if !is_set && may_be_absent && !in_union(field) {
            return Ok(());
        }
        let value = if !is_set && is_slot && matches!(ty, TypeVariant::Struct(_)) {
            Value::Object(Map::new())
        } else if matches!(ty, TypeVariant::Capability | TypeVariant::AnyPointer) {
            if is_set { Value::String(crate::CAPABILITY.to_string()) } else { Value::Null }
        } else {
            let found = reader.get(field).map_err(|error| self.refuse(&error))?;
            self.named(&shown.name, |walk| walk.value(found, shown.is_text))?
        };
        members.insert(shown.name, value);
        Ok(())
    }

    fn shown(&self, field: Field) -> Result<Shown, ReflectError> {
        let name = field.get_proto().get_name().map_err(|error| self.refuse(&error))?;
        let name = name.to_str().map_err(|_| self.path.error("a field's name is not UTF-8"))?.to_string();
        let is_text = has_annotation(field, text::ID).map_err(|error| self.refuse(&error))?;
        Ok(Shown { name, is_text })
    }

    fn named(
        &mut self,
        name: &str,
        inside: impl FnOnce(&mut Self) -> Result<Value, ReflectError>,
    ) -> Result<Value, ReflectError> {
        let Self { path, left } = self;
        path.name(name, |path| Self::inside(path, left, inside))
    }

    /// Runs `inside` with a walk that borrows this one's place and budget.
    fn inside(
        path: &mut Path,
        left: &mut usize,
        inside: impl FnOnce(&mut Self) -> Result<Value, ReflectError>,
    ) -> Result<Value, ReflectError> {
        let mut walk = Self { path: core::mem::take(path), left: *left };
        let result = inside(&mut walk);
        *left = walk.left;
        *path = walk.path;
        result
    }

    fn value(&mut self, value: dynamic_value::Reader<'_>, is_text: bool) -> Result<Value, ReflectError> {
        use dynamic_value::Reader;
        self.left =
            self.left.checked_sub(1).ok_or_else(|| self.path.error("the message holds more than 262,144 values"))?;
        Ok(match value {
            Reader::Void => Value::Null,
            Reader::Bool(value) => Value::Bool(value),
            Reader::Int8(value) => value.into(),
            Reader::Int16(value) => value.into(),
            Reader::Int32(value) => value.into(),
            Reader::Int64(value) => value.into(),
            Reader::UInt8(value) => value.into(),
            Reader::UInt16(value) => value.into(),
            Reader::UInt32(value) => value.into(),
            Reader::UInt64(value) => value.into(),
            Reader::Float32(value) => float(f64::from(value)),
            Reader::Float64(value) => float(value),
            Reader::Text(value) => {
                Value::String(value.to_str().map_err(|_| self.path.error("the text is not UTF-8"))?.to_string())
            }
            Reader::Data(value) if is_text => Value::String(
                core::str::from_utf8(value).map_err(|_| self.path.error("the data is not UTF-8"))?.to_string(),
            ),
            Reader::Data(value) => Value::String(base64::encode(value)),
            Reader::Enum(value) => self.enumerant(value)?,
            Reader::Struct(reader) => self.structure(reader)?,
            Reader::List(list) => self.list(list, is_text)?,
            Reader::Capability(_) | Reader::AnyPointer(_) => Value::String(crate::CAPABILITY.to_string()),
        })
    }

    fn enumerant(&self, value: dynamic_value::Enum) -> Result<Value, ReflectError> {
        let found = value.get_enumerant().map_err(|error| self.refuse(&error))?;
        let Some(found) = found else {
            return Err(self.path.error(alloc::format!("enum value {} is not in the schema", value.get_value())));
        };
        let name = found.get_proto().get_name().map_err(|error| self.refuse(&error))?;
        Ok(Value::String(name.to_str().map_err(|_| self.path.error("an enumerant's name is not UTF-8"))?.to_string()))
    }

    fn list(&mut self, list: dynamic_list::Reader<'_>, is_text: bool) -> Result<Value, ReflectError> {
        let mut items = Vec::new();
        for (at, item) in list.iter().enumerate() {
            let item = item.map_err(|error| self.refuse(&error))?;
            let Self { path, left } = self;
            items.push(path.index(at, |path| Self::inside(path, left, |walk| walk.value(item, is_text)))?);
        }
        Ok(Value::Array(items))
    }
}

fn float(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => Value::String("NaN".to_string()),
        None if value > 0.0 => Value::String("Infinity".to_string()),
        None => Value::String("-Infinity".to_string()),
    }
}
