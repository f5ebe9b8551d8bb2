//! Synchronous dispatch, for the kernel's objects.

use anyhow::Result;

use crate::code::Code;
use crate::model::{File, Interface, Kind, Method, Schema, Type};
use crate::names;

const SYNC: &str = "::capos_schema::sync";

/// The dispatch traits of one file's interfaces.
pub fn generate(schema: &Schema, file: &File) -> Result<String> {
    let mut code = Code::new();
    for id in &file.interfaces {
        interface(&mut code, schema, schema.interface(*id)?)?;
    }
    Ok(code.finish())
}

fn interface(code: &mut Code, schema: &Schema, interface: &Interface) -> Result<()> {
    let name = &interface.name;
    let snake = names::snake(name);
    let constant = names::constant(name);
    code.line(&format!("/// Identifier of interface `{name}`."));
    code.line(&format!("pub const {constant}: u64 = {:#018x};", interface.id));
    code.line(&format!("/// Names of the methods of `{name}`, by ordinal."));
    let list: Vec<String> = interface.methods.iter().map(|method| format!("{:?}", method.name)).collect();
    code.line(&format!("pub const {constant}_METHODS: &[&str] = &[{}];", list.join(", ")));
    for method in &interface.methods {
        code.line(&format!("/// Ordinal of `{name}.{}`.", method.name));
        code.line(&format!("pub const {constant}_{}: u16 = {};", names::constant(&method.name), method.ordinal));
    }
    code.docs_or(&interface.doc, &format!("What an object with interface `{name}` does."));
    code.line("///");
    code.line("/// `C` is what the caller passes through: who calls, and with which capabilities.");
    code.open(&format!("pub trait {name}Kernel<C: ?Sized> {{"));
    for method in &interface.methods {
        code.docs_or(&method.doc, &format!("Answers `{name}.{}`.", method.name));
        code.line("///");
        code.line("/// # Errors");
        code.line("/// The exception that the caller gets.");
        if number(schema, method)?.is_some() {
            code.line(&format!(
                "fn {}(&self, cx: &mut C) -> ::core::result::Result<u64, {SYNC}::Exception>;",
                names::ident(&names::snake(&method.name))
            ));
            continue;
        }
        code.line(&format!(
            "fn {}(&self, cx: &mut C, params: {}::Reader<'_>, results: {}::Builder<'_>) -> ::core::result::Result<{SYNC}::Completion, {SYNC}::Exception>;",
            names::ident(&names::snake(&method.name)),
            schema.structure(method.params)?.module,
            schema.structure(method.results)?.module
        ));
    }
    code.close("}");
    code.line(&format!("/// Calls the method of `{name}` with this ordinal."));
    code.line("///");
    code.line("/// # Errors");
    code.line("/// No such method; parameters that are no message; whatever the method refuses.");
    code.open(&format!(
        "pub fn dispatch_{snake}<C: ?Sized, O: {name}Kernel<C> + ?Sized>(object: &O, cx: &mut C, method: u16, params: ::capnp::any_pointer::Reader<'_>, results: ::capnp::any_pointer::Builder<'_>) -> ::core::result::Result<{SYNC}::Completion, {SYNC}::Exception> {{"
    ));
    code.open("match method {");
    for method in &interface.methods {
        if let Some(field) = number(schema, method)? {
            let snake = names::snake(&method.name);
            code.open(&format!("{} => {{", method.ordinal));
            code.line(&format!("{SYNC}::params::<{}::Reader<'_>>(params)?;", schema.structure(method.params)?.module));
            code.line(&format!("let number = object.{}(cx)?;", names::ident(&snake)));
            code.line(&format!(
                "results.init_as::<{}::Builder<'_>>().set_{}(number);",
                schema.structure(method.results)?.module,
                names::snake(&field)
            ));
            code.line(&format!("::core::result::Result::Ok({SYNC}::Completion::Done)"));
            code.close("}");
            continue;
        }
        code.line(&format!(
            "{} => object.{}(cx, {SYNC}::params(params)?, results.init_as()),",
            method.ordinal,
            names::ident(&names::snake(&method.name))
        ));
    }
    code.line(&format!("_ => ::core::result::Result::Err({SYNC}::no_such_method({name:?}, method)),"));
    code.close("}");
    code.close("}");
    numbers(code, schema, interface)
}

/// The field of a method's results, if the method has no parameters and answers with one number of 64 bits. Such
/// messages differ in that number only, so they need no reader and no builder.
pub fn number(schema: &Schema, method: &Method) -> Result<Option<String>> {
    let [field] = schema.structure(method.results)?.fields.as_slice() else { return Ok(None) };
    let plain = schema.structure(method.params)?.fields.is_empty()
        && field.kind == Kind::Slot(Type::Uint(64))
        && field.default.is_none();
    Ok(plain.then(|| field.name.clone()))
}

/// Dispatch of those methods by themselves.
fn numbers(code: &mut Code, schema: &Schema, interface: &Interface) -> Result<()> {
    let name = &interface.name;
    let mut arms = Vec::new();
    for method in &interface.methods {
        if number(schema, method)?.is_some() {
            let snake = names::snake(&method.name);
            arms.push(format!(
                "{} => ::core::option::Option::Some(object.{}(cx)),",
                method.ordinal,
                names::ident(&snake)
            ));
        }
    }
    if arms.is_empty() {
        return Ok(());
    }
    code.line(&format!(
        "/// Calls the method of `{name}` with this ordinal, where it has no parameters and answers with one number."
    ));
    code.open(&format!(
        "pub fn number_{}<C: ?Sized, O: {name}Kernel<C> + ?Sized>(object: &O, cx: &mut C, method: u16) -> ::core::option::Option<::core::result::Result<u64, {SYNC}::Exception>> {{",
        names::snake(name)
    ));
    code.open("match method {");
    for arm in &arms {
        code.line(arm);
    }
    code.line("_ => ::core::option::Option::None,");
    code.close("}");
    code.close("}");
    Ok(())
}
