//! Owned types: structs, enums and unions, with their readers and writers.

use anyhow::{Result, bail};

use crate::code::Code;
use crate::convert::{self, BUILDER, Hold, READER, WIRE};
use crate::model::{Enum, Field, File, Kind, Role, Schema, Struct, Type};
use crate::names;

/// The owned types of one file.
pub fn generate(schema: &Schema, file: &File) -> Result<String> {
    let mut code = Code::new();
    for id in &file.enums {
        enumeration(&mut code, schema.enumeration(*id)?);
    }
    for id in &file.structs {
        let structure = schema.structure(*id)?;
        let wanted = match structure.role {
            Role::Plain | Role::Group => true,
            Role::Params => false,
            Role::Results => structure.fields.len() > 1,
        };
        if wanted {
            if structure.is_enum() {
                union(&mut code, schema, structure)?;
            } else {
                record(&mut code, schema, structure)?;
            }
            wire(&mut code, schema, structure)?;
        }
    }
    Ok(code.finish())
}

fn enumeration(code: &mut Code, found: &Enum) {
    let name = &found.name;
    code.docs_or(&found.doc, &format!("Enum `{name}`."));
    code.line("#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]");
    code.line("#[repr(u16)]");
    code.open(&format!("pub enum {name} {{"));
    for (at, (enumerant, doc)) in found.enumerants.iter().enumerate() {
        code.docs_or(doc, &format!("`{enumerant}`."));
        if at == 0 {
            code.line("#[default]");
        }
        code.line(&format!("{} = {at},", names::pascal(enumerant)));
    }
    code.close("}");
    code.open(&format!("impl {name} {{"));
    code.line("/// Every value, in order.");
    code.line(&format!("pub const ALL: &'static [{name}] = &["));
    for (enumerant, _) in &found.enumerants {
        code.line(&format!("    {name}::{},", names::pascal(enumerant)));
    }
    code.line("];");
    code.line("/// The name in the schema.");
    code.line("#[must_use]");
    code.open("pub const fn name(self) -> &'static str {");
    code.open("match self {");
    for (enumerant, _) in &found.enumerants {
        code.line(&format!("Self::{} => {enumerant:?},", names::pascal(enumerant)));
    }
    code.close("}");
    code.close("}");
    code.line("/// The value with this name in the schema.");
    code.line("#[must_use]");
    code.open("pub fn from_name(name: &str) -> ::core::option::Option<Self> {");
    code.open("match name {");
    for (enumerant, _) in &found.enumerants {
        code.line(&format!("{enumerant:?} => ::core::option::Option::Some(Self::{}),", names::pascal(enumerant)));
    }
    code.line("_ => ::core::option::Option::None,");
    code.close("}");
    code.close("}");
    code.close("}");
    code.open(&format!("impl ::core::fmt::Display for {name} {{"));
    code.open("fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {");
    code.line("f.write_str(self.name())");
    code.close("}");
    code.close("}");
    for (from, to) in [(&found.path, name), (name, &found.path)] {
        code.open(&format!("impl ::core::convert::From<{from}> for {to} {{"));
        code.open(&format!("fn from(value: {from}) -> Self {{"));
        code.open("match value {");
        for (enumerant, _) in &found.enumerants {
            let variant = names::pascal(enumerant);
            code.line(&format!("{from}::{variant} => Self::{variant},"));
        }
        code.close("}");
        code.close("}");
        code.close("}");
    }
}

fn derives(schema: &Schema, structure: &Struct) -> String {
    let eq = if schema.has_floats(&Kind::Group(structure.id)) { "" } else { ", Eq" };
    format!("Clone, Debug, PartialEq{eq}")
}

fn record(code: &mut Code, schema: &Schema, structure: &Struct) -> Result<()> {
    let name = &structure.name;
    let has_default = convert::struct_has_default(schema, structure);
    let plain_default = has_default && structure.plain().all(|field| field.default.is_none());
    let has_union = !structure.union().is_empty();
    let doc = match structure.role {
        Role::Group => format!("Group of fields `{name}`."),
        Role::Results => format!("Results `{name}`."),
        Role::Plain | Role::Params => format!("Struct `{name}`."),
    };
    code.docs_or(&structure.doc, &doc);
    let default = if plain_default { ", Default" } else { "" };
    code.line(&format!("#[derive({}{default})]", derives(schema, structure)));
    code.open(&format!("pub struct {name} {{"));
    let mut seen = Vec::new();
    for field in structure.plain() {
        code.docs_or(&field.doc, &format!("`{}`.", field.name));
        let rust = names::ident(&names::snake(&field.name));
        code.line(&format!("pub {rust}: {},", convert::field_type(schema, structure.id, field)?));
        seen.push(rust);
    }
    if has_union {
        if seen.iter().any(|name| name == "which") {
            bail!("{name} has an unnamed union and a field `which`; rename the field");
        }
        code.line("/// Which variant of the union is there.");
        code.line(&format!("pub which: {},", structure.union_name()));
    }
    code.close("}");
    if has_default && !plain_default {
        code.open(&format!("impl ::core::default::Default for {name} {{"));
        code.open("fn default() -> Self {");
        code.open("Self {");
        for field in structure.plain() {
            let value = if convert::hold(schema, structure.id, field) == Hold::Plain {
                convert::default_value(schema, field)?
            } else {
                "::core::option::Option::None".to_owned()
            };
            code.line(&format!("{}: {value},", names::ident(&names::snake(&field.name))));
        }
        if has_union {
            code.line("which: ::core::default::Default::default(),");
        }
        code.close("}");
        code.close("}");
        code.close("}");
    }
    if has_union {
        union(code, schema, structure)?;
    }
    Ok(())
}

fn union(code: &mut Code, schema: &Schema, structure: &Struct) -> Result<()> {
    let name = structure.union_name();
    code.docs_or(&structure.doc, &format!("Union `{name}`."));
    code.line(&format!("#[derive({})]", derives(schema, structure)));
    code.open(&format!("pub enum {name} {{"));
    for field in structure.union() {
        code.docs_or(&field.doc, &format!("`{}`.", field.name));
        let variant = names::pascal(&field.name);
        if is_void(field) {
            code.line(&format!("{variant},"));
        } else {
            code.line(&format!("{variant}({}),", convert::field_type(schema, structure.id, field)?));
        }
    }
    code.close("}");
    if let Some(first) = structure.union().first()
        && convert::has_default(schema, structure.id, first)
    {
        code.open(&format!("impl ::core::default::Default for {name} {{"));
        code.open("fn default() -> Self {");
        let variant = names::pascal(&first.name);
        if is_void(first) {
            code.line(&format!("Self::{variant}"));
        } else {
            let value = if convert::hold(schema, structure.id, first) == Hold::Plain {
                convert::default_value(schema, first)?
            } else {
                "::core::option::Option::None".to_owned()
            };
            code.line(&format!("Self::{variant}({value})"));
        }
        code.close("}");
        code.close("}");
    }
    Ok(())
}

fn is_void(field: &Field) -> bool {
    field.kind == Kind::Slot(Type::Void)
}

fn wire(code: &mut Code, schema: &Schema, structure: &Struct) -> Result<()> {
    let (name, module) = (&structure.name, &structure.module);
    code.open(&format!("impl {WIRE}::Wire for {name} {{"));
    code.line(&format!("type Capnp = {module}::Owned;"));
    code.line(&format!("const DATA: u16 = {};", structure.data_words));
    code.line(&format!("const POINTERS: u16 = {};", structure.pointers));
    code.open(&format!(
        "fn read(reader: {READER}::StructReader<'_>) -> ::core::result::Result<Self, {WIRE}::WireError> {{"
    ));
    if structure.is_enum() {
        read_union(code, schema, structure, "::core::result::Result::Ok(", ")")?;
    } else {
        code.open("::core::result::Result::Ok(Self {");
        for field in structure.plain() {
            code.line(&format!(
                "{}: {},",
                names::ident(&names::snake(&field.name)),
                convert::read_field(schema, structure, field)?
            ));
        }
        if !structure.union().is_empty() {
            read_union(code, schema, structure, "which: ", ",")?;
        }
        code.close("})");
    }
    code.close("}");
    code.open(&format!(
        "fn write(&self, builder: &mut {BUILDER}::Builder, place: {BUILDER}::Place) -> ::core::result::Result<(), {WIRE}::WireError> {{"
    ));
    for field in structure.plain().filter(|field| !is_void(field)) {
        let value = format!("self.{}", names::ident(&names::snake(&field.name)));
        convert::write_field(code, schema, structure, field, &value)?;
    }
    if !structure.union().is_empty() {
        let subject = if structure.is_enum() { "self" } else { "&self.which" };
        code.open(&format!("match {subject} {{"));
        for field in structure.union() {
            let variant = format!("{}::{}", structure.union_name(), names::pascal(&field.name));
            let binding = if is_void(field) { "" } else { "(value)" };
            code.open(&format!("{variant}{binding} => {{"));
            let (at, ordinal) = (structure.discriminant, field.discriminant.unwrap_or(0));
            code.line(&format!("builder.number(place, {at}, {ordinal}_u16);"));
            if !is_void(field) {
                convert::write_variant(code, schema, structure, field)?;
            }
            code.close("}");
        }
        code.close("}");
    }
    code.line("::core::result::Result::Ok(())");
    code.close("}");
    code.close("}");
    Ok(())
}

fn read_union(code: &mut Code, schema: &Schema, structure: &Struct, before: &str, after: &str) -> Result<()> {
    let union = structure.union_name();
    code.open(&format!("{before}match reader.number::<u16>({}) {{", structure.discriminant));
    for field in structure.union() {
        let (ordinal, variant) = (field.discriminant.unwrap_or(0), names::pascal(&field.name));
        if is_void(field) {
            code.line(&format!("{ordinal} => {union}::{variant},"));
        } else {
            let value = convert::read_field(schema, structure, field)?;
            code.line(&format!("{ordinal} => {union}::{variant}({value}),"));
        }
    }
    code.line(&format!(
        "unknown => return ::core::result::Result::Err({WIRE}::WireError::unknown({:?}, unknown)),",
        structure.name
    ));
    code.close(&format!("}}{after}"));
    Ok(())
}
