//! Async clients.

use anyhow::Result;

use crate::code::Code;
use crate::convert::{self, CAP, Shape, WIRE};
use crate::kernel;
use crate::model::{Field, File, Interface, Method, Role, Schema, Value};
use crate::names;

/// The clients of one file's interfaces.
pub fn generate(schema: &Schema, file: &File) -> Result<String> {
    let mut code = Code::new();
    for id in &file.interfaces {
        client(&mut code, schema, schema.interface(*id)?)?;
    }
    Ok(code.finish())
}

fn client(code: &mut Code, schema: &Schema, interface: &Interface) -> Result<()> {
    let name = &interface.name;
    code.docs_or(&interface.doc, &format!("A capability with interface `{name}`."));
    code.line("#[derive(Clone, Debug, PartialEq, Eq)]");
    code.open(&format!("pub struct {name}Client {{"));
    code.line(&format!("cap: {CAP}::Cap,"));
    code.close("}");
    code.open(&format!("impl {name}Client {{"));
    code.line("/// The interface's identifier.");
    code.line(&format!("pub const INTERFACE_ID: u64 = {:#018x};", interface.id));
    for method in &interface.methods {
        let (constant, ordinal) = (names::constant(&method.name), method.ordinal);
        code.line(&format!("/// Ordinal of `{name}.{}`.", method.name));
        code.line(&format!("pub const {constant}_METHOD: u16 = {ordinal};"));
    }
    code.line("/// Serves this interface with `server`: a capability that leads to it.");
    code.line("///");
    code.line("/// # Errors");
    code.line("/// Whatever keeps the exporter from making a capability.");
    code.open(&format!(
        "pub fn serve<S: {name}Server + 'static>(exporter: &impl {CAP}::Export, server: ::alloc::rc::Rc<S>) -> ::core::result::Result<Self, {CAP}::CallError> {{"
    ));
    code.line(&format!("let cap = exporter.export(::alloc::rc::Rc::new({name}Service(server)))?;"));
    code.line("::core::result::Result::Ok(Self { cap })");
    code.close("}");
    for ancestor in schema.lineage(interface.id)? {
        for method in &ancestor.methods {
            client_method(code, schema, ancestor, method)?;
        }
    }
    code.close("}");
    code.open(&format!("impl {CAP}::AsCap for {name}Client {{"));
    code.line(&format!("fn as_cap(&self) -> &{CAP}::Cap {{ &self.cap }}"));
    code.close("}");
    code.open(&format!("impl {CAP}::Client for {name}Client {{"));
    code.line(&format!("const INTERFACE_ID: u64 = {:#018x};", interface.id));
    code.line(&format!("const NAME: &'static str = {name:?};"));
    code.line(&format!("fn from_cap(cap: {CAP}::Cap) -> Self {{ Self {{ cap }} }}"));
    code.line(&format!("fn into_cap(self) -> {CAP}::Cap {{ self.cap }}"));
    code.close("}");
    for ancestor in schema.lineage(interface.id)?.into_iter().skip(1) {
        let path = convert::client_path(schema, ancestor.id)?;
        code.open(&format!("impl ::core::convert::From<{name}Client> for {path} {{"));
        code.line(&format!("fn from(client: {name}Client) -> Self {{ {CAP}::Client::from_cap(client.cap) }}"));
        code.close("}");
    }
    Ok(())
}

/// The arguments of a method: name and field.
fn arguments<'a>(schema: &'a Schema, method: &Method) -> Result<Vec<(&'a Field, String)>> {
    let structure = schema.structure(method.params)?;
    Ok(structure.fields.iter().map(|field| (field, names::ident(&names::snake(&field.name)))).collect())
}

/// Results without a stated size take at most this many bytes.
const USUAL_RESULTS: u32 = 64 << 10;
/// Room for a refusal's reason, which comes in place of the results.
const LEAST_RESULTS: u32 = 1024;

/// Bytes that a call must accept.
fn results_bytes(schema: &Schema, method: &Method) -> Result<u32> {
    Ok(match method.annotation("results") {
        Some(Value::Uint(bytes)) => u32::try_from(*bytes)?,
        _ => schema.fixed_bytes(method.results).map_or(USUAL_RESULTS, |bytes| bytes.max(LEAST_RESULTS)),
    })
}

fn client_method(code: &mut Code, schema: &Schema, interface: &Interface, method: &Method) -> Result<()> {
    let params = schema.structure(method.params)?;
    let output = convert::results_type(schema, method)?;
    let named = params.role != Role::Params;
    code.docs_or(&method.doc, &format!("Calls `{}.{}`.", interface.name, method.name));
    code.line("///");
    code.line("/// # Errors");
    code.line("/// The call does not arrive, or the other side refuses it.");
    let mut list = String::from("&self");
    let arguments = arguments(schema, method)?;
    if named {
        list.push_str(&format!(", params: &{}", convert::owned_type(schema, &crate::model::Type::Struct(params.id))?));
    } else {
        for (field, name) in &arguments {
            list.push_str(&format!(", {name}: {}", convert::argument_type(schema, field)?));
        }
    }
    code.open(&format!(
        "pub async fn {}({list}) -> ::core::result::Result<{output}, {CAP}::CallError> {{",
        names::ident(&names::snake(&method.name))
    ));
    if method.has("inRegisters") {
        anyhow::ensure!(
            kernel::number(schema, method)?.is_some(),
            "{}.{} is to be called in registers, so it must have no parameters and answer with one UInt64",
            interface.name,
            method.name
        );
        code.open(&format!(
            "if let ::core::option::Option::Some(number) = self.cap.invoke({:#018x}, {}) {{",
            interface.id, method.ordinal
        ));
        code.line("return ::core::result::Result::Ok(number);");
        code.close("}");
    }
    if named {
        code.line(&format!("let message = {WIRE}::encode_value(params)?;"));
    } else {
        let hint = convert::size_hint(schema, params, &arguments)?;
        code.open(&format!(
            "let message = {WIRE}::compose({hint}, ({}, {}), |builder, place| {{",
            params.data_words, params.pointers
        ));
        for (field, name) in &arguments {
            anyhow::ensure!(
                name != "builder" && name != "place",
                "{}.{}: the generator has names of its own in place of `{name}`; rename the parameter",
                interface.name,
                method.name
            );
            convert::write_argument(code, schema, params, field, name)?;
        }
        code.line("::core::result::Result::Ok(())");
        code.close("})?;");
    }
    let read = match convert::results(schema, method)? {
        Shape::Unit => "|_| ::core::result::Result::Ok(())".to_owned(),
        Shape::Bare(owner, field) => {
            let value = convert::read_field(schema, owner, field)?;
            format!(
                "|reply| ::core::result::Result::Ok({WIRE}::read(reply, |reader| ::core::result::Result::Ok({value}))?)"
            )
        }
        Shape::Struct(_) => format!("|reply| ::core::result::Result::Ok({WIRE}::decode_value(reply)?)"),
    };
    code.line(&format!(
        "self.cap.call_reading({:#018x}, {}, message, {}, {read}).await",
        interface.id,
        method.ordinal,
        results_bytes(schema, method)?
    ));
    code.close("}");
    Ok(())
}
