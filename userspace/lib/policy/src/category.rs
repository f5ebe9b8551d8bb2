//! The effect of a method.

pub use capos_schema::annotations::Category;

/// The category with this name in the schema. An unknown name is treated as the strictest category, `admin`.
#[must_use]
pub fn category(name: &str) -> Category {
    Category::from_name(name).unwrap_or(Category::Admin)
}
