//! Values as Python has them.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::rc::Rc;

use crate::text::Text;

/// Bytes of what is said of an undefined value, which quotes a name.
const UNDEFINED: usize = 200;

/// A value.
#[derive(Clone, Debug)]
pub enum Value {
    /// What is not there; says what.
    Undefined(Rc<str>),
    /// `none`.
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A number.
    Float(f64),
    /// A text.
    Text(Text),
    /// A list.
    List(Rc<List>),
    /// A tuple.
    Tuple(Rc<List>),
    /// A dictionary.
    Dict(Rc<Dict>),
    /// Something that only a template makes.
    #[doc(hidden)]
    Made(Made),
}

/// What only templates make.
#[derive(Clone, Debug)]
pub enum Made {
    /// Keys, values or pairs of a dictionary, or a range, as Python writes it.
    View(Rc<View>),
    /// What can be gone through once.
    Iterator(Rc<Iteration>),
    /// Things of the machine, by their number.
    Namespace(usize),
    Macro(usize),
    Loop(usize),
    Cycler(usize),
    Joiner(usize),
    /// A function, by its name.
    Function(&'static str),
    /// A method of a value.
    Method(Rc<(Value, String)>),
}

/// How deep values lie in a value, and how many values and characters are in it if each is counted where it lies. A list
/// can have the same list in it twice, so a few steps make one that no comparison comes to the end of.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub depth: usize,
    pub size: usize,
}

impl Extent {
    fn of<'v>(values: impl Iterator<Item = &'v Value>) -> Self {
        values.map(Value::extent).fold(Self { depth: 1, size: 1 }, |whole, part| Self {
            depth: whole.depth.max(part.depth.saturating_add(1)),
            size: whole.size.saturating_add(part.size),
        })
    }
}

/// Values in order.
#[derive(Debug)]
pub struct List {
    items: Vec<Value>,
    extent: Extent,
}

/// Keys and values in order.
#[derive(Debug)]
pub struct Dict {
    entries: Vec<(Value, Value)>,
    extent: Extent,
}

/// What a dictionary's methods and `range` give.
#[derive(Debug)]
pub struct View {
    /// `dict_keys` and so on; of a range all of it.
    pub name: String,
    pub items: Rc<List>,
    pub is_range: bool,
}

/// What can be gone through once.
#[derive(Debug)]
pub struct Iteration {
    pub name: &'static str,
    pub left: RefCell<std::collections::VecDeque<Value>>,
    extent: Extent,
}

impl List {
    pub fn new(items: Vec<Value>) -> Self {
        let extent = Extent::of(items.iter());
        Self { items, extent }
    }

    pub fn items(&self) -> &[Value] {
        &self.items
    }
}

impl Dict {
    pub fn new(entries: Vec<(Value, Value)>) -> Self {
        let extent = Extent::of(entries.iter().flat_map(|(key, value)| [key, value]));
        Self { entries, extent }
    }

    pub fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }

    pub fn get(&self, key: &Value) -> Option<&Value> {
        self.entries.iter().find(|(found, _)| found.equals(key)).map(|(_, value)| value)
    }

    pub fn get_text(&self, key: &str) -> Option<&Value> {
        let mut entries = self.entries.iter();
        entries.find(|(found, _)| matches!(found, Value::Text(text) if text.is(key))).map(|(_, value)| value)
    }
}

impl Value {
    /// A text of the template.
    pub fn own(text: &str) -> Self {
        Self::Text(Text::own(text))
    }

    /// A text of somebody else.
    pub fn foreign(text: &str) -> Self {
        Self::Text(Text::foreign(text))
    }

    /// A list.
    pub fn list(items: Vec<Value>) -> Self {
        Self::List(Rc::new(List::new(items)))
    }

    /// A tuple.
    pub fn tuple(items: Vec<Value>) -> Self {
        Self::Tuple(Rc::new(List::new(items)))
    }

    /// A dictionary; keys differ.
    pub fn dict(entries: Vec<(Value, Value)>) -> Self {
        Self::Dict(Rc::new(Dict::new(entries)))
    }

    /// An undefined value, with the beginning of what is said where it is used.
    pub(crate) fn undefined(what: impl AsRef<str>) -> Self {
        let what = what.as_ref();
        Self::Undefined(what.get(..what.floor_char_boundary(UNDEFINED)).unwrap_or(what).into())
    }

    pub(crate) fn iterator(name: &'static str, items: Vec<Value>) -> Self {
        let extent = Extent::of(items.iter());
        Self::Made(Made::Iterator(Rc::new(Iteration { name, left: RefCell::new(items.into()), extent })))
    }

    pub(crate) fn view(name: &str, items: Vec<Value>) -> Self {
        let items = Rc::new(List::new(items));
        Self::Made(Made::View(Rc::new(View { name: name.into(), items, is_range: false })))
    }

    /// How deep and how large it is.
    pub(crate) fn extent(&self) -> Extent {
        match self {
            Self::List(list) | Self::Tuple(list) => list.extent,
            Self::Dict(dict) => dict.extent,
            Self::Text(text) => Extent { depth: 0, size: text.chars().len().saturating_add(1) },
            Self::Made(Made::View(view)) => view.items.extent,
            Self::Made(Made::Method(method)) => method.0.extent(),
            Self::Made(Made::Iterator(items)) => items.extent,
            _ => Extent { depth: 0, size: 1 },
        }
    }

    pub(crate) fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined(_))
    }

    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Undefined(_) | Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.chars().is_empty(),
            Self::List(list) | Self::Tuple(list) => !list.items.is_empty(),
            Self::Dict(dict) => !dict.entries.is_empty(),
            Self::Made(Made::View(view)) => !view.items.items.is_empty(),
            Self::Made(_) => true,
        }
    }

    /// Python's name of its kind.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Undefined(_) => "Undefined",
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "str",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Dict(_) => "dict",
            Self::Made(Made::View(view)) if view.is_range => "range",
            Self::Made(Made::View(_)) => "dict view",
            Self::Made(Made::Iterator(_)) => "generator",
            Self::Made(Made::Namespace(_)) => "Namespace",
            Self::Made(Made::Macro(_)) => "Macro",
            Self::Made(Made::Loop(_)) => "LoopContext",
            Self::Made(Made::Cycler(_)) => "Cycler",
            Self::Made(Made::Joiner(_)) => "Joiner",
            Self::Made(Made::Function(_) | Made::Method(_)) => "function",
        }
    }

    /// The number, as Python counts: a truth value is one.
    pub(crate) fn as_int(&self) -> Option<i128> {
        match self {
            Self::Bool(value) => Some(i128::from(*value)),
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            other => other.as_int().map(|value| value as f64),
        }
    }

    pub(crate) fn as_text(&self) -> Option<&Text> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The values of a list or a tuple.
    pub(crate) fn as_items(&self) -> Option<&[Value]> {
        match self {
            Self::List(list) | Self::Tuple(list) => Some(&list.items),
            Self::Made(Made::View(view)) => Some(&view.items.items),
            _ => None,
        }
    }

    /// Python's `==`.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        let all = |a: &[Self], b: &[Self]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b));
        match (self, other) {
            (Self::Undefined(_), Self::Undefined(_)) | (Self::None, Self::None) => true,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::List(a), Self::List(b)) | (Self::Tuple(a), Self::Tuple(b)) => all(&a.items, &b.items),
            (Self::Dict(a), Self::Dict(b)) => {
                let same = |(key, value): &(Self, Self)| b.get(key).is_some_and(|found| found.equals(value));
                a.entries.len() == b.entries.len() && a.entries.iter().all(same)
            }
            (Self::Made(a), Self::Made(b)) => match (a, b) {
                (Made::Namespace(a), Made::Namespace(b))
                | (Made::Macro(a), Made::Macro(b))
                | (Made::Loop(a), Made::Loop(b))
                | (Made::Cycler(a), Made::Cycler(b))
                | (Made::Joiner(a), Made::Joiner(b)) => a == b,
                (Made::Function(a), Made::Function(b)) => a == b,
                (Made::View(a), Made::View(b)) => a.is_range == b.is_range && all(&a.items.items, &b.items.items),
                (Made::Iterator(a), Made::Iterator(b)) => Rc::ptr_eq(a, b),
                _ => false,
            },
            (a, b) => match (a.as_int(), b.as_int()) {
                (Some(a), Some(b)) => a == b,
                _ => a.as_float().zip(b.as_float()).is_some_and(|(a, b)| a == b),
            },
        }
    }

    /// Python's order, where there is one.
    pub(crate) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            (Self::List(a), Self::List(b)) | (Self::Tuple(a), Self::Tuple(b)) => {
                let different = a.items.iter().zip(&b.items).find(|(a, b)| !a.equals(b));
                different.map_or(Some(a.items.len().cmp(&b.items.len())), |(a, b)| a.order(b))
            }
            (a, b) => match (a.as_int(), b.as_int()) {
                (Some(a), Some(b)) => Some(a.cmp(&b)),
                // A number that is none is neither less nor more, and Python does not call that an error.
                _ => a.as_float().zip(b.as_float()).map(|(a, b)| a.total_cmp(&b)),
            },
        }
    }
}
