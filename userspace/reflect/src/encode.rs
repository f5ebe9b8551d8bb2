//! JSON to a message.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use capnp::introspect::{Type, TypeVariant};
use capnp::schema::{EnumSchema, Field, StructSchema};
use capnp::schema_capnp::field;
use capnp::{any_pointer, dynamic_list, dynamic_struct, dynamic_value};
use capos_schema::annotations_capnp::{optional, text};
use capos_schema::cap::Message;
use capos_schema::reflection::MethodInfo;
use capos_schema::wire::{self, WireError};
use serde_json::{Map, Value};

use crate::error::{Path, ReflectError};
use crate::{base64, pointer};

const UNKNOWN: &str = "there is no field of this name";

/// The parameters of a method from JSON that a model wrote: none of those that are the runner's.
///
/// # Errors
/// The JSON is not exactly what the method takes, or the method takes capabilities.
pub fn encode_params(method: &MethodInfo, params: &Value) -> Result<Message, ReflectError> {
    encode_call(method, params, |_| {})
}

/// The same, with the runner's additions or changes once the model's part is known to have none of the runner's
/// parameters.
///
/// # Errors
/// As those of [`encode_params`].
pub fn encode_call(
    method: &MethodInfo,
    params: &Value,
    add: impl FnOnce(&mut Map<String, Value>),
) -> Result<Message, ReflectError> {
    if method.takes_capabilities {
        return Err(ReflectError::whole(format!("{} takes capabilities, which JSON cannot give", method.name)));
    }
    let mut path = Path::default();
    let mut members = members_of(params, &path)?.clone();
    if let Some(name) = method.runner_params.iter().find(|name| members.contains_key(**name)) {
        return path.name(name, |path| Err(path.error(UNKNOWN)));
    }
    // The model's part is checked before anything is inserted instead of it.
    let message = encode((method.params_type)(), params)?;
    let before = members.clone();
    add(&mut members);
    if members == before { Ok(message) } else { encode((method.params_type)(), &Value::Object(members)) }
}

/// A message of a struct type from JSON.
///
/// # Errors
/// The JSON is not exactly what the type holds, or the message is too large.
pub fn encode(ty: Type, value: &Value) -> Result<Message, ReflectError> {
    let schema = pointer::schema_of(ty).map_err(|error| Path::default().capnp(&error))?;
    // The encoder may run twice and knows only its own errors; the rejection with its path is returned through this
    // cell.
    let refusal: RefCell<Option<ReflectError>> = RefCell::new(None);
    let result = wire::encode::<any_pointer::Owned>(64, |root, _caps| {
        let mut path = Path::default();
        let written = pointer::build(root, schema)
            .map_err(|error| path.capnp(&error))
            .and_then(|builder| write_struct(builder, value, &mut path));
        written.map_err(|error| {
            *refusal.borrow_mut() = Some(error);
            WireError::new("parameters", "refused")
        })
    });
    match (result, refusal.into_inner()) {
        (Ok(message), _) => Ok(message),
        (Err(_), Some(refusal)) => Err(refusal),
        (Err(error), None) => Err(ReflectError::whole(format!("{error}"))),
    }
}

/// Whether JSON must give this field of this struct.
fn is_required(owner: StructSchema, field: Field) -> capnp::Result<bool> {
    if has_annotation(field, optional::ID)? {
        return Ok(false);
    }
    let field::Slot(slot) = field.get_proto().which()? else { return Ok(true) };
    if slot.get_had_explicit_default() {
        return Ok(false);
    }
    match field.get_type().which() {
        TypeVariant::Void => Ok(false),
        TypeVariant::Struct(inner) => Ok(!holds(inner.into(), owner, &mut Vec::new())?),
        _ => Ok(true),
    }
}

/// Whether a struct is the wanted one or holds it, lists not counted: such a field must be allowed to
/// be absent, or no value would ever be whole.
fn holds(found: StructSchema, wanted: StructSchema, seen: &mut Vec<StructSchema>) -> capnp::Result<bool> {
    if found == wanted {
        return Ok(true);
    }
    if seen.contains(&found) {
        return Ok(false);
    }
    seen.push(found);
    for field in found.get_fields()? {
        if let TypeVariant::Struct(inner) = field.get_type().which()
            && holds(inner.into(), wanted, seen)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the field is annotated so.
pub(crate) fn has_annotation(field: Field, id: u64) -> capnp::Result<bool> {
    Ok(field.get_annotations()?.find(id).is_some())
}

/// Whether the field is part of its struct's union.
pub(crate) fn in_union(field: Field) -> bool {
    field.get_proto().get_discriminant_value() != field::NO_DISCRIMINANT
}

fn members_of<'v>(value: &'v Value, path: &Path) -> Result<&'v Map<String, Value>, ReflectError> {
    value.as_object().ok_or_else(|| path.error(format!("expected an object, found {}", kind_of(value))))
}

/// The kind of a JSON value, as text.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn write_struct(mut builder: dynamic_struct::Builder<'_>, value: &Value, path: &mut Path) -> Result<(), ReflectError> {
    let members = members_of(value, path)?;
    let schema = builder.get_schema();
    check_members(schema, members, path)?;
    for (name, member) in members {
        let found = schema.find_field_by_name(name).map_err(|error| path.capnp(&error))?;
        let Some(field) = found else {
            return path.name(name, |path| Err(path.error(UNKNOWN)));
        };
        path.name(name, |path| write_field(builder.reborrow(), field, member, path))?;
    }
    Ok(())
}

/// Refuses missing fields, and unions with none or several of their fields.
fn check_members(schema: StructSchema, members: &Map<String, Value>, path: &Path) -> Result<(), ReflectError> {
    let refuse = |error: capnp::Error| path.capnp(&error);
    let (mut variants, mut given): (Vec<&str>, usize) = (Vec::new(), 0);
    for field in schema.get_fields().map_err(refuse)? {
        let name = field.get_proto().get_name().map_err(refuse)?;
        let name = name.to_str().map_err(|_| path.error("a field's name is not UTF-8"))?;
        let is_given = members.contains_key(name);
        if in_union(field) {
            variants.push(name);
            given = given.saturating_add(usize::from(is_given));
        } else if !is_given && is_required(schema, field).map_err(refuse)? {
            return Err(path.error(format!("the field {name:?} is missing")));
        }
    }
    if !variants.is_empty() && given != 1 {
        return Err(path.error(format!("expected exactly one of {}", variants.join(", "))));
    }
    Ok(())
}

fn write_field(
    mut builder: dynamic_struct::Builder<'_>,
    field: Field,
    value: &Value,
    path: &mut Path,
) -> Result<(), ReflectError> {
    let is_text = has_annotation(field, text::ID).map_err(|error| path.capnp(&error))?;
    match field.get_type().which() {
        TypeVariant::Struct(_) => {
            members_of(value, path)?;
            match builder.init(field).map_err(|error| path.capnp(&error))? {
                dynamic_value::Builder::Struct(inner) => write_struct(inner, value, path),
                _ => Err(path.error("the schema is inconsistent here")),
            }
        }
        TypeVariant::List(inner) => {
            let (items, length) = items_of(value, path)?;
            match builder.initn(field, length).map_err(|error| path.capnp(&error))? {
                dynamic_value::Builder::List(list) => write_list(list, inner, items, is_text, path),
                _ => Err(path.error("the schema is inconsistent here")),
            }
        }
        ty => with_scalar(ty, value, is_text, path, |scalar| builder.set(field, scalar)),
    }
}

fn items_of<'v>(value: &'v Value, path: &Path) -> Result<(&'v [Value], u32), ReflectError> {
    let items = value.as_array().ok_or_else(|| path.error(format!("expected an array, found {}", kind_of(value))))?;
    let length = wire::length("list", items.len()).map_err(|_| path.error("too many items"))?;
    Ok((items, length))
}

fn write_list(
    mut list: dynamic_list::Builder<'_>,
    inner: Type,
    items: &[Value],
    is_text: bool,
    path: &mut Path,
) -> Result<(), ReflectError> {
    for ((at, item), number) in items.iter().enumerate().zip(0_u32..) {
        path.index(at, |path| match inner.which() {
            TypeVariant::Struct(_) => match list.reborrow().get(number).map_err(|error| path.capnp(&error))? {
                dynamic_value::Builder::Struct(builder) => write_struct(builder, item, path),
                _ => Err(path.error("the schema is inconsistent here")),
            },
            TypeVariant::List(deeper) => {
                let (items, length) = items_of(item, path)?;
                match list.reborrow().init(number, length).map_err(|error| path.capnp(&error))? {
                    dynamic_value::Builder::List(list) => write_list(list, deeper, items, is_text, path),
                    _ => Err(path.error("the schema is inconsistent here")),
                }
            }
            ty => with_scalar(ty, item, is_text, path, |scalar| list.set(number, scalar)),
        })?;
    }
    Ok(())
}

/// Turns JSON into anything that is neither struct nor list, and hands it to `set`.
fn with_scalar(
    ty: TypeVariant,
    value: &Value,
    is_text: bool,
    path: &Path,
    set: impl FnOnce(dynamic_value::Reader<'_>) -> capnp::Result<()>,
) -> Result<(), ReflectError> {
    use dynamic_value::Reader;
    let done = match ty {
        TypeVariant::Void if value.is_null() => set(Reader::Void),
        TypeVariant::Void => return Err(path.error(format!("expected null, found {}", kind_of(value)))),
        TypeVariant::Bool => match value.as_bool() {
            Some(value) => set(Reader::Bool(value)),
            None => return Err(path.error(format!("expected a boolean, found {}", kind_of(value)))),
        },
        TypeVariant::Int8 => set(Reader::Int8(signed(value, path)?)),
        TypeVariant::Int16 => set(Reader::Int16(signed(value, path)?)),
        TypeVariant::Int32 => set(Reader::Int32(signed(value, path)?)),
        TypeVariant::Int64 => set(Reader::Int64(signed(value, path)?)),
        TypeVariant::UInt8 => set(Reader::UInt8(unsigned(value, path)?)),
        TypeVariant::UInt16 => set(Reader::UInt16(unsigned(value, path)?)),
        TypeVariant::UInt32 => set(Reader::UInt32(unsigned(value, path)?)),
        TypeVariant::UInt64 => set(Reader::UInt64(unsigned(value, path)?)),
        TypeVariant::Float32 => set(Reader::Float32(narrow(number(value, path)?, path)?)),
        TypeVariant::Float64 => set(Reader::Float64(number(value, path)?)),
        TypeVariant::Text => set(Reader::Text(string(value, path)?.into())),
        TypeVariant::Data if is_text => set(Reader::Data(string(value, path)?.as_bytes())),
        TypeVariant::Data => match base64::decode(string(value, path)?) {
            Some(bytes) => set(Reader::Data(&bytes)),
            None => return Err(path.error("expected bytes as base64 with padding")),
        },
        TypeVariant::Enum(schema) => set(enumerant(schema.into(), string(value, path)?, path)?.into()),
        TypeVariant::Capability | TypeVariant::AnyPointer => {
            return Err(path.error("JSON cannot give a capability"));
        }
        TypeVariant::Struct(_) | TypeVariant::List(_) => return Err(path.error("the schema is inconsistent here")),
    };
    done.map_err(|error| path.capnp(&error))
}

fn string<'v>(value: &'v Value, path: &Path) -> Result<&'v str, ReflectError> {
    value.as_str().ok_or_else(|| path.error(format!("expected a string, found {}", kind_of(value))))
}

fn number(value: &Value, path: &Path) -> Result<f64, ReflectError> {
    value.as_f64().ok_or_else(|| path.error(format!("expected a number, found {}", kind_of(value))))
}

fn narrow(value: f64, path: &Path) -> Result<f32, ReflectError> {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest is what is meant; range is checked")]
    let narrow = value as f32;
    if narrow.is_finite() { Ok(narrow) } else { Err(path.error("the number is out of a 32-bit float's range")) }
}

fn not_integer(value: &Value, path: &Path) -> ReflectError {
    match value {
        Value::Number(number) if number.is_f64() => path.error(format!("expected an integer, found {number}")),
        Value::Number(number) => path.error(format!("the integer {number} is out of range")),
        _ => path.error(format!("expected an integer, found {}", kind_of(value))),
    }
}

fn signed<T: TryFrom<i64>>(value: &Value, path: &Path) -> Result<T, ReflectError> {
    value.as_i64().and_then(|integer| T::try_from(integer).ok()).ok_or_else(|| not_integer(value, path))
}

fn unsigned<T: TryFrom<u64>>(value: &Value, path: &Path) -> Result<T, ReflectError> {
    value.as_u64().and_then(|integer| T::try_from(integer).ok()).ok_or_else(|| not_integer(value, path))
}

fn enumerant(schema: EnumSchema, name: &str, path: &Path) -> Result<dynamic_value::Enum, ReflectError> {
    let mut names = Vec::new();
    for enumerant in schema.get_enumerants().map_err(|error| path.capnp(&error))? {
        let found = enumerant.get_proto().get_name().map_err(|error| path.capnp(&error))?;
        let found = found.to_str().map_err(|_| path.error("an enumerant's name is not UTF-8"))?;
        if found == name {
            return Ok(dynamic_value::Enum::new(enumerant.get_ordinal(), schema));
        }
        names.push(found);
    }
    Err(path.error(format!("expected one of {}", names.join(", "))))
}
