//! An error in a manifest that could be decoded.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::FIRST;

/// Why a manifest is not acted on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphError {
    /// More services and programs than are accepted.
    TooMany {
        /// This many.
        found: usize,
        /// And no more than these are accepted.
        limit: usize,
    },
    /// A service or a program has no name.
    NoName,
    /// Two have this name, or one has that of the first process or the kernel.
    Taken(String),
    /// The boot package does not hold the program of a service.
    NotInPackage {
        /// The service.
        holder: String,
        /// The program's name in the package.
        program: String,
        /// The content of the package.
        package: String,
    },
    /// A grant is of a service that does not exist.
    NoProvider {
        /// Whose grant.
        holder: String,
        /// Its name.
        grant: String,
        /// The service that should provide it.
        provider: String,
    },
    /// A grant is of something that its provider does not provide.
    NotProvided {
        /// Whose grant.
        holder: String,
        /// Its name.
        grant: String,
        /// The service that should provide it.
        provider: String,
    },
    /// The provider of a grant does not know its holder as a client.
    NoClient {
        /// Whose grant.
        holder: String,
        /// Its name.
        grant: String,
        /// The service that provides it.
        provider: String,
    },
    /// A dependency cycle: services that call each other, the first repeated at its end.
    Cycle(Vec<String>),
    /// The service that should be the boot medium's root is not one that can be.
    NoMedium(String),
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { found, limit } => {
                write!(f, "it has {found} services and programs; at most {limit} are accepted")
            }
            Self::NoName => f.write_str("a service or a program has no name; give it one"),
            Self::Taken(name) if name == FIRST || name == "kernel" => {
                write!(f, "a service or a program is called `{name}`, a name of the system; choose another")
            }
            Self::Taken(name) => write!(f, "two services or programs are called `{name}`; rename one"),
            Self::NotInPackage { holder, program, package } => {
                write!(f, "the program of service `{holder}` is `{program}`, and the boot package has only {package}")
            }
            Self::NoProvider { holder, grant, provider } => {
                write!(f, "grant `{grant}` of `{holder}` is from `{provider}`, and there is no service `{provider}`")
            }
            Self::NotProvided { holder, grant, provider } => {
                write!(f, "grant `{grant}` of `{holder}` is of an interface that `{provider}` does not provide")
            }
            Self::NoClient { holder, grant, provider } => {
                write!(f, "grant `{grant}` of `{holder}` is from `{provider}`, whose list of clients lacks `{holder}`")
            }
            Self::Cycle(way) => {
                write!(
                    f,
                    "services call each other in a cycle and could wait forever: {}; remove a grant",
                    way.join(" -> ")
                )
            }
            Self::NoMedium(service) => {
                write!(f, "the boot medium's root is to be `{service}`, which is not a service of the boot package")
            }
        }
    }
}

impl core::error::Error for GraphError {}
