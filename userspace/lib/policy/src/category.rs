//! The effect of a method.

/// The categories of the schema's annotation, mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    ReadOnly,
    Mutating,
    Destructive,
    Outbound,
    Admin,
}

impl Category {
    pub const ALL: [Self; 5] = [Self::ReadOnly, Self::Mutating, Self::Destructive, Self::Outbound, Self::Admin];

    /// The name in the schema.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "readOnly",
            Self::Mutating => "mutating",
            Self::Destructive => "destructive",
            Self::Outbound => "outbound",
            Self::Admin => "admin",
        }
    }

    /// The category of that name. A name that is not known gets the strictest treatment there is.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|category| category.name() == name).unwrap_or(Self::Admin)
    }
}
