//! JSON Schema (draft 2020-12) of structs, as compact JSON.

use anyhow::Result;

use crate::model::{Field, Kind, Schema, Struct, Type};

/// The JSON Schema of a struct.
pub fn of_struct(schema: &Schema, id: u64) -> Result<String> {
    let mut definitions = Vec::new();
    let body = structure(schema, id, &mut definitions, "", true)?;
    // Definitions may name further definitions, which appends to the list.
    let mut texts = Vec::new();
    let mut at = 0;
    while let Some(id) = definitions.get(at).copied() {
        let name = &schema.structure(id)?.name;
        let text = structure(schema, id, &mut definitions, "", true)?;
        texts.push(format!("{}:{text}", quote(name)));
        at += 1;
    }
    if texts.is_empty() {
        return Ok(body);
    }
    let inner = body.strip_suffix('}').unwrap_or(&body);
    Ok(format!("{inner},\"$defs\":{{{}}}}}", texts.join(",")))
}

fn structure(schema: &Schema, id: u64, definitions: &mut Vec<u64>, doc: &str, top: bool) -> Result<String> {
    let found = schema.structure(id)?;
    if !top && schema.is_cyclic(id) {
        if !definitions.contains(&id) {
            definitions.push(id);
        }
        return Ok(format!("{{\"$ref\":{}}}", quote(&format!("#/$defs/{}", found.name))));
    }
    let description = description(if doc.is_empty() { &found.doc } else { doc });
    let union = found.union();
    if union.is_empty() {
        return object(schema, found, None, definitions, &description);
    }
    let mut variants = Vec::new();
    for field in union {
        variants.push(object(schema, found, Some(field), definitions, "")?);
    }
    Ok(format!("{{{description}\"anyOf\":[{}]}}", variants.join(",")))
}

fn object(
    schema: &Schema,
    found: &Struct,
    variant: Option<&Field>,
    definitions: &mut Vec<u64>,
    description: &str,
) -> Result<String> {
    let mut properties = Vec::new();
    let mut required = Vec::new();
    for field in found.plain().chain(variant) {
        if is_capability(field) || field.has("runner") {
            continue;
        }
        properties.push(format!("{}:{}", quote(&field.name), property(schema, field, definitions)?));
        let always = variant.is_some_and(|variant| variant.name == field.name);
        if always || is_required(schema, found.id, field) {
            required.push(quote(&field.name));
        }
    }
    let required = if required.is_empty() { String::new() } else { format!(",\"required\":[{}]", required.join(",")) };
    Ok(format!(
        "{{\"type\":\"object\",{description}\"properties\":{{{}}}{required},\"additionalProperties\":false}}",
        properties.join(",")
    ))
}

/// Whether JSON must give the field: it has no default, is not optional, and does not hold its own struct.
pub fn is_required(schema: &Schema, owner: u64, field: &Field) -> bool {
    field.default.is_none()
        && !field.has("optional")
        && field.kind != Kind::Slot(Type::Void)
        && !schema.is_recursive(owner, &field.kind)
}

/// Whether the field holds a capability itself, which has no JSON form.
pub fn is_capability(field: &Field) -> bool {
    let Kind::Slot(ty) = &field.kind else { return false };
    matches!(crate::model::element(ty), Type::Interface(_) | Type::AnyCapability)
}

fn property(schema: &Schema, field: &Field, definitions: &mut Vec<u64>) -> Result<String> {
    match &field.kind {
        Kind::Group(id) => structure(schema, *id, definitions, &field.doc, false),
        Kind::Slot(ty) => {
            let text = field.has("text");
            of_type(schema, ty, text, &field.doc, definitions)
        }
    }
}

fn of_type(schema: &Schema, ty: &Type, text: bool, doc: &str, definitions: &mut Vec<u64>) -> Result<String> {
    let description = description(doc);
    let kind = |body: &str| format!("{{{description}{body}}}");
    Ok(match ty {
        Type::Void => kind("\"type\":\"null\""),
        Type::Bool => kind("\"type\":\"boolean\""),
        Type::Int(bits) => {
            let most = i64::MAX >> (64_u32.saturating_sub(u32::from(*bits)));
            kind(&format!("\"type\":\"integer\",\"minimum\":{},\"maximum\":{most}", -most - 1))
        }
        Type::Uint(bits) => {
            let most = u64::MAX >> (64_u32.saturating_sub(u32::from(*bits)));
            kind(&format!("\"type\":\"integer\",\"minimum\":0,\"maximum\":{most}"))
        }
        Type::Float(_) => kind("\"type\":\"number\""),
        Type::Text => kind("\"type\":\"string\""),
        Type::Data if text => kind("\"type\":\"string\""),
        Type::Data => kind("\"type\":\"string\",\"contentEncoding\":\"base64\""),
        Type::Enum(id) => {
            let names: Vec<String> = schema.enumeration(*id)?.enumerants.iter().map(|(name, _)| quote(name)).collect();
            kind(&format!("\"type\":\"string\",\"enum\":[{}]", names.join(",")))
        }
        Type::List(inner) => {
            let items = of_type(schema, inner, text, "", definitions)?;
            kind(&format!("\"type\":\"array\",\"items\":{items}"))
        }
        Type::Struct(id) => structure(schema, *id, definitions, doc, false)?,
        Type::Interface(_) | Type::AnyCapability => kind("\"const\":\"<capability>\""),
    })
}

fn description(doc: &str) -> String {
    let doc = plain(doc);
    if doc.is_empty() { String::new() } else { format!("\"description\":{},", quote(&doc)) }
}

/// A doc comment as one paragraph.
pub fn plain(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A JSON string.
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            letter if u32::from(letter) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted() {
        assert_eq!(quote("a\"b\\c\n\u{1}"), "\"a\\\"b\\\\c\\n\\u0001\"");
        assert_eq!(plain(" a\n  b "), "a b");
    }
}
