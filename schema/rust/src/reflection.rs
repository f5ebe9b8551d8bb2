//! The schema's information about interfaces and methods, for programs that inspect it at run time.

use alloc::string::{String, ToString};

use capnp::introspect::Type;

pub use crate::annotations::{Category, Pattern, Unit};
use crate::models::{PermissionMode, ToolDescriptor};

/// The element of a list of the schema, or of a struct that holds itself.
#[derive(Debug)]
pub struct ElementInfo {
    /// The field, as errors name it.
    pub field: &'static str,
    /// Bits of one in a message, without what its pointers lead to.
    pub bits: u32,
    /// Bytes of one in memory, without what it points to.
    pub memory: usize,
}

/// An interface.
#[derive(Debug)]
pub struct InterfaceInfo {
    /// Its identifier.
    pub id: u64,
    /// Its name.
    pub name: &'static str,
    /// Its doc comment.
    pub doc: &'static str,
    /// The interfaces that it extends directly.
    pub extends: &'static [u64],
    /// Its own methods, by ordinal.
    pub methods: &'static [MethodInfo],
}

/// A method.
pub struct MethodInfo {
    /// Its ordinal.
    pub ordinal: u16,
    /// Its name.
    pub name: &'static str,
    /// Its doc comment.
    pub doc: &'static str,
    /// The tool's name, if a model may be offered it.
    pub tool: Option<&'static str>,
    /// Whether the tool is the person's alone, and no model is offered it.
    pub person: bool,
    /// Whether models are offered the tool only after the person has offered it to them.
    pub on_request: bool,
    /// Its effect.
    pub category: Option<Category>,
    /// Whether it may be cancelled while it runs.
    pub abortable: bool,
    /// Time limit as a tool, in milliseconds.
    pub timeout_ms: Option<u32>,
    /// Bytes of the result that may reach a model.
    pub max_result: Option<u32>,
    /// Whether the result holds text that others wrote.
    pub untrusted: bool,
    /// What a person reads after a success without results; a parameter's name in braces stands for its value.
    pub done: Option<&'static str>,
    /// The label that the result carries at least.
    pub label: Option<&'static str>,
    /// Whether its text comes in pieces, by `offset` and `length`.
    pub pieces: bool,
    /// The parameter by which a person may agree to several calls at once, and how it selects them.
    pub pattern: Option<(&'static str, Pattern)>,
    /// Parameters that are paths in the home directory.
    pub paths: &'static [&'static str],
    /// Those of them with which the call reads or moves everything below, too.
    pub trees: &'static [&'static str],
    /// Parameters that the runner gives and no model.
    pub runner_params: &'static [&'static str],
    /// Results for the runner that no model sees.
    pub runner_results: &'static [&'static str],
    /// Whether a parameter is a capability, which JSON cannot give.
    pub takes_capabilities: bool,
    /// Whether a result is a capability.
    pub gives_capabilities: bool,
    /// JSON Schema of the parameters.
    pub params_schema: &'static str,
    /// JSON Schema of the results.
    pub results_schema: &'static str,
    /// Cap'n Proto type of the parameters.
    pub params_type: fn() -> Type,
    /// Cap'n Proto type of the results.
    pub results_type: fn() -> Type,
}

impl MethodInfo {
    /// Whether it is known to do more than look: a read-only form of its interface refuses it.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.category.is_some_and(|category| category != Category::ReadOnly)
    }

    fn descriptor(&self, interface_id: u64) -> Option<ToolDescriptor> {
        let (name, category) = (self.tool?, self.category?);
        // A call of the person brings them itself.
        if self.takes_capabilities && !self.person {
            return None;
        }
        Some(ToolDescriptor {
            name: name.to_string(),
            description: self.doc.to_string(),
            interface_id,
            method_name: self.name.to_string(),
            param_schema: self.params_schema.to_string(),
            permission: PermissionMode::Forbidden,
            category: category.name().to_string(),
            handle: String::new(),
            abortable: self.abortable,
            timeout_ms: self.timeout_ms.unwrap_or(0),
        })
    }
}

impl core::fmt::Debug for MethodInfo {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MethodInfo").field("ordinal", &self.ordinal).field("name", &self.name).finish_non_exhaustive()
    }
}

impl InterfaceInfo {
    /// The method with this name.
    #[must_use]
    pub fn method(&self, name: &str) -> Option<&'static MethodInfo> {
        self.methods.iter().find(|method| method.name == name)
    }

    /// The labels that results of its methods carry: data made with such a capability may carry all of them.
    pub fn labels(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.methods.iter().filter_map(|method| method.label).filter(|label| *label != "public")
    }

    /// The tool of this name, also if the person alone calls it, as [`offered`](Self::offered) describes tools.
    #[must_use]
    pub fn tool(&self, tool: &str) -> Option<(&'static MethodInfo, ToolDescriptor)> {
        let method = self.methods.iter().find(|method| method.tool == Some(tool))?;
        Some((method, method.descriptor(self.id)?))
    }

    /// The methods that a holder may offer to a model, each with its tool description: as in the schema, forbidden
    /// until a policy permits it, and without a handle. For a read-only capability, methods that change something are
    /// left out.
    pub fn offered(&self, read_only: bool) -> impl Iterator<Item = (&'static MethodInfo, ToolDescriptor)> + use<> {
        let (id, methods) = (self.id, self.methods);
        let methods = methods.iter().filter(move |method| !(method.person || read_only && method.changes()));
        methods.filter_map(move |method| Some((method, method.descriptor(id)?)))
    }
}

/// The method that is the tool of this name. None if several interfaces have such a tool: the name alone does not tell which it was.
#[must_use]
pub fn tool(name: &str) -> Option<&'static MethodInfo> {
    let mut found = crate::INTERFACES.iter().flat_map(|interface| interface.methods);
    let named = |method: &&MethodInfo| method.tool == Some(name);
    let first = found.find(named)?;
    found.find(named).is_none().then_some(first)
}

/// The interface with this identifier.
#[must_use]
pub fn interface(id: u64) -> Option<&'static InterfaceInfo> {
    let at = crate::INTERFACES.binary_search_by_key(&id, |interface| interface.id).ok()?;
    crate::INTERFACES.get(at).copied()
}
