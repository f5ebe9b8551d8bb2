//! Server traits and their dispatch.

use anyhow::Result;

use crate::code::Code;
use crate::convert::{self, CAP, Shape, WIRE};
use crate::model::{File, Interface, Method, Role, Schema, Type};
use crate::names;

/// The server traits of one file's interfaces.
pub fn generate(schema: &Schema, file: &File) -> Result<String> {
    let mut code = Code::new();
    for id in &file.interfaces {
        server(&mut code, schema, schema.interface(*id)?)?;
    }
    Ok(code.finish())
}

fn server(code: &mut Code, schema: &Schema, interface: &Interface) -> Result<()> {
    let name = &interface.name;
    code.docs_or(&interface.doc, &format!("What a server of `{name}` does."));
    code.line("#[allow(async_fn_in_trait)]");
    let mut bases = String::new();
    for base in &interface.extends {
        let base = schema.interface(*base)?;
        let sign = if bases.is_empty() { ":" } else { " +" };
        bases.push_str(&format!("{sign} crate::{}::{}Server", names::ident(&base.file), base.name));
    }
    code.open(&format!("pub trait {name}Server{bases} {{"));
    for method in &interface.methods {
        let params = schema.structure(method.params)?;
        code.docs_or(&method.doc, &format!("Answers `{name}.{}`.", method.name));
        let mut list = format!("&self, cx: &{CAP}::CallContext");
        if params.role == Role::Params {
            for field in &params.fields {
                let ty = convert::field_type(schema, params.id, field)?;
                list.push_str(&format!(", {}: {ty}", names::ident(&names::snake(&field.name))));
            }
        } else {
            list.push_str(&format!(", params: {}", convert::owned_type(schema, &Type::Struct(params.id))?));
        }
        code.line(&format!(
            "async fn {}({list}) -> ::core::result::Result<{}, {CAP}::CallError>;",
            names::ident(&names::snake(&method.name)),
            convert::results_type(schema, method)?
        ));
    }
    code.close("}");
    code.line(&format!("/// Dispatches calls of `{name}` to a server."));
    code.line(&format!("pub struct {name}Service<S>(pub ::alloc::rc::Rc<S>);"));
    code.open(&format!("impl<S: {name}Server + 'static> {CAP}::Dispatch for {name}Service<S> {{"));
    code.line(&format!("fn interface_id(&self) -> u64 {{ {:#018x} }}", interface.id));
    let lineage = schema.lineage(interface.id)?;
    let ids: Vec<String> = lineage.iter().map(|ancestor| format!("{:#018x}", ancestor.id)).collect();
    code.line(&format!(
        "fn implements(&self, interface: u64) -> bool {{ ::core::matches!(interface, {}) }}",
        ids.join(" | ")
    ));
    let abortable: Vec<String> = lineage
        .iter()
        .flat_map(|ancestor| ancestor.methods.iter().map(|method| (ancestor.id, method)))
        .filter(|(_, method)| method.has("abortable"))
        .map(|(id, method)| format!("({id:#018x}, {})", method.ordinal))
        .collect();
    if !abortable.is_empty() {
        code.line(&format!(
            "fn is_abortable(&self, interface: u64, method: u16) -> bool {{ ::core::matches!((interface, method), {}) }}",
            abortable.join(" | ")
        ));
    }
    code.open(&format!(
        "fn dispatch(self: ::alloc::rc::Rc<Self>, cx: {CAP}::CallContext, method: u16, message: {CAP}::MessageView<'_>) -> {CAP}::Answer {{"
    ));
    // A future for each method, so that none is larger than it needs.
    code.open("match (cx.interface, method) {");
    for ancestor in &lineage {
        for method in &ancestor.methods {
            code.open(&format!("({:#018x}, {}) => {{", ancestor.id, method.ordinal));
            answer(code, schema, ancestor, method)?;
            code.close("}");
        }
    }
    code.line(&format!("_ => {CAP}::refuse({CAP}::CallError::no_such_method({name:?}, cx.interface, method)),"));
    code.close("}");
    code.close("}");
    code.close("}");
    Ok(())
}

/// The answer to a call of a method: the parameters are read first, in the memory that they came into.
fn answer(code: &mut Code, schema: &Schema, interface: &Interface, method: &Method) -> Result<()> {
    let params = schema.structure(method.params)?;
    let results = schema.structure(method.results)?;
    let mut list = String::from("&*self.0, &cx");
    let read = |code: &mut Code, pattern: &str, read: &str| {
        code.line(&format!(
            "let {pattern} = match {read} {{ \
             ::core::result::Result::Ok(read) => read, \
             ::core::result::Result::Err(error) => return {CAP}::refuse({CAP}::CallError::bad_arguments(error)), }};"
        ));
    };
    if params.role == Role::Params {
        let mut values = String::new();
        let mut pattern = String::new();
        for (at, field) in params.fields.iter().enumerate() {
            values.push_str(&format!("{}, ", convert::read_field(schema, params, field)?));
            pattern.push_str(&format!("argument_{at}, "));
            list.push_str(&format!(", argument_{at}"));
        }
        if !params.fields.is_empty() {
            let values = format!("{WIRE}::read(message, |reader| ::core::result::Result::Ok(({values})))");
            read(code, &format!("({pattern})"), &values);
        }
    } else {
        read(code, "params", &format!("{WIRE}::decode_value(message)"));
        list.push_str(", params");
    }
    code.open("::alloc::boxed::Box::pin(async move {");
    let server = format!("crate::{}::{}Server", names::ident(&interface.file), interface.name);
    let call = format!("{server}::{}({list}).await?", names::ident(&names::snake(&method.name)));
    match convert::results(schema, method)? {
        Shape::Unit => {
            code.line(&format!("{call};"));
            code.line(&format!(
                "::core::result::Result::Ok({WIRE}::compose(1, ({}, {}), |_, _| ::core::result::Result::Ok(())).map_err({CAP}::CallError::bad_results)?)",
                results.data_words, results.pointers
            ));
        }
        Shape::Bare(owner, field) => {
            code.line(&format!("let result = {call};"));
            let hint = convert::size_hint(schema, results, &[(field, "result".to_owned())])?;
            code.open(&format!(
                "::core::result::Result::Ok({WIRE}::compose({hint}, ({}, {}), |builder, place| {{",
                results.data_words, results.pointers
            ));
            convert::write_field(code, schema, owner, field, "result")?;
            code.line("::core::result::Result::Ok(())");
            code.close(&format!("}}).map_err({CAP}::CallError::bad_results)?)"));
        }
        Shape::Struct(_) => {
            code.line(&format!("let results = {call};"));
            code.line(&format!(
                "::core::result::Result::Ok({WIRE}::encode_value(&results).map_err({CAP}::CallError::bad_results)?)"
            ));
        }
    }
    code.close("})");
    Ok(())
}
