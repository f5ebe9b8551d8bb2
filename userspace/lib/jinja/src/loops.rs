//! Loops, and what they tell of themselves.

use std::rc::Rc;

use crate::Error;
use crate::ast::For;
use crate::functions::Args;
use crate::machine::Machine;
use crate::statements::Flow;
use crate::text::Char;
use crate::value::{Made, Value};

/// A loop that is carried out.
pub struct LoopState<'t> {
    definition: &'t For,
    /// The scope around it.
    around: usize,
    items: Rc<Vec<Value>>,
    index: usize,
    depth: usize,
    /// What `changed` was given last.
    last: Option<Vec<Value>>,
}

impl<'t> Machine<'t> {
    #[inline(never)]
    pub fn for_loop(&mut self, definition: &'t For, out: &mut Vec<Char>) -> Result<(), Error> {
        let over = self.evaluate(&definition.over)?;
        self.loop_over(definition, &over, 0, out)
    }

    fn loop_over(&mut self, definition: &'t For, over: &Value, depth: usize, out: &mut Vec<Char>) -> Result<(), Error> {
        let mut items = self.iterate(over)?;
        if let Some(condition) = &definition.condition {
            let all = std::mem::take(&mut items);
            for item in all {
                let keeps = self.in_scope(self.scope, |machine| {
                    machine.assign(&definition.target, item.clone())?;
                    Ok(machine.evaluate(condition)?.is_true())
                })?;
                items.extend(keeps.then_some(item));
            }
        }
        if items.is_empty() {
            return self.in_scope(self.scope, |machine| machine.carry_out(&definition.otherwise, out)).map(drop);
        }
        let at = self.loops.len();
        let items = Rc::new(items);
        let state = LoopState { definition, around: self.scope, items: items.clone(), index: 0, depth, last: None };
        self.loops.push(state);
        for (index, item) in items.iter().enumerate() {
            if let Some(state) = self.loops.get_mut(at) {
                state.index = index;
            }
            let flow = self.in_scope(self.scope, |machine| {
                machine.set("loop", Value::Made(Made::Loop(at)));
                machine.assign(&definition.target, item.clone())?;
                machine.carry_out(&definition.body, out)
            })?;
            if flow == Flow::Break {
                break;
            }
        }
        self.loops.truncate(at);
        Ok(())
    }

    /// A member of a loop.
    pub fn loop_member(&self, at: usize, name: &str) -> Option<Value> {
        let state = self.loops.get(at)?;
        let (index, length) = (state.index, state.items.len());
        let count = |number: usize| Some(Value::Int(i128::try_from(number).unwrap_or(0)));
        let item = |index: Option<usize>, missing: &str| {
            let found = index.and_then(|index| state.items.get(index)).cloned();
            Some(found.unwrap_or_else(|| Value::undefined(missing)))
        };
        match name {
            "index" => count(index.saturating_add(1)),
            "index0" => count(index),
            "revindex" => count(length.saturating_sub(index)),
            "revindex0" => count(length.saturating_sub(index).saturating_sub(1)),
            "first" => Some(Value::Bool(index == 0)),
            "last" => Some(Value::Bool(index.saturating_add(1) == length)),
            "length" => count(length),
            "depth" => count(state.depth.saturating_add(1)),
            "depth0" => count(state.depth),
            "previtem" => item(index.checked_sub(1), "there is no previous item"),
            "nextitem" => item(index.checked_add(1), "there is no next item"),
            "cycle" | "changed" => {
                let this = Value::Made(Made::Loop(at));
                Some(Value::Made(Made::Method(Rc::new((this, name.into())))))
            }
            _ => None,
        }
    }

    pub fn loop_method(&mut self, at: usize, name: &str, args: Args) -> Result<Value, Error> {
        let Some(state) = self.loops.get_mut(at) else { return Err(Error::failed("this loop has ended")) };
        if name == "cycle" {
            let which = state.index.checked_rem(args.positional.len());
            let value = which.and_then(|which| args.positional.into_iter().nth(which));
            return value.ok_or_else(|| Error::failed("no items for cycling given"));
        }
        let same = |last: &Vec<Value>| {
            last.len() == args.positional.len() && last.iter().zip(&args.positional).all(|(a, b)| a.equals(b))
        };
        let changed = !state.last.as_ref().is_some_and(same);
        state.last = Some(args.positional);
        Ok(Value::Bool(changed))
    }

    /// A call of a recursive loop.
    #[inline(never)]
    pub fn call_loop(&mut self, at: usize, args: Args) -> Result<Value, Error> {
        let Some(state) = self.loops.get(at) else { return Err(Error::failed("this loop has ended")) };
        let (definition, depth, around) = (state.definition, state.depth.saturating_add(1), state.around);
        if !definition.recursive {
            return Err(Error::failed("the loop is not marked 'recursive', so it cannot be called"));
        }
        let [over] = args.bind("loop", ["iterable"])?;
        let Some(over) = over else {
            return Err(Error::failed("a recursive loop must be called with the values to loop over"));
        };
        let mut out = Vec::new();
        let outer = std::mem::replace(&mut self.scope, around);
        let made = self.loop_over(definition, &over, depth, &mut out);
        self.scope = outer;
        made?;
        self.text(out)
    }
}
