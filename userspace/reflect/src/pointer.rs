//! From a message's untyped root to a struct whose type is known only at run time.

use capnp::dynamic_struct;
use capnp::introspect::{Type, TypeVariant};
use capnp::private::layout::{PointerBuilder, PointerReader, StructSize};
use capnp::schema::StructSchema;
use capnp::schema_capnp::node;
use capnp::traits::{FromPointerBuilder, FromPointerReader};
use capnp::{Error, Word, any_pointer};

struct RawBuilder<'a>(PointerBuilder<'a>);

impl<'a> FromPointerBuilder<'a> for RawBuilder<'a> {
    fn init_pointer(builder: PointerBuilder<'a>, _length: u32) -> Self {
        Self(builder)
    }

    fn get_from_pointer(builder: PointerBuilder<'a>, _default: Option<&'a [Word]>) -> capnp::Result<Self> {
        Ok(Self(builder))
    }
}

struct RawReader<'a>(PointerReader<'a>);

impl<'a> FromPointerReader<'a> for RawReader<'a> {
    fn get_from_pointer(reader: &PointerReader<'a>, _default: Option<&'a [Word]>) -> capnp::Result<Self> {
        Ok(Self(*reader))
    }
}

/// The schema of a struct type.
pub(crate) fn schema_of(ty: Type) -> capnp::Result<StructSchema> {
    match ty.which() {
        TypeVariant::Struct(schema) => Ok(schema.into()),
        _ => Err(Error::failed(alloc::string::String::from("the type is no struct"))),
    }
}

/// Makes a struct of this type the root.
pub(crate) fn build(
    root: any_pointer::Builder<'_>,
    schema: StructSchema,
) -> capnp::Result<dynamic_struct::Builder<'_>> {
    let node::Struct(found) = schema.get_proto().which()? else {
        return Err(Error::failed(alloc::string::String::from("the type is no struct")));
    };
    let size = StructSize { data: found.get_data_word_count(), pointers: found.get_pointer_count() };
    let RawBuilder(pointer) = root.init_as();
    Ok(dynamic_struct::Builder::new(pointer.init_struct(size), schema))
}

/// Reads the root as a struct of this type.
pub(crate) fn read(root: any_pointer::Reader<'_>, schema: StructSchema) -> capnp::Result<dynamic_struct::Reader<'_>> {
    let RawReader(pointer) = root.get_as()?;
    Ok(dynamic_struct::Reader::new(pointer.get_struct(None)?, schema))
}
