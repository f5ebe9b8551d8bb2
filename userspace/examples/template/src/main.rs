//! Example: fills in a template. The template is a file of the home directory that the program was granted; the
//! program's arguments are its values.
//!
//! ```text
//! template /home/letter.txt name=Ada plants=fern,rose
//! ```
//!
//! A value with commas is a list. The text is the output.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::process::ExitCode;

use minijinja::{Environment, UndefinedBehavior, Value};

/// The arguments: a name and its value.
fn values(arguments: impl Iterator<Item = String>) -> Result<BTreeMap<String, Value>, String> {
    arguments
        .map(|argument| {
            let (name, value) = argument.split_once('=').ok_or_else(|| format!("`{argument}` is not NAME=VALUE"))?;
            let value = if value.contains(',') { value.split(',').collect() } else { Value::from(value) };
            Ok((name.to_owned(), value))
        })
        .collect()
}

fn fill(template: &str, values: BTreeMap<String, Value>) -> Result<String, String> {
    let mut environment = Environment::new();
    // A missing name is an error, not an empty text.
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.render_str(template, values).map_err(|error| error.to_string())
}

fn run() -> Result<String, String> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("the first argument is the template's file, the others are NAME=VALUE")?;
    let values = values(arguments)?;
    let template = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    fill(&template, values).map_err(|error| format!("{file}: {error}"))
}

fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("template: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_filled_in() {
        let given = ["name=Ada", "plants=fern,rose"].map(str::to_owned).into_iter();
        let text = "Dear {{ name }}, water {% for p in plants %}{{ p }} {% endfor %}";
        assert_eq!(fill(text, values(given).unwrap()).unwrap(), "Dear Ada, water fern rose ");
        assert!(fill("{{ nobody }}", BTreeMap::new()).unwrap_err().contains("undefined"));
        assert!(values(["x".to_owned()].into_iter()).is_err());
    }
}
