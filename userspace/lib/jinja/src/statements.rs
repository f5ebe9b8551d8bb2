//! Carrying out the statements of a template.

use crate::Error;
use crate::ast::{Action, Filters, Macro, Statement, Target};
use crate::functions::Args;
use crate::machine::{Closure, Machine};
use crate::text::Char;
use crate::value::{Made, Value};

/// What runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Next,
    Break,
    Continue,
}

impl<'t> Machine<'t> {
    pub fn carry_out(&mut self, body: &'t [Statement], out: &mut Vec<Char>) -> Result<Flow, Error> {
        self.enter()?;
        for statement in body {
            let flow = self.statement(&statement.action, out).map_err(|error| error.at(statement.line))?;
            if flow != Flow::Next {
                self.leave();
                return Ok(flow);
            }
        }
        self.leave();
        Ok(Flow::Next)
    }

    #[inline(never)]
    fn statement(&mut self, action: &'t Action, out: &mut Vec<Char>) -> Result<Flow, Error> {
        match action {
            Action::Text(text) => self.push(out, text.chars())?,
            Action::Print(expression) => {
                let value = self.evaluate(expression)?;
                self.print(&value, out)?;
            }
            Action::If(branches, otherwise) => {
                for (condition, body) in branches {
                    if self.evaluate(condition)?.is_true() {
                        return self.carry_out(body, out);
                    }
                }
                return self.carry_out(otherwise, out);
            }
            Action::For(definition) => self.for_loop(definition, out)?,
            Action::Set(target, expression) => {
                let value = self.evaluate(expression)?;
                self.assign(target, value)?;
            }
            Action::Macro(definition) => {
                let made = self.make_macro(definition);
                self.set(&definition.name, made);
            }
            Action::Do(expression) => drop(self.evaluate(expression)?),
            Action::Break => return Ok(Flow::Break),
            Action::Continue => return Ok(Flow::Continue),
            Action::With(values, body) => return self.with(values, body, out),
            Action::SetBlock(target, filters, body) => {
                let value = self.captured(filters, body)?;
                self.assign(target, value)?;
            }
            Action::Filter(filters, body) => {
                let value = self.captured(filters, body)?;
                self.print(&value, out)?;
            }
            Action::Call(call, definition) => {
                let caller = self.make_macro(definition);
                let value = self.evaluate_call(call, caller)?;
                self.print(&value, out)?;
            }
        }
        Ok(Flow::Next)
    }

    #[inline(never)]
    fn print(&mut self, value: &Value, out: &mut Vec<Char>) -> Result<(), Error> {
        if let Some(text) = value.as_text() {
            return self.push(out, text.chars());
        }
        let text = self.str(value)?;
        self.push(out, &text)
    }

    #[inline(never)]
    fn with(
        &mut self,
        values: &'t [(Target, crate::ast::Expression)],
        body: &'t [Statement],
        out: &mut Vec<Char>,
    ) -> Result<Flow, Error> {
        // Values do not see each other's names.
        let mut made = Vec::new();
        for (_, expression) in values {
            made.push(self.evaluate(expression)?);
        }
        self.in_scope(self.scope, |machine| {
            for ((target, _), value) in values.iter().zip(made) {
                machine.assign(target, value)?;
            }
            machine.carry_out(body, out)
        })
    }

    #[inline(never)]
    fn make_macro(&mut self, definition: &'t Macro) -> Value {
        let made = Value::Made(Made::Macro(self.macros.len()));
        self.macros.push(Closure { definition, scope: self.scope });
        made
    }

    #[inline(never)]
    fn captured(&mut self, filters: &'t Filters, body: &'t [Statement]) -> Result<Value, Error> {
        let mut out = Vec::new();
        self.in_scope(self.scope, |machine| machine.carry_out(body, &mut out))?;
        let mut value = self.text(out)?;
        for (name, arguments) in filters {
            let args = self.arguments(arguments)?;
            value = self.filter(name, value, args)?;
        }
        Ok(value)
    }

    #[inline(never)]
    pub fn assign(&mut self, target: &'t Target, value: Value) -> Result<(), Error> {
        match target {
            Target::Name(name) => {
                self.spend_search()?;
                self.set(name, value);
            }
            Target::Member(name, member) => {
                let Value::Made(Made::Namespace(at)) = self.look_up(name) else {
                    return Err(Error::failed(format!(
                        "'{name}' is not a namespace, so '{member}' cannot be set in it"
                    )));
                };
                if let Some(members) = self.namespaces.get_mut(at) {
                    let names = members.len();
                    set_member(members, member, value);
                    self.spend(names.checked_div(8).unwrap_or(0))?;
                }
            }
            Target::Tuple(targets) => {
                let values = self.iterate(&value)?;
                if values.len() != targets.len() {
                    let (has, wants) = (values.len(), targets.len());
                    return Err(Error::failed(format!("{has} values cannot be assigned to {wants} names")));
                }
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value)?;
                }
            }
        }
        Ok(())
    }

    /// Calls a macro.
    #[inline(never)]
    pub fn call_macro(&mut self, at: usize, mut args: Args) -> Result<Value, Error> {
        let Some(Closure { definition, scope }) = self.macros.get(at).copied() else {
            return Err(Error::failed("this macro no longer exists"));
        };
        let name = &definition.name;
        let parameters = &definition.parameters;
        let caller = args.take("caller");
        let given = args.positional.len();
        let extra = args.positional.split_off(given.min(parameters.names.len()));
        if !extra.is_empty() && !definition.takes.varargs {
            let takes = parameters.names.len();
            return Err(Error::failed(format!("macro '{name}' takes {takes} arguments and was called with {given}")));
        }
        if caller.is_some() && !definition.takes.caller {
            return Err(Error::failed(format!("macro '{name}' takes no 'caller'")));
        }
        let mut out = Vec::new();
        self.in_scope(scope, |machine| {
            machine.bind_parameters(definition, args, caller, extra)?;
            machine.carry_out(&definition.body, &mut out)
        })?;
        self.text(out)
    }

    /// Gives the parameters of a macro their values.
    #[inline(never)]
    fn bind_parameters(
        &mut self,
        definition: &'t Macro,
        mut args: Args,
        caller: Option<Value>,
        extra: Vec<Value>,
    ) -> Result<(), Error> {
        let (name, parameters) = (&definition.name, &definition.parameters);
        let without = parameters.names.len().saturating_sub(parameters.defaults.len());
        let mut positional = std::mem::take(&mut args.positional).into_iter();
        for (at, parameter) in parameters.names.iter().enumerate() {
            let value = match (positional.next(), args.take(parameter)) {
                (Some(_), Some(_)) => {
                    return Err(Error::failed(format!("macro '{name}' was given '{parameter}' twice")));
                }
                (Some(value), None) | (None, Some(value)) => value,
                (None, None) => match at.checked_sub(without).and_then(|at| parameters.defaults.get(at)) {
                    Some(default) => self.evaluate(default)?,
                    None => Value::undefined(format!("parameter '{parameter}' was not provided")),
                },
            };
            self.set(parameter, value);
        }
        if definition.takes.caller {
            self.set("caller", caller.unwrap_or_else(|| Value::undefined("No caller defined")));
        }
        if definition.takes.varargs {
            let extra = self.tuple(extra)?;
            self.set("varargs", extra);
        }
        if definition.takes.kwargs {
            let named = args.named.into_iter().map(|(name, value)| (Value::Text(name), value)).collect();
            let named = self.checked(Value::dict(named))?;
            self.set("kwargs", named);
        } else if let Some((unknown, _)) = args.named.first() {
            return Err(Error::failed(format!("macro '{name}' takes no argument '{unknown}'")));
        }
        Ok(())
    }
}

/// Sets a member of a namespace.
pub fn set_member(members: &mut Vec<(String, Value)>, name: &str, value: Value) {
    match members.iter_mut().find(|(found, _)| found == name) {
        Some((_, old)) => *old = value,
        None => members.push((name.into(), value)),
    }
}
