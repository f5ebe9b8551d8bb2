//! Tests: what stands behind `is`.

use crate::Error;
use crate::ast::Comparison;
use crate::filters;
use crate::functions::Args;
use crate::lists::number_of;
use crate::machine::Machine;
use crate::value::{Made, Value};

/// All tests.
const NAMES: [&str; 39] = [
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

impl Machine<'_> {
    #[inline(never)]
    pub fn test(&mut self, name: &str, value: &Value, args: Args) -> Result<bool, Error> {
        self.spend_args(&args)?;
        let comparison = match name {
            "==" | "eq" | "equalto" => Some(Comparison::Equal),
            "!=" | "ne" => Some(Comparison::NotEqual),
            "<" | "lt" | "lessthan" => Some(Comparison::Less),
            "<=" | "le" => Some(Comparison::LessOrEqual),
            ">" | "gt" | "greaterthan" => Some(Comparison::Greater),
            ">=" | "ge" => Some(Comparison::GreaterOrEqual),
            "in" => Some(Comparison::In),
            _ => None,
        };
        if let Some(comparison) = comparison {
            let [other] = args.bind(name, ["other"])?;
            let other = other.ok_or_else(|| Error::failed(format!("the test '{name}' takes a value")))?;
            return self.compared(value, comparison, &other);
        }
        match name {
            "divisibleby" | "odd" | "even" => {
                let by = if name == "divisibleby" { number_of(args, name)? } else { 2 };
                let rest = self.operated(value, crate::ast::Operator::Modulo, &Value::Int(by))?;
                return Ok(rest.equals(&Value::Int(i128::from(name == "odd"))));
            }
            "sameas" => {
                let [other] = args.bind("sameas", ["other"])?;
                let other = other.ok_or_else(|| Error::failed("the test 'sameas' takes a value"))?;
                self.spend_comparison(value, &other)?;
                return Ok(value.kind() == other.kind() && value.equals(&other));
            }
            _ if !args.positional.is_empty() || !args.named.is_empty() => {
                return Err(Error::failed(format!("the test '{name}' takes no value")));
            }
            "lower" | "upper" => {
                let text = Value::Text(self.str(value)?.into());
                let judged = self.method(&text, if name == "lower" { "islower" } else { "isupper" }, Args::none())?;
                return Ok(judged.is_true());
            }
            "filter" | "test" => {
                let wanted = self.str(value)?.iter().map(|c| c.get()).collect::<String>();
                return Ok(if name == "filter" {
                    filters::is_known(&wanted)
                } else {
                    NAMES.contains(&wanted.as_str())
                });
            }
            _ => {}
        }
        Ok(match name {
            "defined" => !value.is_undefined(),
            "undefined" => value.is_undefined(),
            "none" => matches!(value, Value::None),
            "boolean" => matches!(value, Value::Bool(_)),
            "true" => matches!(value, Value::Bool(true)),
            "false" => matches!(value, Value::Bool(false)),
            "integer" => matches!(value, Value::Int(_)),
            "float" => matches!(value, Value::Float(_)),
            "number" => matches!(value, Value::Bool(_) | Value::Int(_) | Value::Float(_)),
            "string" => matches!(value, Value::Text(_)),
            "mapping" => matches!(value, Value::Dict(_)),
            "sequence" => match value {
                Value::Made(Made::View(view)) => view.is_range,
                Value::Undefined(_) | Value::Text(_) | Value::Dict(_) | Value::List(_) | Value::Tuple(_) => true,
                _ => false,
            },
            "iterable" => Self::is_iterable(value),
            "callable" => filters::is_callable(value),
            "escaped" => false,
            other => return Err(Error::failed(format!("No test named '{other}'."))),
        })
    }
}
