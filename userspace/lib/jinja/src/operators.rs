//! Operators, as Python defines them for its values.

use std::cmp::Ordering;

use crate::Error;
use crate::ast::{Comparison, Operator};
use crate::machine::Machine;
use crate::value::{Made, Value};
use crate::{number, text};

/// What a value that is not there says where it is used.
fn missing(value: &Value) -> Option<Error> {
    match value {
        Value::Undefined(what) => Some(Error::failed(&**what)),
        _ => None,
    }
}

fn too_large() -> Error {
    Error::failed("a number is too large")
}

pub fn negative(value: &Value) -> Result<Value, Error> {
    match value {
        Value::Float(value) => Ok(Value::Float(-value)),
        other => match other.as_int() {
            Some(value) => value.checked_neg().map(Value::Int).ok_or_else(too_large),
            None => Err(missing(other).unwrap_or_else(|| Error::failed(format!("a {} has no negative", other.kind())))),
        },
    }
}

pub fn positive(value: Value) -> Result<Value, Error> {
    match (&value, value.as_int()) {
        (Value::Float(_), _) => Ok(value),
        (_, Some(number)) => Ok(Value::Int(number)),
        _ => Err(missing(&value).unwrap_or_else(|| Error::failed(format!("a {} is not a number", value.kind())))),
    }
}

impl Machine<'_> {
    #[inline(never)]
    pub fn operated(&mut self, left: &Value, operator: Operator, right: &Value) -> Result<Value, Error> {
        match (left, operator, right) {
            (Value::Text(a), Operator::Add, Value::Text(b)) => {
                self.spend_text(a.chars().len().saturating_add(b.chars().len()))?;
                return Ok(Value::Text([a.chars(), b.chars()].concat().into()));
            }
            (Value::List(a), Operator::Add, Value::List(b)) => return self.list([a.items(), b.items()].concat()),
            (Value::Tuple(a), Operator::Add, Value::Tuple(b)) => {
                return self.tuple([a.items(), b.items()].concat());
            }
            (Value::Text(format), Operator::Modulo, values) => {
                let (format, values) = (format.clone(), values.clone());
                return self.printf(format.chars(), &values);
            }
            (thing, Operator::Multiply, times) | (times, Operator::Multiply, thing)
                if matches!(thing, Value::Text(_) | Value::List(_) | Value::Tuple(_)) && times.as_int().is_some() =>
            {
                let times = usize::try_from(times.as_int().unwrap_or(0).max(0)).unwrap_or(usize::MAX);
                return self.repeated(thing, times);
            }
            _ => {}
        }
        if let (Some(a), Some(b)) = (left.as_int(), right.as_int()) {
            return whole(a, operator, b);
        }
        if let (Some(a), Some(b)) = (left.as_float(), right.as_float()) {
            return float(a, operator, b);
        }
        let error = missing(left).or_else(|| missing(right));
        Err(error.unwrap_or_else(|| {
            Error::failed(format!(
                "unsupported operand types for {}: {} and {}",
                sign(operator),
                left.kind(),
                right.kind()
            ))
        }))
    }

    fn repeated(&mut self, value: &Value, times: usize) -> Result<Value, Error> {
        if let Value::Text(text) = value {
            self.spend_text(text.chars().len().saturating_mul(times))?;
            return Ok(Value::Text(text.chars().repeat(times).into()));
        }
        let items = value.as_items().unwrap_or_default();
        let length = items.len().saturating_mul(times);
        self.spend_list(length)?;
        let mut out = Vec::with_capacity(length);
        for _ in 0..if items.is_empty() { 0 } else { times } {
            out.extend_from_slice(items);
        }
        self.checked(if matches!(value, Value::List(_)) { Value::list(out) } else { Value::tuple(out) })
    }

    #[inline(never)]
    pub fn compared(&mut self, left: &Value, comparison: Comparison, right: &Value) -> Result<bool, Error> {
        self.spend_comparison(left, right)?;
        let ordered = |is: fn(Ordering) -> bool| {
            let numbers = left.as_float().zip(right.as_float());
            if numbers.is_some_and(|(a, b)| a.is_nan() || b.is_nan()) {
                return Ok(false);
            }
            left.order(right).map(is).ok_or_else(|| {
                let error = missing(left).or_else(|| missing(right));
                error
                    .unwrap_or_else(|| Error::failed(format!("a {} and a {} have no order", left.kind(), right.kind())))
            })
        };
        match comparison {
            Comparison::Equal => Ok(left.equals(right)),
            Comparison::NotEqual => Ok(!left.equals(right)),
            Comparison::Less => ordered(Ordering::is_lt),
            Comparison::LessOrEqual => ordered(Ordering::is_le),
            Comparison::Greater => ordered(Ordering::is_gt),
            Comparison::GreaterOrEqual => ordered(Ordering::is_ge),
            Comparison::In => self.contains(right, left),
            Comparison::NotIn => Ok(!self.contains(right, left)?),
        }
    }

    /// Counts what a comparison looks at.
    pub fn spend_comparison(&mut self, left: &Value, right: &Value) -> Result<(), Error> {
        self.spend_value(left)?;
        self.spend_value(right)
    }

    /// `item in value`.
    pub fn contains(&mut self, value: &Value, item: &Value) -> Result<bool, Error> {
        match (value, item) {
            (Value::Text(text), Value::Text(part)) => Ok(text::find(text.chars(), part.chars(), 0).is_some()),
            (Value::Text(_), other) => {
                let error = missing(other);
                Err(error.unwrap_or_else(|| {
                    Error::failed(format!("only a text can be searched for in a text, not a {}", other.kind()))
                }))
            }
            (Value::Dict(_), Value::List(_) | Value::Dict(_)) => {
                Err(Error::failed(format!("a {} cannot be a key of a dictionary", item.kind())))
            }
            (Value::Dict(dict), key) => Ok(dict.get(key).is_some()),
            (Value::Undefined(_), _) => Ok(false),
            (Value::Made(Made::Iterator(_)), _) => Ok(self.iterate(value)?.iter().any(|found| found.equals(item))),
            (other, item) => match other.as_items() {
                Some(items) => Ok(items.iter().any(|found| found.equals(item))),
                None => Err(Error::failed(format!("a {} cannot be searched with 'in'", other.kind()))),
            },
        }
    }
}

fn sign(operator: Operator) -> &'static str {
    match operator {
        Operator::Add => "+",
        Operator::Subtract => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::FloorDivide => "//",
        Operator::Modulo => "%",
        Operator::Power => "**",
    }
}

#[allow(clippy::cast_precision_loss)]
fn whole(a: i128, operator: Operator, b: i128) -> Result<Value, Error> {
    let zero = || Error::failed("division by zero");
    let made = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide => return float(a as f64, operator, b as f64),
        Operator::FloorDivide | Operator::Modulo if b == 0 => return Err(zero()),
        Operator::FloorDivide => number::int_division(a, b).map(|(quotient, _)| quotient),
        Operator::Modulo => number::int_division(a, b).map(|(_, rest)| rest),
        Operator::Power if b < 0 => return float(a as f64, operator, b as f64),
        Operator::Power => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
    };
    made.map(Value::Int).ok_or_else(too_large)
}

fn float(a: f64, operator: Operator, b: f64) -> Result<Value, Error> {
    let divides = matches!(operator, Operator::Divide | Operator::FloorDivide | Operator::Modulo);
    if divides && b == 0.0 || operator == Operator::Power && a == 0.0 && b < 0.0 {
        return Err(Error::failed("division by zero"));
    }
    Ok(Value::Float(match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        Operator::FloorDivide => ((a - number::float_modulo(a, b)) / b).round(),
        Operator::Modulo => number::float_modulo(a, b),
        Operator::Power => {
            let power = a.powf(b);
            if power.is_infinite() && a.is_finite() && b.is_finite() {
                return Err(too_large());
            }
            power
        }
    }))
}
