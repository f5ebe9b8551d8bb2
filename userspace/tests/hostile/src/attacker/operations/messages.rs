//! Parameters of any method, laid out by the schema and filled with random values.
//!
//! The layout of a struct is read from the schema once, so that a message costs some hundred instructions.

use alloc::vec::Vec;

use capnp::introspect::{Type, TypeVariant};
use capnp::schema::StructSchema;
use capnp::schema_capnp::{field, node};
use capos_schema::reflection::{self, InterfaceInfo};

use super::values::{Hint, Values};

/// Structs in structs that are filled; deeper ones stay null.
const DEEPEST: u32 = 4;
/// The most bytes of a text, of data or of a list.
const LONGEST: u64 = 600;

/// A method that can be called.
pub struct Method {
    pub interface: u64,
    pub ordinal: u16,
    /// Capabilities that it takes.
    pub caps: u8,
    /// Whether it ends what it is called on.
    pub ends: bool,
    params: Shape,
}

/// The content of a message of a struct type.
struct Shape {
    data_words: u16,
    pointers: u16,
    fields: Vec<Field>,
}

enum Field {
    /// `bits` long, from bit `at` of the data on.
    Number { at: u32, bits: u32, hint: Hint },
    /// The pointer with this index.
    Pointer { at: u32, to: Target },
}

enum Target {
    Struct(Shape),
    Text,
    /// A list whose elements have this code and this many bits.
    List {
        code: u64,
        bits: u64,
    },
    Capability,
    /// Types that no method of the kernel takes.
    Other,
}

/// The methods of these interfaces.
pub fn methods(interfaces: &[u64]) -> Vec<Method> {
    let mut all = Vec::new();
    for interface in interfaces.iter().filter_map(|id| reflection::interface(*id)) {
        all.extend(methods_of(interface));
    }
    all
}

fn methods_of(interface: &'static InterfaceInfo) -> impl Iterator<Item = Method> {
    interface.methods.iter().filter_map(|method| {
        let params = shape((method.params_type)(), 0)?;
        let caps = params.fields.iter().filter(|field| matches!(field, Field::Pointer { to: Target::Capability, .. }));
        let caps = u8::try_from(caps.count()).ok()?;
        let ends = ["kill", "revoke"].contains(&method.name);
        Some(Method { interface: interface.id, ordinal: method.ordinal, caps, ends, params })
    })
}

/// Bits of a number; none of anything else.
fn width(ty: &TypeVariant) -> Option<u32> {
    match ty {
        TypeVariant::Bool => Some(1),
        TypeVariant::Int8 | TypeVariant::UInt8 => Some(8),
        TypeVariant::Int16 | TypeVariant::UInt16 | TypeVariant::Enum(_) => Some(16),
        TypeVariant::Int32 | TypeVariant::UInt32 | TypeVariant::Float32 => Some(32),
        TypeVariant::Int64 | TypeVariant::UInt64 | TypeVariant::Float64 => Some(64),
        _ => None,
    }
}

/// The schema's description of a struct type.
fn shape(ty: Type, depth: u32) -> Option<Shape> {
    let TypeVariant::Struct(found) = ty.which() else { return None };
    let schema = StructSchema::from(found);
    let node::Struct(layout) = schema.get_proto().which().ok()? else { return None };
    let mut fields = Vec::new();
    for field in schema.get_fields().ok()? {
        // A group's fields are not numbered separately: the kernel's methods have none.
        let field::Slot(slot) = field.get_proto().which().ok()? else { continue };
        let (at, ty) = (slot.get_offset(), field.get_type());
        if let Some(bits) = width(&ty.which()) {
            let hint =
                field.get_proto().get_name().ok().and_then(|name| name.to_str().ok()).map_or(Hint::Any, Hint::of);
            fields.push(Field::Number { at: at.checked_mul(bits)?, bits, hint });
        } else if !matches!(ty.which(), TypeVariant::Void) {
            fields.push(Field::Pointer { at, to: target(ty, depth) });
        }
    }
    Some(Shape { data_words: layout.get_data_word_count(), pointers: layout.get_pointer_count(), fields })
}

fn target(ty: Type, depth: u32) -> Target {
    match ty.which() {
        TypeVariant::Struct(_) if depth < DEEPEST => shape(ty, depth + 1).map_or(Target::Other, Target::Struct),
        TypeVariant::Text => Target::Text,
        TypeVariant::Data => Target::List { code: 2, bits: 8 },
        TypeVariant::List(element) => match width(&element.which()) {
            Some(1) => Target::List { code: 1, bits: 1 },
            Some(bits) => Target::List { code: u64::from(bits.trailing_zeros()) - 1, bits: bits.into() },
            None => Target::Other,
        },
        TypeVariant::Capability => Target::Capability,
        _ => Target::Other,
    }
}

/// A message that grows.
struct Writer<'a, 'v> {
    words: &'a mut Vec<u64>,
    values: &'a mut Values<'v>,
    caps: u64,
}

/// Makes well-formed parameters of a method.
pub fn fill(method: &Method, words: &mut Vec<u64>, values: &mut Values<'_>) {
    words.clear();
    words.push(struct_pointer(0, &method.params));
    Writer { words, values, caps: 0 }.shape(&method.params);
}

/// Changes a message in one to three places to a form that no client would send.
pub fn corrupt(words: &mut [u64], values: &mut Values<'_>) {
    for _ in 0..=values.below(3) {
        let place = values.below(words.len() as u64);
        let Some(word) = usize::try_from(place).ok().and_then(|place| words.get_mut(place)) else { return };
        *word = match values.below(6) {
            0 => *word ^ 1 << values.below(64),
            // A pointer of any kind, to somewhere near, with any sizes.
            1 | 2 => {
                values.below(4) | values.below(40).wrapping_sub(20) << 2 & 0xffff_fffc | values.below(1 << 32) << 32
            }
            3 => (values.below(8) << 32 | 1) | values.below(1 << 29) << 35,
            4 => values.number(64, Hint::Any),
            _ => 0,
        };
    }
}

fn struct_pointer(offset: u64, shape: &Shape) -> u64 {
    (offset & 0x3fff_ffff) << 2 | u64::from(shape.data_words) << 32 | u64::from(shape.pointers) << 48
}

impl Writer<'_, '_> {
    fn or(&mut self, at: usize, bits: u64) {
        if let Some(word) = self.words.get_mut(at) {
            *word |= bits;
        }
    }

    /// Appends a struct.
    fn shape(&mut self, shape: &Shape) {
        let start = self.words.len();
        let pointers = start + usize::from(shape.data_words);
        self.words.resize(pointers + usize::from(shape.pointers), 0);
        for field in &shape.fields {
            match field {
                Field::Number { at, bits, hint } => {
                    let value = self.values.number(*bits, *hint);
                    self.or(start + (at / 64) as usize, value << (at % 64));
                }
                Field::Pointer { at, to } => self.pointer(pointers + *at as usize, to),
            }
        }
    }

    /// Sets the pointer at word `at`, and appends what it points to.
    fn pointer(&mut self, at: usize, to: &Target) {
        let offset = (self.words.len() - at - 1) as u64;
        match to {
            // Any pointer may be null.
            _ if self.values.below(24) == 0 => {}
            Target::Struct(shape) => {
                self.or(at, struct_pointer(offset, shape));
                self.shape(shape);
            }
            Target::Text => {
                let length = self.values.length();
                self.or(at, 1 | offset << 2 | 2 << 32 | (length + 1) << 35);
                for word in 0..=length / 8 {
                    // The last byte, and the padding of its word, is zero.
                    let left = (length - word * 8).min(8);
                    let mask = if left == 8 { u64::MAX } else { (1 << (left * 8)) - 1 };
                    let text = self.values.text();
                    self.words.push(text & mask);
                }
            }
            Target::List { code, bits } => {
                let count = self.values.length().min(LONGEST);
                self.or(at, 1 | offset << 2 | code << 32 | count << 35);
                for _ in 0..(count * bits).div_ceil(64) {
                    let word = self.values.number(64, Hint::Any);
                    self.words.push(word);
                }
            }
            Target::Capability => {
                self.or(at, 3 | self.caps << 32);
                self.caps += 1;
            }
            Target::Other => {
                let word = self.values.number(64, Hint::Any);
                self.or(at, word);
            }
        }
    }
}
