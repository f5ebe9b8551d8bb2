//! From the Cap'n Proto compiler's request to [`Schema`].

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{Context, Result, anyhow, bail};
use capnp::schema_capnp::{annotation, enumerant, field, node, type_, value};
use capnpc::codegen::GeneratorContext;

use crate::model::{Annotation, Enum, Field, File, Interface, Kind, Method, Role, Schema, Struct, Type, Value};
use crate::names;

/// Doc comment of a node, and of its members.
type Docs = HashMap<u64, (String, Vec<String>)>;

struct Loader<'a> {
    context: GeneratorContext<'a>,
    docs: Docs,
    annotations: BTreeMap<u64, String>,
    schema: Schema,
}

/// Reads a code generator request.
pub fn load(mut bytes: &[u8]) -> Result<Schema> {
    let mut options = capnp::message::ReaderOptions::new();
    options.traversal_limit_in_words(None);
    let message = capnp::serialize::read_message(&mut bytes, options)
        .context("the Cap'n Proto compiler's request cannot be read")?;
    let context = GeneratorContext::new(&message)?;
    let docs = read_docs(&context)?;
    let mut annotations = BTreeMap::new();
    for (id, node) in &context.node_map {
        if let node::Annotation(_) = node.which()? {
            let name = node.get_display_name()?.to_str()?;
            let name = name.rsplit([':', '.']).next().unwrap_or(name);
            annotations.insert(*id, name.to_owned());
        }
    }
    let mut loader = Loader { context, docs, annotations, schema: Schema::default() };
    loader.files()?;
    check_names(&loader.schema)?;
    Ok(loader.schema)
}

/// Refuses two Rust types of one name in one file: nested names are joined, and clients, services and
/// server traits have names made from their interface's.
fn check_names(schema: &Schema) -> Result<()> {
    for file in &schema.files {
        let mut names = BTreeSet::new();
        let mut add = |name: String| {
            if names.insert(name.clone()) {
                Ok(())
            } else {
                Err(anyhow!("{}.capnp makes two Rust types called {name}", file.stem))
            }
        };
        for id in &file.structs {
            let structure = schema.structure(*id)?;
            add(structure.name.clone())?;
            if !structure.is_enum() && !structure.union().is_empty() {
                add(structure.union_name())?;
            }
        }
        for id in &file.enums {
            add(schema.enumeration(*id)?.name.clone())?;
        }
        for id in &file.interfaces {
            let name = &schema.interface(*id)?.name;
            for suffix in ["Client", "Server", "Service"] {
                add(format!("{name}{suffix}"))?;
            }
        }
    }
    Ok(())
}

fn read_docs(context: &GeneratorContext<'_>) -> Result<Docs> {
    let mut docs = Docs::new();
    for info in context.request.get_source_info()? {
        let mut members = Vec::new();
        for member in info.get_members()? {
            members.push(member.get_doc_comment()?.to_str()?.to_owned());
        }
        docs.insert(info.get_id(), (info.get_doc_comment()?.to_str()?.to_owned(), members));
    }
    Ok(docs)
}

impl<'a> Loader<'a> {
    fn node(&self, id: u64) -> Result<node::Reader<'a>> {
        self.context.node_map.get(&id).copied().ok_or_else(|| anyhow!("the request lacks node {id:#x}"))
    }

    fn doc(&self, id: u64) -> String {
        self.docs.get(&id).map_or_else(String::new, |(doc, _)| doc.clone())
    }

    fn member_doc(&self, id: u64, at: usize) -> String {
        self.docs.get(&id).and_then(|(_, members)| members.get(at)).cloned().unwrap_or_default()
    }

    fn files(&mut self) -> Result<()> {
        for requested in self.context.request.get_requested_files()? {
            let name = requested.get_filename()?.to_str()?;
            let stem = std::path::Path::new(name)
                .file_stem()
                .and_then(|stem| stem.to_str())
                .ok_or_else(|| anyhow!("a schema file is called {name:?}"))?
                .replace('-', "_");
            self.schema.files.push(File { doc: self.doc(requested.get_id()), stem: stem.clone(), ..File::default() });
            self.nested(requested.get_id(), &stem, "").with_context(|| format!("in {name}"))?;
        }
        Ok(())
    }

    fn file(&mut self) -> Result<&mut File> {
        self.schema.files.last_mut().ok_or_else(|| anyhow!("no schema file"))
    }

    fn nested(&mut self, id: u64, file: &str, scope: &str) -> Result<()> {
        for nested in self.node(id)?.get_nested_nodes()? {
            let name = format!("{scope}{}", names::pascal(nested.get_name()?.to_str()?));
            let id = nested.get_id();
            let node = self.node(id)?;
            if node.get_is_generic() {
                bail!("{name} is generic, which the generator does not support");
            }
            match node.which()? {
                node::Struct(_) => {
                    let module = self.context.get_qualified_module(id);
                    self.structure(id, file, name.clone(), module, Role::Plain)?;
                }
                node::Enum(_) => self.enumeration(id, file, name.clone())?,
                node::Interface(_) => self.interface(id, file, name.clone())?,
                node::File(()) | node::Const(_) | node::Annotation(_) => {}
            }
            self.nested(id, file, &name)?;
        }
        Ok(())
    }

    fn structure(&mut self, id: u64, file: &str, name: String, module: String, role: Role) -> Result<()> {
        let node = self.node(id)?;
        let node::Struct(reader) = node.which()? else { bail!("{name} is no struct") };
        let mut fields = Vec::new();
        for (at, field) in reader.get_fields()?.iter().enumerate() {
            let field_name = field.get_name()?.to_str()?.to_owned();
            let discriminant = Some(field.get_discriminant_value()).filter(|value| *value != field::NO_DISCRIMINANT);
            let (kind, default, offset) = match field.which()? {
                field::Slot(slot) => {
                    let ty = read_type(slot.get_type()?).with_context(|| format!("{name}.{field_name}"))?;
                    let default =
                        slot.get_had_explicit_default().then(|| read_value(slot.get_default_value()?)).transpose()?;
                    if default == Some(Value::Other) {
                        bail!(
                            "{name}.{field_name} has a default of a pointer type, which the generator does not support"
                        );
                    }
                    (Kind::Slot(ty), default, slot.get_offset())
                }
                field::Group(group) => {
                    let group_name = format!("{name}{}", names::pascal(&field_name));
                    let group_module = format!("{module}::{}", names::module(&field_name));
                    self.structure(group.get_type_id(), file, group_name, group_module, Role::Group)?;
                    (Kind::Group(group.get_type_id()), None, 0)
                }
            };
            fields.push(Field {
                name: field_name,
                doc: self.member_doc(id, at),
                discriminant,
                kind,
                offset,
                default,
                annotations: self.read_annotations(field.get_annotations()?)?,
            });
        }
        let (data_words, pointers) = (reader.get_data_word_count(), reader.get_pointer_count());
        let (discriminant, doc) = (reader.get_discriminant_offset(), self.doc(id));
        self.file()?.structs.push(id);
        let file = file.to_owned();
        let found = Struct { id, file, name, module, doc, role, fields, data_words, pointers, discriminant };
        self.schema.structs.insert(id, found);
        Ok(())
    }

    fn enumeration(&mut self, id: u64, file: &str, name: String) -> Result<()> {
        let node::Enum(reader) = self.node(id)?.which()? else { bail!("{name} is no enum") };
        let mut enumerants = Vec::new();
        for (at, enumerant) in reader.get_enumerants()?.iter().enumerate() {
            let enumerant: enumerant::Reader<'_> = enumerant;
            enumerants.push((enumerant.get_name()?.to_str()?.to_owned(), self.member_doc(id, at)));
        }
        let (doc, path) = (self.doc(id), self.context.get_qualified_module(id));
        self.file()?.enums.push(id);
        self.schema.enums.insert(id, Enum { id, file: file.to_owned(), name, path, doc, enumerants });
        Ok(())
    }

    fn interface(&mut self, id: u64, file: &str, name: String) -> Result<()> {
        let node::Interface(reader) = self.node(id)?.which()? else { bail!("{name} is no interface") };
        let module = self.context.get_qualified_module(id);
        let mut methods = Vec::new();
        for (at, method) in reader.get_methods()?.iter().enumerate() {
            let method_name = method.get_name()?.to_str()?.to_owned();
            if !method.get_implicit_parameters()?.is_empty() {
                bail!("{name}.{method_name} is generic, which the generator does not support");
            }
            let (params, results) = (method.get_param_struct_type(), method.get_result_struct_type());
            for (structure, role, suffix) in [(params, Role::Params, "Params"), (results, Role::Results, "Results")] {
                if self.node(structure)?.get_scope_id() == 0 {
                    let rust = format!("{name}{}{suffix}", names::pascal(&method_name));
                    let inner = format!("{module}::{}", names::module(&format!("{method_name}{suffix}")));
                    self.structure(structure, file, rust, inner, role)?;
                }
            }
            methods.push(Method {
                name: method_name,
                ordinal: u16::try_from(at)?,
                doc: self.member_doc(id, at),
                params,
                results,
                annotations: self.read_annotations(method.get_annotations()?)?,
            });
        }
        let mut extends = Vec::new();
        for superclass in reader.get_superclasses()? {
            extends.push(superclass.get_id());
        }
        let doc = self.doc(id);
        self.file()?.interfaces.push(id);
        self.schema.interfaces.insert(id, Interface { id, file: file.to_owned(), name, module, doc, extends, methods });
        Ok(())
    }

    fn read_annotations(&self, list: capnp::struct_list::Reader<'_, annotation::Owned>) -> Result<Vec<Annotation>> {
        let mut out = Vec::new();
        for item in list {
            let Some(name) = self.annotations.get(&item.get_id()) else { continue };
            out.push(Annotation { name: name.clone(), value: read_value(item.get_value()?)? });
        }
        Ok(out)
    }
}

fn read_type(reader: type_::Reader<'_>) -> Result<Type> {
    Ok(match reader.which()? {
        type_::Void(()) => Type::Void,
        type_::Bool(()) => Type::Bool,
        type_::Int8(()) => Type::Int(8),
        type_::Int16(()) => Type::Int(16),
        type_::Int32(()) => Type::Int(32),
        type_::Int64(()) => Type::Int(64),
        type_::Uint8(()) => Type::Uint(8),
        type_::Uint16(()) => Type::Uint(16),
        type_::Uint32(()) => Type::Uint(32),
        type_::Uint64(()) => Type::Uint(64),
        type_::Float32(()) => Type::Float(32),
        type_::Float64(()) => Type::Float(64),
        type_::Text(()) => Type::Text,
        type_::Data(()) => Type::Data,
        type_::List(list) => Type::List(Box::new(read_type(list.get_element_type()?)?)),
        type_::Enum(reader) => Type::Enum(reader.get_type_id()),
        type_::Struct(reader) => Type::Struct(reader.get_type_id()),
        type_::Interface(reader) => Type::Interface(reader.get_type_id()),
        type_::AnyPointer(reader) => match reader.which()? {
            type_::any_pointer::Unconstrained(kind) => match kind.which()? {
                type_::any_pointer::unconstrained::Capability(()) => Type::AnyCapability,
                _ => bail!("AnyPointer, AnyStruct and AnyList are not supported; name the type"),
            },
            _ => bail!("type parameters are not supported"),
        },
    })
}

fn read_value(reader: value::Reader<'_>) -> Result<Value> {
    Ok(match reader.which()? {
        value::Void(()) => Value::Void,
        value::Bool(value) => Value::Bool(value),
        value::Int8(value) => Value::Int(value.into()),
        value::Int16(value) => Value::Int(value.into()),
        value::Int32(value) => Value::Int(value.into()),
        value::Int64(value) => Value::Int(value),
        value::Uint8(value) => Value::Uint(value.into()),
        value::Uint16(value) => Value::Uint(value.into()),
        value::Uint32(value) => Value::Uint(value.into()),
        value::Uint64(value) => Value::Uint(value),
        value::Float32(value) => Value::Float(value.into()),
        value::Float64(value) => Value::Float(value),
        value::Text(value) => Value::Text(value?.to_str()?.to_owned()),
        value::Data(value) => Value::Data(value?.to_vec()),
        value::Enum(value) => Value::Enum(value),
        // As a list that is not there.
        value::List(list) if is_empty(list)? => Value::Void,
        value::List(_) | value::Struct(_) | value::Interface(()) | value::AnyPointer(_) => Value::Other,
    })
}

/// Whether a list has no elements. Elements of no size count, too.
fn is_empty(list: capnp::any_pointer::Reader<'_>) -> Result<bool> {
    match list.get_as::<capnp::primitive_list::Reader<'_, ()>>() {
        Ok(nothings) => Ok(nothings.is_empty()),
        // Bits are read as nothing else.
        Err(_) => Ok(list.target_size()?.word_count == 0),
    }
}
