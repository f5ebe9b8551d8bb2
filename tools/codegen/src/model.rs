//! The schema as the generator sees it: only the needed parts, all names resolved.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow};

/// All schema files together.
#[derive(Debug, Default)]
pub struct Schema {
    /// The files, in the order given.
    pub files: Vec<File>,
    /// Structs and groups by identifier.
    pub structs: BTreeMap<u64, Struct>,
    /// Enums by identifier.
    pub enums: BTreeMap<u64, Enum>,
    /// Interfaces by identifier.
    pub interfaces: BTreeMap<u64, Interface>,
}

/// One schema file.
#[derive(Debug, Default)]
pub struct File {
    /// Its name without folder and ending.
    pub stem: String,
    /// Its doc comment.
    pub doc: String,
    /// Its structs, groups and method structs, in order.
    pub structs: Vec<u64>,
    /// Its enums.
    pub enums: Vec<u64>,
    /// Its interfaces.
    pub interfaces: Vec<u64>,
}

/// The kind of a struct node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Declared as a struct.
    Plain,
    /// A group or named union inside a struct.
    Group,
    /// The parameters of a method, declared in place.
    Params,
    /// The results of a method, declared in place.
    Results,
}

/// A struct, group, or the parameters or results of a method.
#[derive(Debug)]
pub struct Struct {
    /// Its identifier.
    pub id: u64,
    /// The stem of its file.
    pub file: String,
    /// Its Rust name, nested names joined.
    pub name: String,
    /// Path of the module that capnpc makes of it.
    pub module: String,
    /// Doc comment.
    pub doc: String,
    /// What it is.
    pub role: Role,
    /// Fields outside its union, and fields of its union, in order.
    pub fields: Vec<Field>,
    /// Words of its data section.
    pub data_words: u16,
    /// Pointers after them.
    pub pointers: u16,
    /// Where its discriminant is, in units of 16 bits, if it has a union.
    pub discriminant: u32,
}

/// One field.
#[derive(Debug)]
pub struct Field {
    /// Name in the schema.
    pub name: String,
    /// Doc comment.
    pub doc: String,
    /// Value of the discriminant if the field is part of the union.
    pub discriminant: Option<u16>,
    /// Its type; a group is a struct of its own that has no pointer.
    pub kind: Kind,
    /// Where a slot is: its number among the pointers, or its place in the data section in units of its own size.
    pub offset: u32,
    /// Explicit default.
    pub default: Option<Value>,
    /// Annotations on the field.
    pub annotations: Vec<Annotation>,
}

/// A slot with a type, or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An ordinary field.
    Slot(Type),
    /// A group, by the identifier of its struct.
    Group(u64),
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// No information.
    Void,
    /// True or false.
    Bool,
    /// A signed integer of this many bits.
    Int(u8),
    /// An unsigned integer of this many bits.
    Uint(u8),
    /// A floating point number of this many bits.
    Float(u8),
    /// UTF-8.
    Text,
    /// Bytes.
    Data,
    /// A list.
    List(Box<Type>),
    /// An enum.
    Enum(u64),
    /// A struct.
    Struct(u64),
    /// A capability with an interface.
    Interface(u64),
    /// A capability of any interface.
    AnyCapability,
}

/// A value in the schema.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Void,
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A number.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Data(Vec<u8>),
    /// The enumerant with this ordinal.
    Enum(u16),
    /// A list, struct or capability, which has no form here.
    Other,
}

/// An annotation, by its name.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// Name of the annotation.
    pub name: String,
    /// Its value.
    pub value: Value,
}

/// An enum.
#[derive(Debug)]
pub struct Enum {
    /// Its identifier.
    pub id: u64,
    /// The stem of its file.
    pub file: String,
    /// Its Rust name.
    pub name: String,
    /// Path of the enum that capnpc makes of it.
    pub path: String,
    /// Doc comment.
    pub doc: String,
    /// Its enumerants by ordinal: name and doc comment.
    pub enumerants: Vec<(String, String)>,
}

/// An interface.
#[derive(Debug)]
pub struct Interface {
    /// Its identifier.
    pub id: u64,
    /// The stem of its file.
    pub file: String,
    /// Its Rust name.
    pub name: String,
    /// Path of the module that capnpc makes of it.
    pub module: String,
    /// Doc comment.
    pub doc: String,
    /// The interfaces that it extends directly.
    pub extends: Vec<u64>,
    /// Its own methods by ordinal.
    pub methods: Vec<Method>,
}

/// A method.
#[derive(Debug)]
pub struct Method {
    /// Its name in the schema.
    pub name: String,
    /// Its ordinal.
    pub ordinal: u16,
    /// Doc comment.
    pub doc: String,
    /// The struct of its parameters.
    pub params: u64,
    /// The struct of its results.
    pub results: u64,
    /// Annotations on the method.
    pub annotations: Vec<Annotation>,
}

impl Field {
    /// Whether it has this annotation.
    pub fn has(&self, name: &str) -> bool {
        self.annotation(name).is_some()
    }

    /// The value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<&Value> {
        self.annotations.iter().find(|annotation| annotation.name == name).map(|annotation| &annotation.value)
    }
}

impl Method {
    /// The value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<&Value> {
        self.annotations.iter().find(|annotation| annotation.name == name).map(|annotation| &annotation.value)
    }

    /// Whether an annotation without a value is there.
    pub fn has(&self, name: &str) -> bool {
        matches!(self.annotation(name), Some(Value::Void | Value::Bool(true)))
    }
}

impl Struct {
    /// Size of its data section and pointer section in 8-byte words.
    pub fn words(&self) -> u32 {
        u32::from(self.data_words) + u32::from(self.pointers)
    }

    /// Fields outside the union.
    pub fn plain(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| field.discriminant.is_none())
    }

    /// Fields of the union, by discriminant.
    pub fn union(&self) -> Vec<&Field> {
        let mut fields: Vec<&Field> = self.fields.iter().filter(|field| field.discriminant.is_some()).collect();
        fields.sort_by_key(|field| field.discriminant);
        fields
    }

    /// Whether it is nothing but a union, and so an enum in Rust.
    pub fn is_enum(&self) -> bool {
        self.plain().next().is_none() && !self.union().is_empty()
    }

    /// The Rust name of its union's enum.
    pub fn union_name(&self) -> String {
        if self.is_enum() { self.name.clone() } else { format!("{}Which", self.name) }
    }
}

impl Schema {
    /// The struct with this identifier.
    pub fn structure(&self, id: u64) -> Result<&Struct> {
        self.structs.get(&id).ok_or_else(|| anyhow!("the schema names struct {id:#x} but does not define it"))
    }

    /// The enum with this identifier.
    pub fn enumeration(&self, id: u64) -> Result<&Enum> {
        self.enums.get(&id).ok_or_else(|| anyhow!("the schema names enum {id:#x} but does not define it"))
    }

    /// The interface with this identifier.
    pub fn interface(&self, id: u64) -> Result<&Interface> {
        self.interfaces.get(&id).ok_or_else(|| anyhow!("the schema names interface {id:#x} but does not define it"))
    }

    /// The interface and everything it extends, itself first, each once.
    pub fn lineage(&self, id: u64) -> Result<Vec<&Interface>> {
        let mut out: Vec<&Interface> = Vec::new();
        let mut open = vec![id];
        while let Some(next) = open.pop() {
            if out.iter().any(|seen| seen.id == next) {
                continue;
            }
            let interface = self.interface(next)?;
            out.push(interface);
            open.extend(interface.extends.iter().rev());
        }
        Ok(out)
    }

    /// Whether a value of this type can hold a capability.
    pub fn has_caps(&self, kind: &Kind) -> bool {
        self.any(kind, &mut BTreeSet::new(), &|ty| matches!(ty, Type::Interface(_) | Type::AnyCapability))
    }

    /// Whether a value of this type can hold a floating point number.
    pub fn has_floats(&self, kind: &Kind) -> bool {
        self.any(kind, &mut BTreeSet::new(), &|ty| matches!(ty, Type::Float(_)))
    }

    /// Bytes of a message that holds a value of this struct and nothing else, if that is always the
    /// same: no text, data or list is in it.
    pub fn fixed_bytes(&self, id: u64) -> Option<u32> {
        let mut words = 1_u32;
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let structure = self.structs.get(&id)?;
            words = words.saturating_add(structure.words());
            if words > 1024 || self.is_cyclic(id) {
                return None;
            }
            for field in &structure.fields {
                match &field.kind {
                    Kind::Slot(Type::Text | Type::Data | Type::List(_)) => return None,
                    Kind::Slot(Type::Struct(id)) | Kind::Group(id) => open.push(*id),
                    Kind::Slot(_) => {}
                }
            }
        }
        Some(words.saturating_mul(8))
    }

    /// Whether a struct pointer field must be boxed because the struct holds itself.
    pub fn is_recursive(&self, owner: u64, field: &Kind) -> bool {
        let Kind::Slot(Type::Struct(target)) = field else { return false };
        self.reaches(*target, owner, &mut BTreeSet::new())
    }

    /// Whether a struct can hold itself, also through lists.
    pub fn is_cyclic(&self, id: u64) -> bool {
        let Some(structure) = self.structs.get(&id) else { return false };
        let mut seen = BTreeSet::new();
        structure.fields.iter().any(|field| self.mentions(&field.kind, id, &mut seen))
    }

    fn mentions(&self, kind: &Kind, wanted: u64, seen: &mut BTreeSet<u64>) -> bool {
        let id = match kind {
            Kind::Group(id) => *id,
            Kind::Slot(ty) => match element(ty) {
                Type::Struct(id) => *id,
                _ => return false,
            },
        };
        if id == wanted {
            return true;
        }
        seen.insert(id)
            && self
                .structs
                .get(&id)
                .is_some_and(|structure| structure.fields.iter().any(|field| self.mentions(&field.kind, wanted, seen)))
    }

    /// Whether `from` holds `wanted` by value (pointers count, lists do not).
    fn reaches(&self, from: u64, wanted: u64, seen: &mut BTreeSet<u64>) -> bool {
        if from == wanted {
            return true;
        }
        if !seen.insert(from) {
            return false;
        }
        let Some(structure) = self.structs.get(&from) else { return false };
        // A group is part of its owner: a pointer inside it that leads to the owner is a cycle too.
        structure.fields.iter().any(|field| match &field.kind {
            Kind::Group(id) | Kind::Slot(Type::Struct(id)) => self.reaches(*id, wanted, seen),
            Kind::Slot(_) => false,
        })
    }

    fn any(&self, kind: &Kind, seen: &mut BTreeSet<u64>, test: &dyn Fn(&Type) -> bool) -> bool {
        let id = match kind {
            Kind::Group(id) => *id,
            Kind::Slot(ty) => match element(ty) {
                Type::Struct(id) => *id,
                leaf => return test(leaf),
            },
        };
        seen.insert(id)
            && self
                .structs
                .get(&id)
                .is_some_and(|structure| structure.fields.iter().any(|field| self.any(&field.kind, seen, test)))
    }
}

/// The element type of a list, however deep.
pub fn element(ty: &Type) -> &Type {
    match ty {
        Type::List(inner) => element(inner),
        other => other,
    }
}
