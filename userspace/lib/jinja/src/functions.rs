//! Functions that templates may call, and arguments of all calls.

use std::rc::Rc;

use crate::machine::Machine;
use crate::statements::set_member;
use crate::text::Text;
use crate::value::{Made, Value, View};
use crate::{Error, ErrorKind, Host};

/// As many numbers as a range may have where templates are foreign.
const RANGE: i128 = 100_000;

/// Arguments of a call.
#[derive(Debug, Default)]
pub struct Args {
    pub positional: Vec<Value>,
    /// Names keep who wrote them: those of `**` may be foreign.
    pub named: Vec<(Text, Value)>,
}

impl Args {
    pub fn none() -> Self {
        Self::default()
    }

    /// Takes a named argument out.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.named.iter().position(|(found, _)| found.is(name))?;
        Some(self.named.remove(at).1)
    }

    /// The values of a function's parameters.
    ///
    /// # Errors
    /// An argument that it does not take, or twice the same.
    pub fn bind<const N: usize>(mut self, function: &str, names: [&str; N]) -> Result<[Option<Value>; N], Error> {
        let given = self.positional.len();
        if given > N {
            return Err(Error::failed(format!("{function} takes {N} arguments and was called with {given}")));
        }
        let mut positional = std::mem::take(&mut self.positional).into_iter();
        let mut bound = [const { None }; N];
        for (place, name) in bound.iter_mut().zip(names) {
            let (first, named) = (positional.next(), self.take(name));
            if first.is_some() && named.is_some() {
                return Err(Error::failed(format!("{function} was given '{name}' twice")));
            }
            *place = first.or(named);
        }
        match self.named.first() {
            Some((unknown, _)) => Err(Error::failed(format!("{function} takes no argument '{unknown}'"))),
            None => Ok(bound),
        }
    }
}

/// The function of a name.
pub fn named(name: &str, host: Host) -> Option<&'static str> {
    let known = ["range", "dict", "namespace", "cycler", "joiner", "raise_exception"];
    if name == "strftime_now" {
        return host.now.map(|_| "strftime_now");
    }
    known.into_iter().find(|known| *known == name)
}

impl Machine<'_> {
    #[inline(never)]
    pub fn call_function(&mut self, name: &str, mut args: Args) -> Result<Value, Error> {
        match name {
            "range" => self.range(args),
            "dict" => {
                let mut entries = self.pairs(&mut args)?;
                entries.extend(
                    std::mem::take(&mut args.named).into_iter().map(|(name, value)| (Value::Text(name), value)),
                );
                self.dict(entries)
            }
            "namespace" => {
                let mut members = Vec::new();
                for (key, value) in self.pairs(&mut args)? {
                    self.spend_keys(members.len(), key.extent().size)?;
                    set_member(&mut members, &key.as_text().map(ToString::to_string).unwrap_or_default(), value);
                }
                for (name, value) in args.named {
                    self.spend_keys(members.len(), name.chars().len())?;
                    set_member(&mut members, &name.to_string(), value);
                }
                self.namespaces.push(members);
                Ok(Value::Made(Made::Namespace(self.namespaces.len().saturating_sub(1))))
            }
            "cycler" => {
                if args.positional.is_empty() {
                    return Err(Error::failed("at least one item has to be provided to cycler"));
                }
                self.cyclers.push((args.positional, 0));
                Ok(Value::Made(Made::Cycler(self.cyclers.len().saturating_sub(1))))
            }
            "joiner" => {
                let [separator] = args.bind("joiner", ["sep"])?;
                self.joiners.push((separator.unwrap_or_else(|| Value::own(", ")), false));
                Ok(Value::Made(Made::Joiner(self.joiners.len().saturating_sub(1))))
            }
            "strftime_now" => {
                let [format] = args.bind("strftime_now", ["format"])?;
                self.time(format.as_ref())
            }
            _ => {
                let [message] = args.bind("raise_exception", ["message"])?;
                let mut text = Vec::new();
                crate::repr::str(&message.unwrap_or(Value::None), &mut text);
                let message = text.iter().map(|c| c.get()).collect();
                Err(Error { kind: ErrorKind::Raised, message, line: None })
            }
        }
    }

    /// The entries of the dictionary, or the pairs, that a function was given.
    fn pairs(&mut self, args: &mut Args) -> Result<Vec<(Value, Value)>, Error> {
        let mut entries = Vec::new();
        for given in std::mem::take(&mut args.positional) {
            if let Value::Dict(dict) = &given {
                self.spend_list(dict.entries().len())?;
                entries.extend_from_slice(dict.entries());
                continue;
            }
            for pair in self.iterate(&given)? {
                match <[Value; 2]>::try_from(self.iterate(&pair)?) {
                    Ok([key, value]) => entries.push((key, value)),
                    Err(_) => return Err(Error::failed("a dictionary must be made of pairs")),
                }
            }
        }
        Ok(entries)
    }

    /// A dictionary, where the last of several values of a key counts.
    #[inline(never)]
    pub fn dict(&mut self, entries: Vec<(Value, Value)>) -> Result<Value, Error> {
        self.spend_list(entries.len())?;
        let mut out: Vec<(Value, Value)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            if matches!(key, Value::List(_) | Value::Dict(_)) {
                return Err(Error::failed(format!("a {} cannot be a key of a dictionary", key.kind())));
            }
            self.spend_keys(out.len(), key.extent().size)?;
            match out.iter_mut().find(|(found, _)| found.equals(&key)) {
                Some((_, old)) => *old = value,
                None => out.push((key, value)),
            }
        }
        self.checked(Value::dict(out))
    }

    fn range(&mut self, args: Args) -> Result<Value, Error> {
        let wrong = || Error::failed("range takes one to three whole numbers, and its step is not 0");
        let numbers: Option<Vec<i128>> = args.positional.iter().map(Value::as_int).collect();
        let numbers = numbers.filter(|_| args.named.is_empty()).ok_or_else(wrong)?;
        let (start, stop, step) = match *numbers.as_slice() {
            [stop] => (0, stop, 1),
            [start, stop] => (start, stop, 1),
            [start, stop, step] if step != 0 => (start, stop, step),
            _ => return Err(wrong()),
        };
        let mut items = Vec::new();
        let mut at = start;
        while if step > 0 { at < stop } else { at > stop } {
            if items.len() >= usize::try_from(RANGE).unwrap_or(usize::MAX) {
                return Err(Error::limit(format!("a range has more than {RANGE} numbers")));
            }
            items.push(Value::Int(at));
            at = at.saturating_add(step);
        }
        self.spend_list(items.len())?;
        let name =
            if step == 1 { format!("range({start}, {stop})") } else { format!("range({start}, {stop}, {step})") };
        Ok(Value::Made(Made::View(Rc::new(View {
            name,
            items: Rc::new(crate::value::List::new(items)),
            is_range: true,
        }))))
    }

    fn time(&mut self, format: Option<&Value>) -> Result<Value, Error> {
        let format = format.and_then(Value::as_text);
        let format = format.ok_or_else(|| Error::failed("strftime_now takes a date format as a text"))?;
        let is_foreign = format.chars().iter().any(|c| c.is_foreign());
        self.spend_text(format.chars().len().saturating_mul(8))?;
        let format = format.to_string();
        let wrong = |error: jiff::Error| Error::failed(error.to_string());
        let time = jiff::Timestamp::from_second(self.host.now.unwrap_or(0)).map_err(wrong)?;
        let text = jiff::fmt::strtime::format(&format, time).map_err(wrong)?;
        Ok(if is_foreign { Value::foreign(&text) } else { Value::own(&text) })
    }

    /// Calls what a value is.
    #[inline(never)]
    pub fn call(&mut self, callee: &Value, args: Args) -> Result<Value, Error> {
        self.spend_args(&args)?;
        match callee {
            Value::Made(Made::Function(name)) => self.call_function(name, args),
            Value::Made(Made::Macro(at)) => self.call_macro(*at, args),
            Value::Made(Made::Loop(at)) => self.call_loop(*at, args),
            Value::Made(Made::Method(method)) => {
                let (this, name) = &**method;
                match this {
                    Value::Made(Made::Loop(at)) => self.loop_method(*at, name, args),
                    Value::Made(Made::Cycler(at)) => self.cycler_method(*at, name),
                    this => self.method(this, name, args),
                }
            }
            Value::Made(Made::Joiner(at)) => {
                let Some((separator, used)) = self.joiners.get_mut(*at) else { return Ok(Value::own("")) };
                Ok(if std::mem::replace(used, true) { separator.clone() } else { Value::own("") })
            }
            Value::Undefined(what) => Err(Error::failed(&**what)),
            other => Err(Error::failed(format!("a {} cannot be called", other.kind()))),
        }
    }

    fn cycler_method(&mut self, at: usize, name: &str) -> Result<Value, Error> {
        let Some((values, next)) = self.cyclers.get_mut(at) else { return Ok(Value::None) };
        if name == "reset" {
            *next = 0;
            return Ok(Value::None);
        }
        let value = values.get(*next).cloned().unwrap_or(Value::None);
        *next = next.saturating_add(1).checked_rem(values.len()).unwrap_or(0);
        Ok(value)
    }
}
