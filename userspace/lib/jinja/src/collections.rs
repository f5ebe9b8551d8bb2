//! What lists, dictionaries and texts have in common: going through them, slices, lengths.

use crate::Error;
use crate::machine::Machine;
use crate::value::{Made, Value};

impl Machine<'_> {
    /// The values that a loop goes over.
    #[inline(never)]
    pub fn iterate(&mut self, value: &Value) -> Result<Vec<Value>, Error> {
        let length = match value {
            Value::Text(text) => text.chars().len(),
            Value::Dict(dict) => dict.entries().len(),
            other => other.as_items().map_or(0, <[Value]>::len),
        };
        self.spend_list(length)?;
        match value {
            Value::Undefined(_) => Ok(Vec::new()),
            Value::Text(text) => Ok(text.chars().iter().map(|c| Value::Text([*c].as_slice().into())).collect()),
            Value::Dict(dict) => Ok(dict.entries().iter().map(|(key, _)| key.clone()).collect()),
            Value::Made(Made::Iterator(items)) => Ok(items.left.take().into()),
            Value::Made(Made::Loop(_)) => Err(Error::failed("'loop' object is not iterable")),
            other => match other.as_items() {
                Some(items) => Ok(items.to_vec()),
                None => Err(Error::failed(format!("'{}' object is not iterable", other.kind()))),
            },
        }
    }

    pub fn is_iterable(value: &Value) -> bool {
        let iterates =
            matches!(value, Value::Undefined(_) | Value::Text(_) | Value::Dict(_) | Value::Made(Made::Iterator(_)));
        iterates || value.as_items().is_some()
    }

    /// Python's `len`.
    pub fn length(value: &Value) -> Result<usize, Error> {
        match value {
            Value::Undefined(_) => Ok(0),
            Value::Text(text) => Ok(text.chars().len()),
            Value::Dict(dict) => Ok(dict.entries().len()),
            other => match other.as_items() {
                Some(items) => Ok(items.len()),
                None => Err(Error::failed(format!("object of type '{}' has no len()", other.kind()))),
            },
        }
    }

    /// `value[start:stop:step]`.
    #[inline(never)]
    pub fn slice(&mut self, value: &Value, bounds: &[Value; 3]) -> Result<Value, Error> {
        let numbers = bounds.each_ref().map(|bound| match bound {
            Value::None => Ok(None),
            other => other.as_int().map(Some).ok_or_else(|| {
                Error::failed(format!("bounds of a slice must be whole numbers, not of type {}", other.kind()))
            }),
        });
        let [start, stop, step] = numbers;
        let (start, stop, step) = (start?, stop?, step?.unwrap_or(1));
        let at = |length: usize| places(length, start, stop, step);
        if step == 0 {
            return Err(Error::failed("slice step cannot be zero"));
        }
        match value {
            Value::Undefined(what) => Err(Error::failed(&**what)),
            Value::Text(text) => {
                let chars = text.chars();
                self.text(at(chars.len()).into_iter().filter_map(|at| chars.get(at)).copied().collect())
            }
            other => {
                let is_view = matches!(other, Value::Made(Made::View(view)) if !view.is_range);
                let items = other.as_items().filter(|_| !is_view);
                let items = items.ok_or_else(|| Error::failed(format!("'{}' object has no slices", other.kind())))?;
                let items: Vec<Value> = at(items.len()).into_iter().filter_map(|at| items.get(at)).cloned().collect();
                self.spend_list(items.len())?;
                Ok(if matches!(other, Value::Tuple(_)) { Value::tuple(items) } else { Value::list(items) })
            }
        }
    }

    /// The range that the methods of texts with a start and an end look at.
    pub fn span(length: usize, start: Option<&Value>, end: Option<&Value>) -> Result<(usize, usize), Error> {
        let bound = |value: Option<&Value>, missing: usize| match value {
            None | Some(Value::None) => Ok(missing),
            Some(value) => {
                let at = value.as_int().ok_or_else(|| Error::failed("an index into a text must be a whole number"))?;
                let whole = i128::try_from(length).unwrap_or(i128::MAX);
                let at = if at < 0 { at.saturating_add(whole).max(0) } else { at };
                Ok(usize::try_from(at).unwrap_or(usize::MAX))
            }
        };
        // A start behind the end of the text stays where it is: not even nothing is found there.
        Ok((bound(start, 0)?, bound(end, length)?.min(length)))
    }
}

/// The places of a slice.
fn places(length: usize, start: Option<i128>, stop: Option<i128>, step: i128) -> Vec<usize> {
    let length = i128::try_from(length).unwrap_or(i128::MAX);
    let (least, most) = if step > 0 { (0, length) } else { (-1, length.saturating_sub(1)) };
    let placed = |bound: i128| (if bound < 0 { bound.saturating_add(length) } else { bound }).clamp(least, most);
    let (first, last) = if step > 0 { (least, most) } else { (most, least) };
    let stop = stop.map_or(last, placed);
    let mut at = start.map_or(first, placed);
    let mut out = Vec::new();
    while if step > 0 { at < stop } else { at > stop } {
        out.extend(usize::try_from(at));
        at = at.saturating_add(step);
    }
    out
}
