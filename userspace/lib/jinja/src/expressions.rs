//! What expressions are.

use std::rc::Rc;

use crate::Error;
use crate::ast::{Arguments, Constant, Expression, Kind, Step};
use crate::functions::Args;
use crate::machine::Machine;
use crate::methods;
use crate::operators;
use crate::text::Text;
use crate::value::{Made, Value};

impl<'t> Machine<'t> {
    #[inline(never)]
    pub fn evaluate(&mut self, expression: &'t Expression) -> Result<Value, Error> {
        let value = match &expression.kind {
            Kind::Constant(constant) => {
                self.spend(1)?;
                return Ok(match constant {
                    Constant::None => Value::None,
                    Constant::Bool(value) => Value::Bool(*value),
                    Constant::Int(value) => Value::Int(*value),
                    Constant::Float(value) => Value::Float(*value),
                    Constant::Text(text) => Value::Text(text.clone()),
                });
            }
            Kind::Name(name) => {
                self.spend(1)?;
                self.spend_search()?;
                return Ok(self.look_up(name));
            }
            kind => {
                self.enter().map_err(|error| error.at(expression.line))?;
                let value = match kind {
                    Kind::Steps(first, steps) => self.steps(first, steps, None),
                    Kind::Operate(..) | Kind::Join(_) | Kind::Compare(..) => self.operate(kind),
                    _ => self.compound(kind),
                };
                self.leave();
                value
            }
        };
        value.map_err(|error| error.at(expression.line))
    }

    #[inline(never)]
    fn compound(&mut self, kind: &'t Kind) -> Result<Value, Error> {
        match kind {
            Kind::List(items) => {
                let items = self.evaluate_all(items)?;
                self.list(items)
            }
            Kind::Tuple(items) => {
                let items = self.evaluate_all(items)?;
                self.tuple(items)
            }
            Kind::Dict(items) => {
                let mut entries = Vec::with_capacity(items.len());
                for (key, value) in items {
                    entries.push((self.evaluate(key)?, self.evaluate(value)?));
                }
                self.dict(entries)
            }
            Kind::Condition(value, conditions) => {
                for (condition, other) in conditions.iter().rev() {
                    if self.evaluate(condition)?.is_true() {
                        continue;
                    }
                    return match other {
                        Some(other) => self.evaluate(other),
                        None => Ok(Value::undefined(
                            "the inline if-expression evaluated to false and no else section was defined",
                        )),
                    };
                }
                self.evaluate(value)
            }
            Kind::Or(parts) | Kind::And(parts) => {
                let ends = matches!(kind, Kind::Or(_));
                let mut value = Value::None;
                for part in parts {
                    value = self.evaluate(part)?;
                    if value.is_true() == ends {
                        break;
                    }
                }
                Ok(value)
            }
            Kind::Not(inner) => Ok(Value::Bool(!self.evaluate(inner)?.is_true())),
            Kind::Negative(inner) => {
                let value = self.evaluate(inner)?;
                operators::negative(&value)
            }
            Kind::Positive(inner) => {
                let value = self.evaluate(inner)?;
                operators::positive(value)
            }
            _ => self.operate(kind),
        }
    }

    #[inline(never)]
    fn operate(&mut self, kind: &'t Kind) -> Result<Value, Error> {
        match kind {
            Kind::Operate(first, others) => {
                let mut value = self.evaluate(first)?;
                for (operator, other) in others {
                    let other = self.evaluate(other)?;
                    value = self.operated(&value, *operator, &other)?;
                }
                Ok(value)
            }
            Kind::Join(parts) => {
                let mut out = Vec::new();
                for part in parts {
                    let value = self.evaluate(part)?;
                    let text = self.str(&value)?;
                    self.push(&mut out, &text)?;
                }
                Ok(Value::Text(out.into()))
            }
            Kind::Compare(first, others) => {
                let mut value = self.evaluate(first)?;
                for (comparison, other) in others {
                    let other = self.evaluate(other)?;
                    if !self.compared(&value, *comparison, &other)? {
                        return Ok(Value::Bool(false));
                    }
                    value = other;
                }
                Ok(Value::Bool(true))
            }
            _ => Err(Error::failed("this is not an operator")),
        }
    }

    #[inline(never)]
    fn evaluate_all(&mut self, expressions: &'t [Expression]) -> Result<Vec<Value>, Error> {
        expressions.iter().map(|expression| self.evaluate(expression)).collect()
    }

    /// A call with a caller.
    pub fn evaluate_call(&mut self, expression: &'t Expression, caller: Value) -> Result<Value, Error> {
        match &expression.kind {
            Kind::Steps(first, steps) if matches!(steps.last(), Some(Step::Call(_))) => {
                self.steps(first, steps, Some(caller)).map_err(|error| error.at(expression.line))
            }
            _ => Err(Error::failed("a call block needs a call")),
        }
    }

    #[inline(never)]
    fn steps(&mut self, first: &'t Expression, steps: &'t [Step], mut caller: Option<Value>) -> Result<Value, Error> {
        let mut value = self.evaluate(first)?;
        for (at, step) in steps.iter().enumerate() {
            self.spend(1)?;
            let is_last = at.saturating_add(1) == steps.len();
            value = self.step(value, step, if is_last { caller.take() } else { None })?;
        }
        Ok(value)
    }

    #[inline(never)]
    fn step(&mut self, value: Value, step: &'t Step, caller: Option<Value>) -> Result<Value, Error> {
        match step {
            Step::Attribute(name) => self.attribute(&value, name),
            Step::Item(key) => {
                let key = self.evaluate(key)?;
                self.item(&value, &key)
            }
            Step::Slice(parts) => {
                let mut bounds = [Value::None, Value::None, Value::None];
                for (bound, part) in bounds.iter_mut().zip(parts.iter()) {
                    if let Some(part) = part {
                        *bound = self.evaluate(part)?;
                    }
                }
                self.slice(&value, &bounds)
            }
            Step::Call(arguments) => {
                let mut args = self.arguments(arguments)?;
                args.named.extend(caller.map(|caller| (Text::own("caller"), caller)));
                self.call(&value, args)
            }
            Step::Filter(name, arguments) => {
                let args = self.arguments(arguments)?;
                self.filter(name, value, args)
            }
            Step::Test { name, arguments, negated } => {
                let args = self.arguments(arguments)?;
                Ok(Value::Bool(self.test(name, &value, args)? != *negated))
            }
        }
    }

    #[inline(never)]
    pub fn arguments(&mut self, arguments: &'t Arguments) -> Result<Args, Error> {
        let mut args = Args::none();
        args.positional = self.evaluate_all(&arguments.positional)?;
        for (name, expression) in &arguments.named {
            let value = self.evaluate(expression)?;
            args.named.push((Text::own(name), value));
        }
        if let Some(star) = &arguments.star {
            let values = self.evaluate(star)?;
            args.positional.extend(self.iterate(&values)?);
        }
        if let Some(stars) = &arguments.stars {
            let Value::Dict(dict) = self.evaluate(stars)? else {
                return Err(Error::failed("the value after ** must be a dictionary"));
            };
            self.spend_list(dict.entries().len())?;
            for (key, value) in dict.entries() {
                let name = key.as_text().ok_or_else(|| Error::failed("names of arguments must be texts"))?;
                // The names in the call are few, and those of a dictionary differ.
                self.spend_keys(arguments.named.len(), name.chars().len())?;
                if arguments.named.iter().any(|(found, _)| name.is(found)) {
                    return Err(Error::failed(format!("got multiple values for keyword argument '{name}'")));
                }
                args.named.push((name.clone(), value.clone()));
            }
        }
        Ok(args)
    }

    /// `value.name`.
    #[inline(never)]
    pub fn attribute(&mut self, value: &Value, name: &str) -> Result<Value, Error> {
        if methods::has(value, name) {
            return Ok(method(value, name));
        }
        self.member(value, name)
    }

    /// What a value has under a name.
    #[inline(never)]
    fn member(&mut self, value: &Value, name: &str) -> Result<Value, Error> {
        let found = match value {
            Value::Undefined(what) => return Err(Error::failed(&**what)),
            Value::Dict(dict) => {
                self.spend_keys(dict.entries().len(), name.len())?;
                dict.get_text(name).cloned()
            }
            Value::Made(Made::Namespace(at)) => {
                let members = self.namespaces.get(*at).map(Vec::as_slice).unwrap_or_default();
                members.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone())
            }
            Value::Made(Made::Loop(at)) => self.loop_member(*at, name),
            Value::Made(Made::Macro(at)) if name == "name" => {
                self.macros.get(*at).map(|closure| Value::own(&closure.definition.name))
            }
            Value::Made(Made::Cycler(at)) if name == "current" => {
                self.cyclers.get(*at).and_then(|(values, next)| values.get(*next)).cloned()
            }
            // A group of `groupby`.
            Value::Tuple(pair) if pair.items().len() == 2 && (name == "grouper" || name == "list") => {
                pair.items().get(usize::from(name == "list")).cloned()
            }
            _ => None,
        };
        Ok(found.unwrap_or_else(|| without(value, "attribute", &format!("'{name}'"))))
    }

    /// `value[key]`.
    #[inline(never)]
    pub fn item(&mut self, value: &Value, key: &Value) -> Result<Value, Error> {
        if let Value::Undefined(what) = value {
            return Err(Error::failed(&**what));
        }
        self.spend_value(key)?;
        if let Value::Dict(dict) = value {
            self.spend_keys(dict.entries().len(), key.extent().size)?;
            if let Some(found) = dict.get(key) {
                return Ok(found.clone());
            }
        }
        if let Some(at) = key.as_int() {
            let place = |length: usize| {
                let length = i128::try_from(length).unwrap_or(i128::MAX);
                usize::try_from(if at < 0 { at.saturating_add(length) } else { at }).ok()
            };
            let found = match value {
                Value::Text(text) => place(text.chars().len())
                    .and_then(|at| text.chars().get(at))
                    .map(|c| Value::Text([*c].as_slice().into())),
                other => other.as_items().and_then(|items| items.get(place(items.len())?)).cloned(),
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
        if let Some(name) = key.as_text() {
            let name = name.to_string();
            if methods::has(value, &name) {
                return Ok(method(value, &name));
            }
            if !matches!(value, Value::Dict(_)) {
                return self.member(value, &name);
            }
        }
        let mut written = Vec::new();
        crate::repr::repr(key, &mut written);
        let written: String = written.iter().take(80).map(|c| c.get()).collect();
        Ok(without(value, if key.as_text().is_some() { "attribute" } else { "element" }, &written))
    }
}

/// What stands for an attribute or element that a value does not have.
pub fn without(value: &Value, what: &str, name: &str) -> Value {
    let of = if matches!(value, Value::None) { "'None'".into() } else { format!("'{} object'", value.kind()) };
    Value::undefined(format!("{of} has no {what} {name}"))
}

fn method(value: &Value, name: &str) -> Value {
    Value::Made(Made::Method(Rc::new((value.clone(), name.into()))))
}
