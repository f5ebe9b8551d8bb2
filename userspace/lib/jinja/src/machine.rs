//! What a rendering holds: limits, scopes, and what templates make that can change.

use crate::ast::{Macro, Statement};
use crate::functions::Args;
use crate::loops::LoopState;
use crate::text::Char;
use crate::value::{Made, Value};
use crate::{Error, Host};

/// How deep values may lie in each other.
const VALUE_DEPTH: usize = 200;
/// Values and characters that may lie in a value.
const VALUE_SIZE: usize = 1 << 25;
/// Values that a list may have.
const LIST: usize = 1 << 20;
/// Characters of text that count as one step.
const TEXT_PER_STEP: usize = 4;

/// What a rendering may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Steps: one for each expression, each value of a list that is made, each four characters of a text that is made.
    pub steps: u64,
    /// Characters of one text.
    pub text: usize,
    /// How deep blocks, expressions and macros may be carried out in each other.
    pub depth: usize,
}

/// A macro with the scope that it was made in.
#[derive(Clone, Copy)]
pub struct Closure<'t> {
    pub definition: &'t Macro,
    pub scope: usize,
}

/// Names and values, and the scope around.
#[derive(Default)]
pub struct Scope<'t> {
    names: Vec<(&'t str, Value)>,
    around: Option<usize>,
}

pub struct Machine<'t> {
    globals: Vec<(String, Value)>,
    pub host: Host,
    limits: Limits,
    steps: u64,
    depth: usize,
    scopes: Vec<Scope<'t>>,
    /// The scope that names are set in.
    pub scope: usize,
    pub namespaces: Vec<Vec<(String, Value)>>,
    pub macros: Vec<Closure<'t>>,
    pub loops: Vec<LoopState<'t>>,
    /// Values of each cycler, and which comes next.
    pub cyclers: Vec<(Vec<Value>, usize)>,
    /// The separator of each joiner, and whether it was used.
    pub joiners: Vec<(Value, bool)>,
}

impl<'t> Machine<'t> {
    pub fn new(values: Vec<(&str, Value)>, host: Host, limits: Limits) -> Self {
        Self {
            globals: values.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
            host,
            limits,
            steps: limits.steps,
            depth: 0,
            scopes: vec![Scope::default()],
            scope: 0,
            namespaces: Vec::new(),
            macros: Vec::new(),
            loops: Vec::new(),
            cyclers: Vec::new(),
            joiners: Vec::new(),
        }
    }

    pub fn run(mut self, body: &'t [Statement]) -> Result<Vec<Char>, Error> {
        let mut out = Vec::new();
        self.carry_out(body, &mut out)?;
        Ok(out)
    }

    /// Counts steps.
    pub fn spend(&mut self, steps: usize) -> Result<(), Error> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let Some(left) = self.steps.checked_sub(steps) else {
            return Err(Error::limit(format!("it takes more than {} steps", self.limits.steps)));
        };
        self.steps = left;
        Ok(())
    }

    /// Counts a text that is made, before it is.
    pub fn spend_text(&mut self, characters: usize) -> Result<(), Error> {
        if characters > self.limits.text {
            return Err(Error::limit(format!("it makes a text of more than {} characters", self.limits.text)));
        }
        self.spend(characters.checked_div(TEXT_PER_STEP).unwrap_or(0))
    }

    /// Counts a list that is made, before it is.
    pub fn spend_list(&mut self, values: usize) -> Result<(), Error> {
        if values > LIST {
            return Err(Error::limit(format!("it makes a list of more than {LIST} values")));
        }
        self.spend(values)
    }

    /// A value that was made, if it is not too deep.
    pub fn checked(&self, value: Value) -> Result<Value, Error> {
        let extent = value.extent();
        if extent.depth > VALUE_DEPTH {
            return Err(Error::limit(format!("it nests lists deeper than {VALUE_DEPTH} levels")));
        }
        if extent.size > VALUE_SIZE {
            return Err(Error::limit(format!(
                "it makes a list with more than {VALUE_SIZE} values and characters in it"
            )));
        }
        Ok(value)
    }

    /// A text, counted.
    #[inline(never)]
    pub fn text(&mut self, characters: Vec<Char>) -> Result<Value, Error> {
        self.spend_text(characters.len())?;
        Ok(Value::Text(characters.into()))
    }

    /// What can be gone through once, counted and checked.
    pub fn iterator(&mut self, name: &'static str, items: Vec<Value>) -> Result<Value, Error> {
        self.spend_list(items.len())?;
        self.checked(Value::iterator(name, items))
    }

    /// A tuple, counted and checked.
    pub fn tuple(&mut self, items: Vec<Value>) -> Result<Value, Error> {
        self.spend_list(items.len())?;
        self.checked(Value::tuple(items))
    }

    /// A list, counted and checked.
    #[inline(never)]
    pub fn list(&mut self, items: Vec<Value>) -> Result<Value, Error> {
        self.spend_list(items.len())?;
        self.checked(Value::list(items))
    }

    /// Adds to what is made.
    pub fn push(&mut self, out: &mut Vec<Char>, text: &[Char]) -> Result<(), Error> {
        if out.len().saturating_add(text.len()) > self.limits.text {
            return self.spend_text(usize::MAX);
        }
        self.spend_text(text.len())?;
        out.extend_from_slice(text);
        Ok(())
    }

    /// Counts work on all of a value.
    pub fn spend_value(&mut self, value: &Value) -> Result<(), Error> {
        self.spend(value.extent().size.checked_div(TEXT_PER_STEP).unwrap_or(0))
    }

    /// Counts work on the arguments of a call.
    pub fn spend_args(&mut self, args: &Args) -> Result<(), Error> {
        self.spend(args.positional.len().saturating_add(args.named.len()))?;
        args.positional.iter().try_for_each(|value| self.spend_value(value))?;
        args.named.iter().try_for_each(|(_, value)| self.spend_value(value))
    }

    /// Charges a search among `keys` keys. Each may equal the wanted one, of `characters` characters, up to its end.
    pub fn spend_keys(&mut self, keys: usize, characters: usize) -> Result<(), Error> {
        let each = characters.checked_div(TEXT_PER_STEP).unwrap_or(0).saturating_add(1);
        self.spend(keys.saturating_mul(each).checked_div(8).unwrap_or(0))
    }

    /// `str(value)`.
    #[inline(never)]
    pub fn str(&mut self, value: &Value) -> Result<Vec<Char>, Error> {
        let mut out = Vec::new();
        self.spend_value(value)?;
        crate::repr::str(value, &mut out);
        self.spend_text(out.len())?;
        Ok(out)
    }

    /// Goes a level deeper.
    pub fn enter(&mut self) -> Result<(), Error> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > self.limits.depth {
            return Err(Error::limit(format!("it goes deeper than {} levels of blocks and macros", self.limits.depth)));
        }
        self.spend(1)
    }

    pub fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Carries out `inner` in a new scope within the scope `around`.
    pub fn in_scope<T>(
        &mut self,
        around: usize,
        inner: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (outer, scopes, macros) = (self.scope, self.scopes.len(), self.macros.len());
        self.scopes.push(Scope { names: Vec::new(), around: Some(around) });
        self.scope = scopes;
        let made = inner(self);
        self.scope = outer;
        // A macro may still see the scope that it was made in.
        if self.macros.len() == macros {
            self.scopes.truncate(scopes);
        }
        made
    }

    /// Counts the search for a name.
    #[inline(never)]
    pub fn spend_search(&mut self) -> Result<(), Error> {
        let (mut at, mut names) = (Some(self.scope), 0usize);
        while let Some(scope) = at.and_then(|at| self.scopes.get(at)) {
            names = names.saturating_add(scope.names.len());
            at = scope.around;
        }
        self.spend(names.checked_div(8).unwrap_or(0))
    }

    #[inline(never)]
    pub fn set(&mut self, name: &'t str, value: Value) {
        let Some(scope) = self.scopes.get_mut(self.scope) else { return };
        match scope.names.iter_mut().find(|(found, _)| *found == name) {
            Some((_, old)) => *old = value,
            None => scope.names.push((name, value)),
        }
    }

    /// A name's value in the scope and those around, where it has one.
    pub fn find(&self, name: &str) -> Option<&Value> {
        let mut at = Some(self.scope);
        while let Some(scope) = at.and_then(|at| self.scopes.get(at)) {
            if let Some((_, value)) = scope.names.iter().rev().find(|(found, _)| *found == name) {
                return Some(value);
            }
            at = scope.around;
        }
        self.globals.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    #[inline(never)]
    pub fn look_up(&self, name: &str) -> Value {
        match (self.find(name), crate::functions::named(name, self.host)) {
            (Some(value), _) => value.clone(),
            (None, Some(function)) => Value::Made(Made::Function(function)),
            (None, None) => Value::undefined(format!("'{name}' is undefined")),
        }
    }
}
