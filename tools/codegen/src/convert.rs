//! Rust types of the schema's types, and the code that reads and writes them.

use anyhow::Result;

use crate::code::Code;
use crate::model::{Field, Kind, Method, Role, Schema, Struct, Type, Value};
use crate::names;

/// Path of the support module of generated code.
pub const WIRE: &str = "::capos_schema::wire";
/// Paths of the code with which generated code reads and writes messages.
pub const READER: &str = "::capos_schema::reader";
pub const BUILDER: &str = "::capos_schema::builder";
/// Path of the capability module.
pub const CAP: &str = "::capos_schema::cap";

/// How a field is held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Its own type.
    Plain,
    /// `Option`, absent if the pointer is null.
    Optional,
    /// `Option<Box>`, since the struct holds itself.
    Boxed,
}

/// How a field of this struct is held.
pub fn hold(schema: &Schema, owner: u64, field: &Field) -> Hold {
    if schema.is_recursive(owner, &field.kind) {
        Hold::Boxed
    } else if field.has("optional") && is_pointer(&field.kind) {
        Hold::Optional
    } else {
        Hold::Plain
    }
}

fn is_pointer(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Slot(
            Type::Text | Type::Data | Type::List(_) | Type::Struct(_) | Type::Interface(_) | Type::AnyCapability
        )
    )
}

/// The owned Rust type.
pub fn owned_type(schema: &Schema, ty: &Type) -> Result<String> {
    Ok(match ty {
        Type::Void => "()".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Int(bits) => format!("i{bits}"),
        Type::Uint(bits) => format!("u{bits}"),
        Type::Float(bits) => format!("f{bits}"),
        Type::Text => "::alloc::string::String".to_owned(),
        Type::Data => "::alloc::vec::Vec<u8>".to_owned(),
        Type::List(inner) => format!("::alloc::vec::Vec<{}>", owned_type(schema, inner)?),
        Type::Enum(id) => enum_path(schema, *id)?,
        Type::Struct(id) => struct_path(schema, *id)?,
        Type::Interface(id) => client_path(schema, *id)?,
        Type::AnyCapability => format!("{CAP}::Cap"),
    })
}

/// The owned Rust type of a slot or group.
pub fn kind_type(schema: &Schema, kind: &Kind) -> Result<String> {
    match kind {
        Kind::Slot(ty) => owned_type(schema, ty),
        Kind::Group(id) => struct_path(schema, *id),
    }
}

/// The owned Rust type of a field.
pub fn field_type(schema: &Schema, owner: u64, field: &Field) -> Result<String> {
    let inner = kind_type(schema, &field.kind)?;
    Ok(match hold(schema, owner, field) {
        Hold::Plain => inner,
        Hold::Optional => format!("::core::option::Option<{inner}>"),
        Hold::Boxed => format!("::core::option::Option<::alloc::boxed::Box<{inner}>>"),
    })
}

/// The Rust type of a client's argument.
pub fn argument_type(schema: &Schema, field: &Field) -> Result<String> {
    let Kind::Slot(ty) = &field.kind else { return kind_type(schema, &field.kind).map(|name| format!("&{name}")) };
    let inner = match ty {
        Type::Text => "&str".to_owned(),
        Type::Data => "&[u8]".to_owned(),
        Type::List(inner) => format!("&[{}]", owned_type(schema, inner)?),
        Type::Struct(_) => format!("&{}", owned_type(schema, ty)?),
        Type::AnyCapability => format!("&impl {CAP}::AsCap"),
        Type::Interface(id) if schema.interface(*id)?.methods.is_empty() => format!("&impl {CAP}::AsCap"),
        Type::Interface(_) => format!("&{}", owned_type(schema, ty)?),
        _ => owned_type(schema, ty)?,
    };
    Ok(if field.has("optional") && is_pointer(&field.kind) {
        format!("::core::option::Option<{inner}>")
    } else {
        inner
    })
}

fn enum_path(schema: &Schema, id: u64) -> Result<String> {
    let found = schema.enumeration(id)?;
    Ok(format!("crate::{}::{}", names::ident(&found.file), found.name))
}

fn struct_path(schema: &Schema, id: u64) -> Result<String> {
    let found = schema.structure(id)?;
    Ok(format!("crate::{}::{}", names::ident(&found.file), found.name))
}

/// Path of an interface's client.
pub fn client_path(schema: &Schema, id: u64) -> Result<String> {
    let found = schema.interface(id)?;
    Ok(format!("crate::{}::{}Client", names::ident(&found.file), found.name))
}

/// Whether a value of this type is made without knowing anything.
pub fn has_default(schema: &Schema, owner: u64, field: &Field) -> bool {
    hold(schema, owner, field) != Hold::Plain || kind_has_default(schema, &field.kind)
}

fn kind_has_default(schema: &Schema, kind: &Kind) -> bool {
    match kind {
        Kind::Group(id) | Kind::Slot(Type::Struct(id)) => {
            schema.structs.get(id).is_some_and(|structure| struct_has_default(schema, structure))
        }
        Kind::Slot(Type::Interface(_) | Type::AnyCapability) => false,
        Kind::Slot(_) => true,
    }
}

/// Whether the struct's owned type has a default.
pub fn struct_has_default(schema: &Schema, structure: &Struct) -> bool {
    structure.plain().chain(structure.union().into_iter().take(1)).all(|field| has_default(schema, structure.id, field))
}

/// A literal of a field's default.
pub fn default_value(schema: &Schema, field: &Field) -> Result<String> {
    let default = "::core::default::Default::default()".to_owned();
    let Kind::Slot(ty) = &field.kind else { return Ok(default) };
    Ok(match (&field.default, ty) {
        (Some(Value::Bool(value)), _) => value.to_string(),
        (Some(Value::Int(value)), _) => value.to_string(),
        (Some(Value::Uint(value)), _) => value.to_string(),
        (Some(Value::Float(value)), Type::Float(bits)) => {
            if *bits == 32 {
                format!("f64::from_bits({:#x}) as f32", value.to_bits())
            } else {
                format!("f64::from_bits({:#x})", value.to_bits())
            }
        }
        (Some(Value::Text(value)), _) => format!("::alloc::string::String::from({value:?})"),
        (Some(Value::Data(value)), _) => format!("::alloc::vec::Vec::from({value:?})"),
        (Some(Value::Enum(ordinal)), Type::Enum(id)) => {
            let found = schema.enumeration(*id)?;
            match found.enumerants.get(usize::from(*ordinal)) {
                Some((name, _)) => format!("{}::{}", enum_path(schema, *id)?, names::pascal(name)),
                None => default,
            }
        }
        _ => default,
    })
}

/// The expression that reads a field from the struct `reader`.
pub fn read_field(schema: &Schema, owner: &Struct, field: &Field) -> Result<String> {
    let path = format!("{}.{}", owner.name, field.name);
    let ty = match &field.kind {
        Kind::Group(id) => return Ok(format!("<{} as {WIRE}::Wire>::read(reader)?", struct_path(schema, *id)?)),
        Kind::Slot(ty) => ty,
    };
    let at = field.offset;
    let number = |rust: &str, default: &Option<String>| match default {
        Some(default) => format!("reader.number_or::<{rust}>({at}, {default})"),
        None => format!("reader.number::<{rust}>({at})"),
    };
    let default = scalar_default(schema, field)?;
    Ok(match ty {
        Type::Void => "()".to_owned(),
        Type::Bool if default.as_deref() == Some("true") => format!("!reader.flag({at})"),
        Type::Bool => format!("reader.flag({at})"),
        Type::Int(_) | Type::Uint(_) | Type::Float(_) => number(&owned_type(schema, ty)?, &default),
        Type::Enum(id) => {
            format!("{WIRE}::enumerant({path:?}, {}, {}::ALL)?", number("u16", &default), enum_path(schema, *id)?)
        }
        pointer => {
            let inner = read_pointer(schema, &path, pointer, &format!("reader.pointer({at})"))?;
            let (absent, present) = match (hold(schema, owner.id, field), &field.default) {
                (Hold::Plain, None) => return Ok(inner),
                (Hold::Plain, Some(default)) => (read_default(schema, field, &path, default)?, inner),
                (Hold::Optional, _) => {
                    ("::core::option::Option::None".to_owned(), format!("::core::option::Option::Some({inner})"))
                }
                (Hold::Boxed, _) => (
                    "::core::option::Option::None".to_owned(),
                    format!(
                        "reader.pointer({at}).account::<{}>({path:?})?; \
                         ::core::option::Option::Some(::alloc::boxed::Box::new({inner}))",
                        owned_type(schema, pointer)?
                    ),
                ),
            };
            format!("if reader.pointer({at}).is_null() {{ {absent} }} else {{ {present} }}")
        }
    })
}

/// The expression that makes the default of a pointer's field which is not there.
fn read_default(schema: &Schema, field: &Field, path: &str, default: &Value) -> Result<String> {
    let pointer = format!("reader.pointer({})", field.offset);
    Ok(match default {
        Value::Text(value) => format!("{pointer}.default_text({path:?}, {value:?})?"),
        Value::Data(value) => format!("{pointer}.default_data({path:?}, &{value:?})?"),
        _ => default_value(schema, field)?,
    })
}

/// The default that a scalar's bits lie relative to, if it is not zero.
fn scalar_default(schema: &Schema, field: &Field) -> Result<Option<String>> {
    Ok(match (&field.default, &field.kind) {
        (Some(Value::Enum(ordinal)), _) => Some(format!("{ordinal}_u16")),
        (Some(Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Float(_)), _) => {
            Some(default_value(schema, field)?)
        }
        _ => None,
    })
}

/// The expression that reads a pointer's target.
fn read_pointer(schema: &Schema, path: &str, ty: &Type, pointer: &str) -> Result<String> {
    Ok(match ty {
        Type::Text => format!("{pointer}.text({path:?})?"),
        Type::Data => format!("{pointer}.data({path:?})?"),
        Type::Struct(id) => {
            format!("<{} as {WIRE}::Wire>::read({pointer}.structure({path:?})?)?", struct_path(schema, *id)?)
        }
        Type::Interface(id) => {
            format!("<{} as {CAP}::Client>::from_cap({pointer}.cap({path:?})?)", client_path(schema, *id)?)
        }
        Type::AnyCapability => format!("{pointer}.cap({path:?})?"),
        Type::List(inner) => match &**inner {
            Type::Void => format!("::alloc::vec![(); {pointer}.length({path:?})?]"),
            Type::Bool => format!("{pointer}.flags({path:?})?"),
            Type::Int(_) | Type::Uint(_) | Type::Float(_) => {
                format!("{pointer}.numbers::<{}>({path:?})?", owned_type(schema, inner)?)
            }
            Type::Enum(id) => {
                format!("{pointer}.enumerants({path:?}, {}::ALL)?", enum_path(schema, *id)?)
            }
            Type::Struct(id) => {
                let item = format!("<{} as {WIRE}::Wire>::read(item)?", struct_path(schema, *id)?);
                collect(path, &format!("{pointer}.structs({path:?})?"), "structures", &item)
            }
            inner => {
                let item = read_pointer(schema, path, inner, "item")?;
                collect(path, &format!("{pointer}.pointers({path:?})?"), "elements", &item)
            }
        },
        scalar => anyhow::bail!("{path}: {scalar:?} is not reached through a pointer"),
    })
}

/// A vector with the value of `item` for each item of a list.
fn collect(path: &str, list: &str, items: &str, item: &str) -> String {
    format!(
        "{{ let items = {list}; let mut out = items.room({path:?})?; \
         for item in items.{items}() {{ out.push({item}); }} out }}"
    )
}

/// A borrow of an owned place, in the form that [`write_value`] takes.
pub fn borrow(ty: &Type, place: &str) -> String {
    match ty {
        Type::Text => format!("{place}.as_str()"),
        Type::Data | Type::List(_) => format!("{place}.as_slice()"),
        Type::Struct(_) | Type::Interface(_) | Type::AnyCapability => format!("&{place}"),
        _ => place.to_owned(),
    }
}

/// The same from a reference.
fn from_reference(ty: &Type, reference: &str) -> String {
    match ty {
        Type::Text => format!("{reference}.as_str()"),
        Type::Data | Type::List(_) => format!("{reference}.as_slice()"),
        Type::Struct(_) | Type::Interface(_) | Type::AnyCapability => reference.to_owned(),
        _ => format!("*{reference}"),
    }
}

/// Writes an owned field at `place` (such as `self.name`).
pub fn write_field(code: &mut Code, schema: &Schema, owner: &Struct, field: &Field, place: &str) -> Result<()> {
    match (hold(schema, owner.id, field), &field.kind) {
        (Hold::Plain, Kind::Slot(ty)) => write_value(code, schema, owner, field, &borrow(ty, place)),
        (Hold::Plain, Kind::Group(_)) => write_value(code, schema, owner, field, &format!("&{place}")),
        _ => write_optional(code, schema, owner, field, &format!("&{place}")),
    }
}

/// Writes a variant's payload, to which `value` is a reference.
pub fn write_variant(code: &mut Code, schema: &Schema, owner: &Struct, field: &Field) -> Result<()> {
    match (hold(schema, owner.id, field), &field.kind) {
        (Hold::Plain, Kind::Slot(ty)) => write_value(code, schema, owner, field, &from_reference(ty, "value")),
        (Hold::Plain, Kind::Group(_)) => write_value(code, schema, owner, field, "value"),
        _ => write_optional(code, schema, owner, field, "value"),
    }
}

fn write_optional(code: &mut Code, schema: &Schema, owner: &Struct, field: &Field, option: &str) -> Result<()> {
    let Kind::Slot(ty) = &field.kind else { return Ok(()) };
    code.open(&format!("if let ::core::option::Option::Some(value) = {option} {{"));
    let reference =
        if hold(schema, owner.id, field) == Hold::Boxed { "&**value".to_owned() } else { from_reference(ty, "value") };
    write_value(code, schema, owner, field, &reference)?;
    code.close("}");
    Ok(())
}

/// Writes a client's argument.
pub fn write_argument(code: &mut Code, schema: &Schema, owner: &Struct, field: &Field, name: &str) -> Result<()> {
    if field.has("optional") && is_pointer(&field.kind) {
        code.open(&format!("if let ::core::option::Option::Some(value) = {name} {{"));
        write_value(code, schema, owner, field, "value")?;
        code.close("}");
        Ok(())
    } else {
        write_value(code, schema, owner, field, name)
    }
}

/// Writes a value to the struct at `place` of `builder`. It is given in borrowed form: scalars by value, everything else by
/// reference or slice.
pub fn write_value(code: &mut Code, schema: &Schema, owner: &Struct, field: &Field, value: &str) -> Result<()> {
    let path = format!("{}.{}", owner.name, field.name);
    let at = field.offset;
    let mut number = |value: &str, default: Option<String>| match default {
        Some(default) => code.line(&format!("builder.number_or(place, {at}, {value}, {default});")),
        None => code.line(&format!("builder.number(place, {at}, {value});")),
    };
    let default = scalar_default(schema, field)?;
    match &field.kind {
        Kind::Group(_) => code.line(&format!("{WIRE}::Wire::write({value}, builder, place)?;")),
        Kind::Slot(Type::Void) => {}
        Kind::Slot(Type::Bool) if default.as_deref() == Some("true") => {
            code.line(&format!("builder.flag(place, {at}, ::core::ops::Not::not({value}));"));
        }
        Kind::Slot(Type::Bool) => code.line(&format!("builder.flag(place, {at}, {value});")),
        Kind::Slot(Type::Int(_) | Type::Uint(_) | Type::Float(_)) => number(value, default),
        Kind::Slot(Type::Enum(_)) => number(&format!("{value} as u16"), default),
        Kind::Slot(pointer) => write_pointer(code, schema, &path, pointer, &format!("place.pointer({at})"), value)?,
    }
    Ok(())
}

/// The sizes of a struct's sections.
fn sections(schema: &Schema, id: u64) -> Result<(u16, u16)> {
    schema.structure(id).map(|found| (found.data_words, found.pointers))
}

/// Writes the target of the pointer at the word `at`.
fn write_pointer(code: &mut Code, schema: &Schema, path: &str, ty: &Type, at: &str, value: &str) -> Result<()> {
    match ty {
        Type::Text => code.line(&format!("builder.text({path:?}, {at}, {value})?;")),
        Type::Data => code.line(&format!("builder.data({path:?}, {at}, {value})?;")),
        Type::Struct(id) => {
            let (data, pointers) = sections(schema, *id)?;
            code.open("{");
            // Before the block has a name of its own: an argument may be called `inner`.
            code.line(&format!("let value = {value};"));
            code.line(&format!("let inner = builder.structure({at}, {data}, {pointers})?;"));
            code.line(&format!("{WIRE}::Wire::write(value, builder, inner)?;"));
            code.close("}");
        }
        Type::Interface(_) | Type::AnyCapability => {
            code.line(&format!("builder.cap({at}, {CAP}::AsCap::as_cap({value}));"));
        }
        Type::List(inner) => write_list(code, schema, path, inner, at, value)?,
        scalar => anyhow::bail!("{path}: {scalar:?} is not reached through a pointer"),
    }
    Ok(())
}

/// Writes the slice `value` as the list that the pointer at the word `at` leads to.
fn write_list(code: &mut Code, schema: &Schema, path: &str, inner: &Type, at: &str, value: &str) -> Result<()> {
    match inner {
        Type::Void => code.line(&format!("builder.nothings({path:?}, {at}, {value}.len())?;")),
        Type::Bool => code.line(&format!("builder.flags({path:?}, {at}, {value})?;")),
        Type::Int(_) | Type::Uint(_) | Type::Float(_) => {
            code.line(&format!("builder.numbers({path:?}, {at}, {value}.iter().copied())?;"));
        }
        Type::Enum(_) => {
            code.line(&format!("builder.numbers({path:?}, {at}, {value}.iter().map(|item| *item as u16))?;"));
        }
        Type::Struct(id) => {
            let (data, pointers) = sections(schema, *id)?;
            code.open("{");
            code.line(&format!("let value = {value};"));
            code.line(&format!("let places = builder.structures({path:?}, {at}, value.len(), ({data}, {pointers}))?;"));
            code.open("for (item, inner) in value.iter().zip(places) {");
            code.line(&format!("{WIRE}::Wire::write(item, builder, inner)?;"));
            code.close("}");
            code.close("}");
        }
        inner => {
            code.open("{");
            code.line(&format!("let value = {value};"));
            code.line(&format!("let first = builder.pointers({path:?}, {at}, value.len())?;"));
            code.open("for (number, item) in value.iter().enumerate() {");
            code.line("let at = first.wrapping_add(number);");
            write_pointer(code, schema, path, inner, "at", &from_reference(inner, "item"))?;
            code.close("}");
            code.close("}");
        }
    }
    Ok(())
}

/// An expression for the size of a message in 8-byte words, from the borrowed values of its fields.
pub fn size_hint(schema: &Schema, structure: &Struct, names_of: &[(&Field, String)]) -> Result<String> {
    let mut fixed = structure.words().saturating_add(2);
    let mut sum = String::new();
    for (field, name) in names_of {
        if field.has("optional") {
            fixed = fixed.saturating_add(16);
            continue;
        }
        match &field.kind {
            Kind::Slot(Type::Text | Type::Data) => sum.push_str(&format!(" + {name}.len() / 8 + 1")),
            Kind::Slot(Type::List(inner)) => {
                let each = match &**inner {
                    Type::Struct(id) => schema.structure(*id)?.words().saturating_add(6),
                    Type::Text | Type::Data | Type::List(_) => 6,
                    _ => 1,
                };
                sum.push_str(&format!(" + {name}.len() * {each} + 2"));
            }
            Kind::Slot(Type::Struct(id)) | Kind::Group(id) => {
                fixed = fixed.saturating_add(schema.structure(*id)?.words().saturating_add(24));
            }
            Kind::Slot(_) => {}
        }
    }
    Ok(format!("{fixed}{sum}"))
}

/// The Rust type of a method's results.
pub enum Shape<'a> {
    /// Nothing.
    Unit,
    /// One value.
    Bare(&'a Struct, &'a Field),
    /// A struct.
    Struct(&'a Struct),
}

/// The Rust type of a method's results.
pub fn results<'a>(schema: &'a Schema, method: &Method) -> Result<Shape<'a>> {
    let structure = schema.structure(method.results)?;
    if structure.role != Role::Results {
        return Ok(Shape::Struct(structure));
    }
    Ok(match structure.fields.as_slice() {
        [] => Shape::Unit,
        [one] => Shape::Bare(structure, one),
        _ => Shape::Struct(structure),
    })
}

/// The Rust type of a method's results.
pub fn results_type(schema: &Schema, method: &Method) -> Result<String> {
    match results(schema, method)? {
        Shape::Unit => Ok("()".to_owned()),
        Shape::Bare(owner, field) => field_type(schema, owner.id, field),
        Shape::Struct(structure) => struct_path(schema, structure.id),
    }
}
