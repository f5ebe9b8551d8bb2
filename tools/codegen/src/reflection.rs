//! Reflection tables.

use anyhow::{Result, bail};

use crate::code::Code;
use crate::convert::{self, Hold};
use crate::json_schema;
use crate::model::{File, Interface, Kind, Method, Schema, Struct, Type, Value};
use crate::names;

const REFLECTION: &str = "::capos_schema::reflection";

/// The name of an interface's table.
pub fn table_name(interface: &Interface) -> String {
    format!("{}_INTERFACE", names::constant(&interface.name))
}

/// The tables of one file's interfaces.
pub fn generate(schema: &Schema, file: &File) -> Result<String> {
    let mut code = Code::new();
    for id in &file.interfaces {
        let interface = schema.interface(*id)?;
        code.line(&format!("/// Interface `{}` and its methods.", interface.name));
        code.open(&format!(
            "pub static {}: {REFLECTION}::InterfaceInfo = {REFLECTION}::InterfaceInfo {{",
            table_name(interface)
        ));
        code.line(&format!("id: {:#018x},", interface.id));
        code.line(&format!("name: {:?},", interface.name));
        code.line(&format!("doc: {:?},", interface.doc.trim()));
        let extends: Vec<String> = interface.extends.iter().map(|id| format!("{id:#018x}")).collect();
        code.line(&format!("extends: &[{}],", extends.join(", ")));
        code.open("methods: &[");
        for method in &interface.methods {
            method_info(&mut code, schema, method)?;
        }
        code.close("],");
        code.close("};");
    }
    code.line("/// What lists and boxes of this file's structs hold.");
    code.open(&format!("pub static ELEMENTS: &[{REFLECTION}::ElementInfo] = &["));
    for id in &file.structs {
        let structure = schema.structure(*id)?;
        for field in &structure.fields {
            let Kind::Slot(ty) = &field.kind else { continue };
            let path = format!("{}.{}", structure.name, field.name);
            if convert::hold(schema, structure.id, field) == Hold::Boxed {
                element_info(&mut code, schema, &path, ty, 64)?;
            }
            list_elements(&mut code, schema, &path, ty)?;
        }
    }
    code.close("];");
    Ok(code.finish())
}

/// The elements of a list, and theirs if they are lists.
fn list_elements(code: &mut Code, schema: &Schema, path: &str, ty: &Type) -> Result<()> {
    let Type::List(inner) = ty else { return Ok(()) };
    let bits = match &**inner {
        Type::Void => return Ok(()),
        Type::Bool => 1,
        Type::Int(bits) | Type::Uint(bits) | Type::Float(bits) => u32::from(*bits),
        Type::Enum(_) => 16,
        Type::Struct(id) => schema.structure(*id)?.words().saturating_mul(64),
        _ => 64,
    };
    element_info(code, schema, path, inner, bits)?;
    list_elements(code, schema, path, inner)
}

fn element_info(code: &mut Code, schema: &Schema, path: &str, ty: &Type, bits: u32) -> Result<()> {
    let rust = convert::owned_type(schema, ty)?;
    code.line(&format!("{REFLECTION}::ElementInfo {{ field: {path:?}, bits: {bits}, memory: size_of::<{rust}>() }},"));
    Ok(())
}

fn method_info(code: &mut Code, schema: &Schema, method: &Method) -> Result<()> {
    let (params, results) = (schema.structure(method.params)?, schema.structure(method.results)?);
    code.open(&format!("{REFLECTION}::MethodInfo {{"));
    code.line(&format!("ordinal: {},", method.ordinal));
    code.line(&format!("name: {:?},", method.name));
    code.line(&format!("doc: {:?},", method.doc.trim()));
    code.line(&format!("tool: {},", text(method, "tool")));
    code.line(&format!("person: {},", method.has("person")));
    code.line(&format!("on_request: {},", method.has("onRequest")));
    code.line(&format!("category: {},", category(method)));
    code.line(&format!("abortable: {},", method.has("abortable")));
    code.line(&format!("timeout_ms: {},", number(method, "timeoutMs")));
    code.line(&format!("max_result: {},", number(method, "maxResult")));
    code.line(&format!("untrusted: {},", method.has("untrusted")));
    code.line(&format!("done: {},", text(method, "done")));
    code.line(&format!("label: {},", text(method, "label")));
    code.line(&format!("pieces: {},", method.has("pieces")));
    code.line(&format!("pattern: {},", pattern(params)));
    let loose = params.fields.iter().find(|field| field.has("tree") && !field.has("path"));
    if let Some(field) = loose {
        bail!("{}.{}: $tree is for a parameter that is a $path, too", method.name, field.name);
    }
    for (list, structure, annotation) in [
        ("paths", params, "path"),
        ("trees", params, "tree"),
        ("runner_params", params, "runner"),
        ("runner_results", results, "runner"),
    ] {
        let names = structure.fields.iter().filter(|field| field.has(annotation)).map(|field| field.name.as_str());
        code.line(&format!("{list}: &{:?},", names.collect::<Vec<_>>()));
    }
    code.line(&format!("takes_capabilities: {},", schema.has_caps(&Kind::Group(params.id))));
    code.line(&format!("gives_capabilities: {},", schema.has_caps(&Kind::Group(results.id))));
    code.line(&format!("params_schema: {:?},", json_schema::of_struct(schema, params.id)?));
    code.line(&format!("results_schema: {:?},", json_schema::of_struct(schema, results.id)?));
    for (name, structure) in [("params_type", params), ("results_type", results)] {
        code.line(&format!("{name}: <{}::Owned as ::capnp::introspect::Introspect>::introspect,", structure.module));
    }
    code.close("},");
    Ok(())
}

fn pattern(params: &Struct) -> String {
    let found = params.fields.iter().find_map(|field| match field.annotation("pattern") {
        Some(Value::Enum(ordinal)) => Some((field.name.as_str(), ordinal)),
        _ => None,
    });
    match found {
        Some((name, ordinal)) => {
            format!("::core::option::Option::Some(({name:?}, {REFLECTION}::Pattern::ALL[{ordinal}]))")
        }
        None => "::core::option::Option::None".to_owned(),
    }
}

fn text(method: &Method, name: &str) -> String {
    match method.annotation(name) {
        Some(Value::Text(value)) => format!("::core::option::Option::Some({value:?})"),
        _ => "::core::option::Option::None".to_owned(),
    }
}

fn number(method: &Method, name: &str) -> String {
    match method.annotation(name) {
        Some(Value::Uint(value)) => format!("::core::option::Option::Some({value})"),
        Some(Value::Int(value)) if *value >= 0 => format!("::core::option::Option::Some({value})"),
        _ => "::core::option::Option::None".to_owned(),
    }
}

fn category(method: &Method) -> String {
    match method.annotation("category") {
        Some(Value::Enum(ordinal)) => {
            format!("::core::option::Option::Some({REFLECTION}::Category::ALL[{ordinal}])")
        }
        _ => "::core::option::Option::None".to_owned(),
    }
}
