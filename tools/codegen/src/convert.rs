//! Rust types of the schema's types, and the code that reads and writes them.

use anyhow::Result;

use crate::code::Code;
use crate::model::{Field, Kind, Method, Role, Schema, Struct, Type, Value};
use crate::names;

/// Path of the support module of generated code.
pub const WIRE: &str = "::capos_schema::wire";
/// Path of the capability module.
pub const CAP: &str = "::capos_schema::cap";

/// How a field is held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// As it is.
    Plain,
    /// `Option`, absent where the pointer is null.
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

/// The expression that reads a field from `reader`.
pub fn read_field(schema: &Schema, owner: &Struct, field: &Field) -> Result<String> {
    let path = format!("{}.{}", owner.name, field.name);
    let name = names::snake(&field.name);
    let getter = format!("reader.get_{name}()");
    let inner = read_kind(schema, &path, &field.kind, &getter)?;
    Ok(held(hold(schema, owner.id, field), &name, &inner))
}

/// The expression that reads a variant's payload from `value`, as capnpc's `Which` gives it.
pub fn read_variant(schema: &Schema, owner: &Struct, field: &Field) -> Result<String> {
    let path = format!("{}.{}", owner.name, field.name);
    let inner = read_kind(schema, &path, &field.kind, "value")?;
    Ok(held(hold(schema, owner.id, field), &names::snake(&field.name), &inner))
}

fn held(hold: Hold, name: &str, inner: &str) -> String {
    let some = match hold {
        Hold::Plain => return inner.to_owned(),
        Hold::Optional => inner.to_owned(),
        Hold::Boxed => format!("::alloc::boxed::Box::new({inner})"),
    };
    format!("if reader.has_{name}() {{ ::core::option::Option::Some({some}) }} else {{ ::core::option::Option::None }}")
}

fn read_kind(schema: &Schema, path: &str, kind: &Kind, source: &str) -> Result<String> {
    match kind {
        Kind::Group(id) => Ok(format!("<{} as {WIRE}::Wire>::read({source}, caps)?", struct_path(schema, *id)?)),
        Kind::Slot(ty) => read_type(schema, path, ty, source),
    }
}

fn read_type(schema: &Schema, path: &str, ty: &Type, source: &str) -> Result<String> {
    Ok(match ty {
        Type::Void => "()".to_owned(),
        Type::Bool | Type::Int(_) | Type::Uint(_) | Type::Float(_) => source.to_owned(),
        Type::Text => format!("{WIRE}::text({path:?}, {source})?"),
        Type::Data => format!("{WIRE}::data({path:?}, {source})?"),
        Type::Enum(_) => format!("{WIRE}::enumerant({path:?}, {source})?"),
        Type::Struct(id) => format!(
            "<{} as {WIRE}::Wire>::read({WIRE}::pointer({path:?}, {source})?, caps)?",
            struct_path(schema, *id)?
        ),
        Type::Interface(id) => {
            format!("<{} as {CAP}::Client>::from_cap(caps.take({path:?}, {source})?)", client_path(schema, *id)?)
        }
        Type::AnyCapability => {
            format!("caps.take({path:?}, {source}.get_as_capability::<{WIRE}::Hook>())?")
        }
        Type::List(inner) => {
            let list = format!("{WIRE}::pointer({path:?}, {source})?");
            match &**inner {
                Type::Void | Type::Bool | Type::Int(_) | Type::Uint(_) | Type::Float(_) => {
                    format!("{list}.iter().collect()")
                }
                inner => {
                    let item = read_list_item(schema, path, inner)?;
                    format!(
                        "{{ let list = {list}; let mut out = ::alloc::vec::Vec::with_capacity(list.len() as usize); \
                         for item in list.iter() {{ out.push({item}); }} out }}"
                    )
                }
            }
        }
    })
}

fn read_list_item(schema: &Schema, path: &str, inner: &Type) -> Result<String> {
    match inner {
        Type::Struct(id) => Ok(format!("<{} as {WIRE}::Wire>::read(item, caps)?", struct_path(schema, *id)?)),
        inner => read_type(schema, path, inner, "item"),
    }
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
        (Hold::Plain, Kind::Slot(ty)) => write_value(code, owner, field, &borrow(ty, place)),
        (Hold::Plain, Kind::Group(_)) => write_value(code, owner, field, &format!("&{place}")),
        _ => write_optional(code, schema, owner, field, &format!("&{place}")),
    }
}

/// Writes a variant's payload, of which `value` is a reference.
pub fn write_variant(code: &mut Code, schema: &Schema, owner: &Struct, field: &Field) -> Result<()> {
    match (hold(schema, owner.id, field), &field.kind) {
        (Hold::Plain, Kind::Slot(ty)) => write_value(code, owner, field, &from_reference(ty, "value")),
        (Hold::Plain, Kind::Group(_)) => write_value(code, owner, field, "value"),
        _ => {
            // The discriminant must be set also where there is nothing to point to.
            if let Kind::Slot(Type::Struct(_)) = &field.kind {
                code.line(&format!("builder.reborrow().init_{}();", names::snake(&field.name)));
            }
            write_optional(code, schema, owner, field, "value")
        }
    }
}

fn write_optional(code: &mut Code, schema: &Schema, owner: &Struct, field: &Field, option: &str) -> Result<()> {
    let Kind::Slot(ty) = &field.kind else { return Ok(()) };
    code.open(&format!("if let ::core::option::Option::Some(value) = {option} {{"));
    let reference =
        if hold(schema, owner.id, field) == Hold::Boxed { "&**value".to_owned() } else { from_reference(ty, "value") };
    write_value(code, owner, field, &reference)?;
    code.close("}");
    Ok(())
}

/// Writes a client's argument.
pub fn write_argument(code: &mut Code, owner: &Struct, field: &Field, name: &str) -> Result<()> {
    if field.has("optional") && is_pointer(&field.kind) {
        code.open(&format!("if let ::core::option::Option::Some(value) = {name} {{"));
        write_value(code, owner, field, "value")?;
        code.close("}");
        Ok(())
    } else {
        write_value(code, owner, field, name)
    }
}

/// Writes a value given in borrowed form: scalars by value, everything else by reference or slice.
pub fn write_value(code: &mut Code, owner: &Struct, field: &Field, value: &str) -> Result<()> {
    let path = format!("{}.{}", owner.name, field.name);
    let name = names::snake(&field.name);
    match &field.kind {
        Kind::Group(_) => {
            code.line(&format!("{WIRE}::Wire::write({value}, builder.reborrow().init_{name}(), caps)?;"));
        }
        Kind::Slot(Type::Void) => code.line(&format!("builder.set_{name}(());")),
        Kind::Slot(Type::Enum(_)) => code.line(&format!("builder.set_{name}(::core::convert::Into::into({value}));")),
        Kind::Slot(Type::Struct(_)) => {
            code.line(&format!("{WIRE}::Wire::write({value}, builder.reborrow().init_{name}(), caps)?;"));
        }
        Kind::Slot(Type::Interface(_)) => {
            code.line(&format!("builder.set_{name}(caps.put({CAP}::AsCap::as_cap({value})));"));
        }
        Kind::Slot(Type::AnyCapability) => {
            code.line(&format!(
                "builder.reborrow().init_{name}().set_as_capability(caps.put({CAP}::AsCap::as_cap({value})));"
            ));
        }
        Kind::Slot(Type::List(inner)) => {
            code.open("{");
            code.line(&format!("let value = {value};"));
            code.line(&format!(
                "let mut list = builder.reborrow().init_{name}({WIRE}::length({path:?}, value.len())?);"
            ));
            write_list(code, &path, inner)?;
            code.close("}");
        }
        Kind::Slot(_) => code.line(&format!("builder.set_{name}({value});")),
    }
    Ok(())
}

/// Writes the slice `value` into the list builder `list`.
fn write_list(code: &mut Code, path: &str, inner: &Type) -> Result<()> {
    code.open("for (at, item) in (0_u32..).zip(value.iter()) {");
    match inner {
        Type::Struct(_) => code.line(&format!("{WIRE}::Wire::write(item, list.reborrow().get(at), caps)?;")),
        Type::Enum(_) => code.line("list.set(at, (*item).into());"),
        Type::Text => code.line("list.set(at, item.as_str());"),
        Type::Data => code.line("list.set(at, item.as_slice());"),
        Type::Interface(_) => code.line(&format!("list.set(at, caps.put({CAP}::AsCap::as_cap(item)));")),
        Type::List(deeper) => {
            code.line("let value = item.as_slice();");
            code.line(&format!("let mut list = list.reborrow().init(at, {WIRE}::length({path:?}, value.len())?);"));
            write_list(code, path, deeper)?;
        }
        Type::AnyCapability => anyhow::bail!("{path}: List(Capability) is not supported; make a struct of it"),
        _ => code.line("list.set(at, *item);"),
    }
    code.close("}");
    Ok(())
}

/// An expression for the size of a message in words, from the borrowed values of its fields.
pub fn size_hint(schema: &Schema, structure: &Struct, names_of: &[(&Field, String)]) -> Result<String> {
    let mut fixed = structure.words.saturating_add(2);
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
                    Type::Struct(id) => schema.structure(*id)?.words.saturating_add(6),
                    Type::Text | Type::Data | Type::List(_) => 6,
                    _ => 1,
                };
                sum.push_str(&format!(" + {name}.len() * {each} + 2"));
            }
            Kind::Slot(Type::Struct(id)) | Kind::Group(id) => {
                fixed = fixed.saturating_add(schema.structure(*id)?.words.saturating_add(24));
            }
            Kind::Slot(_) => {}
        }
    }
    Ok(format!("{fixed}{sum}"))
}

/// What a method's results are in Rust.
pub enum Shape<'a> {
    /// Nothing.
    Unit,
    /// One value.
    Bare(&'a Struct, &'a Field),
    /// A struct.
    Struct(&'a Struct),
}

/// What a method's results are in Rust.
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
