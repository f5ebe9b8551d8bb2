//! Filters of lists.

use std::cmp::Ordering;

use crate::Error;
use crate::filters::{size, truth, whole};
use crate::functions::Args;
use crate::machine::Machine;
use crate::methods::cased;
use crate::text::Char;
use crate::value::{Made, Value};

/// What stands for a value in an order: of texts their small letters, where these are the same.
fn folded(value: &Value, case_sensitive: bool) -> Value {
    match value {
        Value::Text(text) if !case_sensitive => Value::Text(cased(text.chars(), "lower").into()),
        other => other.clone(),
    }
}

/// How many levels a filter that `map` applies counts as: its frames are as large.
const MAP_LEVELS: usize = 8;

impl Machine<'_> {
    #[inline(never)]
    pub fn list_filter(&mut self, name: &str, value: Value, args: Args) -> Result<Value, Error> {
        match name {
            "list" => {
                let items = self.iterate(&value)?;
                self.list(items)
            }
            "first" => {
                if let Value::Made(Made::Iterator(items)) = &value {
                    let first = items.left.borrow_mut().pop_front();
                    return Ok(first.unwrap_or_else(|| Value::undefined("No first item, sequence was empty.")));
                }
                let first = self.iterate(&value)?.into_iter().next();
                Ok(first.unwrap_or_else(|| Value::undefined("No first item, sequence was empty.")))
            }
            "last" if matches!(value, Value::Made(Made::Iterator(_))) => {
                Err(Error::failed("'generator' object is not reversible"))
            }
            "last" => {
                let last = self.iterate(&value)?.pop();
                Ok(last.unwrap_or_else(|| Value::undefined("No last item, sequence was empty.")))
            }
            "reverse" => match &value {
                Value::Text(text) => Ok(Value::Text(text.chars().iter().rev().copied().collect())),
                other => {
                    let items = self.iterate(other)?.into_iter().rev().collect();
                    self.iterator("list_reverseiterator object", items)
                }
            },
            "items" => match &value {
                Value::Undefined(_) => self.iterator("generator object do_items", Vec::new()),
                Value::Dict(dict) => {
                    let pairs =
                        dict.entries().iter().map(|(key, value)| Value::tuple(vec![key.clone(), value.clone()]));
                    let pairs = pairs.collect();
                    self.iterator("generator object do_items", pairs)
                }
                _ => Err(Error::failed("can only get item pairs from a mapping")),
            },
            "join" => self.join(&value, args),
            "map" => self.map(&value, args),
            "select" | "reject" | "selectattr" | "rejectattr" => self.select(name, &value, args),
            "sort" => {
                let [reverse, case, attribute] = args.bind("sort", ["reverse", "case_sensitive", "attribute"])?;
                let items = self.sorted(&value, attribute.as_ref(), truth(case), truth(reverse))?;
                self.list(items)
            }
            "min" | "max" => {
                let [case, attribute] = args.bind(name, ["case_sensitive", "attribute"])?;
                let items = self.iterate(&value)?;
                let keys = self.keys(&items, attribute.as_ref(), truth(case))?;
                let mut best: Option<(&Value, &Value)> = None;
                for (key, item) in keys.iter().zip(&items) {
                    let better = match best {
                        None => true,
                        Some((found, _)) => {
                            let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
                            ordered(key, found)? == wanted
                        }
                    };
                    if better {
                        best = Some((key, item));
                    }
                }
                Ok(best.map_or_else(
                    || Value::undefined("No aggregated item, sequence was empty."),
                    |(_, item)| item.clone(),
                ))
            }
            "unique" => {
                let [case, attribute] = args.bind("unique", ["case_sensitive", "attribute"])?;
                let items = self.iterate(&value)?;
                let keys = self.keys(&items, attribute.as_ref(), truth(case))?;
                let (mut seen, mut out): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
                for (key, item) in keys.into_iter().zip(items) {
                    self.spend_keys(seen.len().saturating_mul(2), key.extent().size)?;
                    if !seen.iter().any(|found| found.equals(&key)) {
                        seen.push(key);
                        out.push(item);
                    }
                }
                self.iterator("generator object do_unique", out)
            }
            "groupby" => {
                let [attribute, default, case] = args.bind("groupby", ["attribute", "default", "case_sensitive"])?;
                self.groups(&value, attribute, default, truth(case))
            }
            "dictsort" => self.dict_sort(&value, args),
            "sum" => {
                let [attribute, start] = args.bind("sum", ["attribute", "start"])?;
                let mut total = start.unwrap_or(Value::Int(0));
                if matches!(total, Value::Text(_)) {
                    return Err(Error::failed("sum() can't sum strings"));
                }
                for item in self.iterate(&value)? {
                    let item = self.at_path(&item, attribute.as_ref())?;
                    total = self.operated(&total, crate::ast::Operator::Add, &item)?;
                }
                Ok(total)
            }
            "batch" => {
                let [length, fill] = args.bind("batch", ["linecount", "fill_with"])?;
                let length = size(length, 0)?.max(1);
                let items = self.iterate(&value)?;
                let mut rows: Vec<Vec<Value>> = items.chunks(length).map(<[Value]>::to_vec).collect();
                if let (Some(fill), Some(last)) = (fill.filter(|fill| !matches!(fill, Value::None)), rows.last_mut()) {
                    self.spend_list(length)?;
                    last.resize(length, fill);
                }
                let rows = rows.into_iter().map(Value::list).collect();
                self.iterator("generator object do_batch", rows)
            }
            "slice" => {
                let [slices, fill] = args.bind("slice", ["slices", "fill_with"])?;
                let fill = fill.filter(|fill| !matches!(fill, Value::None));
                let (items, slices) = (self.iterate(&value)?, size(slices, 0)?);
                self.spend_list(slices)?;
                let Some(each) = items.len().checked_div(slices) else { return Err(Error::failed("division by zero")) };
                let longer = items.len().checked_rem(slices).unwrap_or(0);
                let (mut out, mut rest) = (Vec::new(), items.as_slice());
                for at in 0..slices {
                    let (head, tail) =
                        rest.split_at_checked(each.saturating_add(usize::from(at < longer))).unwrap_or_default();
                    let mut part = head.to_vec();
                    if longer > 0 && at >= longer {
                        part.extend(fill.clone());
                    }
                    out.push(Value::list(part));
                    rest = tail;
                }
                self.iterator("generator object do_slice", out)
            }
            other => Err(Error::failed(format!("No filter named '{other}'."))),
        }
    }

    fn join(&mut self, value: &Value, args: Args) -> Result<Value, Error> {
        let [separator, attribute] = args.bind("join", ["d", "attribute"])?;
        let separator = separator.map_or(Ok(Vec::new()), |separator| self.str(&separator))?;
        let mut out: Vec<Char> = Vec::new();
        for (at, item) in self.iterate(value)?.iter().enumerate() {
            let item = self.at_path(item, attribute.as_ref())?;
            self.push(&mut out, if at > 0 { &separator } else { &[] })?;
            let text = self.str(&item)?;
            self.push(&mut out, &text)?;
        }
        Ok(Value::Text(out.into()))
    }

    /// `a.b.0` of a value; the value itself where nothing is named.
    fn at_path(&mut self, value: &Value, path: Option<&Value>) -> Result<Value, Error> {
        let Some(path) = path.filter(|path| !matches!(path, Value::None)) else { return Ok(value.clone()) };
        let Some(text) = path.as_text() else { return self.item(value, path) };
        self.spend_value(path)?;
        let mut at = value.clone();
        for part in text.to_string().split('.') {
            let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            let key = part.parse().ok().filter(|_| is_number).map_or_else(|| Value::own(part), Value::Int);
            at = self.item(&at, &key)?;
        }
        Ok(at)
    }

    fn keys(&mut self, items: &[Value], attribute: Option<&Value>, case: bool) -> Result<Vec<Value>, Error> {
        let mut keys = Vec::with_capacity(items.len());
        for item in items {
            let key = self.at_path(item, attribute)?;
            self.spend_value(&key)?;
            keys.push(folded(&key, case));
        }
        Ok(keys)
    }

    fn sorted(
        &mut self,
        value: &Value,
        attribute: Option<&Value>,
        case: bool,
        reverse: bool,
    ) -> Result<Vec<Value>, Error> {
        let items = self.iterate(value)?;
        // Several attributes with commas between them are looked at one after the other.
        let paths: Vec<Option<Value>> = match attribute.and_then(Value::as_text) {
            Some(text) => text.to_string().split(',').map(|path| Some(Value::own(path))).collect(),
            None => vec![attribute.cloned()],
        };
        let mut keyed = Vec::with_capacity(items.len());
        for item in items {
            let mut keys = Vec::new();
            for path in &paths {
                keys.extend(self.keys(std::slice::from_ref(&item), path.as_ref(), case)?);
            }
            self.spend_value(&item)?;
            keyed.push((keys, item));
        }
        // The number of comparisons that each key takes part in, about.
        let rounds = usize::try_from(keyed.len().checked_ilog2().unwrap_or(0)).unwrap_or(0);
        for (keys, _) in &keyed {
            let size = keys.iter().fold(0usize, |sum, key| sum.saturating_add(key.extent().size));
            self.spend_keys(rounds.saturating_mul(8), size)?;
        }
        let mut wrong = None;
        keyed.sort_by(|(a, _), (b, _)| {
            let different = a.iter().zip(b).find(|(a, b)| !a.equals(b));
            let order = different.map_or(Ok(Ordering::Equal), |(a, b)| ordered(a, b));
            let order = order.unwrap_or_else(|error| {
                wrong = Some(error);
                Ordering::Equal
            });
            if reverse { order.reverse() } else { order }
        });
        match wrong {
            Some(error) => Err(error),
            None => Ok(keyed.into_iter().map(|(_, item)| item).collect()),
        }
    }

    /// Nothing and what is empty have no values for some filters, of whatever kind they are.
    fn iterate_if_true(&mut self, value: &Value) -> Result<Vec<Value>, Error> {
        if value.is_true() { self.iterate(value) } else { Ok(Vec::new()) }
    }

    fn map(&mut self, value: &Value, mut args: Args) -> Result<Value, Error> {
        let items = self.iterate_if_true(value)?;
        let mut out = Vec::with_capacity(items.len());
        if args.positional.is_empty() {
            let (attribute, default) = (args.take("attribute"), args.take("default"));
            if attribute.is_none() || !args.named.is_empty() {
                return Err(Error::failed("map requires a filter argument"));
            }
            for item in items {
                let found = self.at_path(&item, attribute.as_ref())?;
                out.push(default.clone().filter(|_| found.is_undefined()).unwrap_or(found));
            }
            return self.iterator("generator object sync_do_map", out);
        }
        let name = args.positional.remove(0);
        let name = name.as_text().map(ToString::to_string).unwrap_or_default();
        for item in items {
            let args = Args { positional: args.positional.clone(), named: args.named.clone() };
            // A filter may be `map` again.
            (0..MAP_LEVELS).try_for_each(|_| self.enter())?;
            let made = self.filter(&name, item, args)?;
            (0..MAP_LEVELS).for_each(|_| self.leave());
            out.push(made);
        }
        self.iterator("generator object sync_do_map", out)
    }

    fn select(&mut self, name: &str, value: &Value, mut args: Args) -> Result<Value, Error> {
        let by_attribute = name.ends_with("attr");
        let mut attribute = None;
        if by_attribute {
            if args.positional.is_empty() {
                return Err(Error::failed(format!("{name} requires an attribute")));
            }
            attribute = Some(args.positional.remove(0));
        }
        let test = if args.positional.is_empty() { None } else { Some(args.positional.remove(0)) };
        let test = test.map(|test| test.as_text().map(ToString::to_string).unwrap_or_default());
        let mut out = Vec::new();
        for item in self.iterate_if_true(value)? {
            let judged = self.at_path(&item, attribute.as_ref())?;
            let holds = match &test {
                None => judged.is_true(),
                Some(test) => {
                    let args = Args { positional: args.positional.clone(), named: args.named.clone() };
                    self.test(test, &judged, args)?
                }
            };
            out.extend((holds == name.starts_with("select")).then_some(item));
        }
        self.iterator("generator object select_or_reject", out)
    }

    fn groups(
        &mut self,
        value: &Value,
        path: Option<Value>,
        default: Option<Value>,
        case: bool,
    ) -> Result<Value, Error> {
        let path = path.ok_or_else(|| Error::failed("groupby requires an attribute"))?;
        let items = self.iterate(value)?;
        let several = items.len() > 1;
        let mut keyed = Vec::new();
        for item in items {
            let key = self.at_path(&item, Some(&path))?;
            let key = default.clone().filter(|_| key.is_undefined()).unwrap_or(key);
            if let (Value::Undefined(what), true) = (&key, several) {
                return Err(Error::failed(&**what));
            }
            self.spend_value(&key)?;
            keyed.push(Value::tuple(vec![folded(&key, case), key, item]));
        }
        let sorted = self.sorted(&Value::list(keyed), Some(&Value::Int(0)), true, false)?;
        let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
        for entry in sorted {
            let Some([order, key, item]) = entry.as_items().and_then(|items| <&[Value; 3]>::try_from(items).ok())
            else {
                continue;
            };
            match groups.last_mut() {
                Some((last, _, group)) if last.equals(order) => group.push(item.clone()),
                _ => groups.push((order.clone(), key.clone(), vec![item.clone()])),
            }
        }
        let groups = groups.into_iter().map(|(_, key, group)| Value::tuple(vec![key, Value::list(group)])).collect();
        self.list(groups)
    }

    fn dict_sort(&mut self, value: &Value, args: Args) -> Result<Value, Error> {
        let [case, by, reverse] = args.bind("dictsort", ["case_sensitive", "by", "reverse"])?;
        let Value::Dict(dict) = value else { return Err(Error::failed("dictsort takes a dictionary")) };
        let at = match by.as_ref().and_then(Value::as_text).map(ToString::to_string).as_deref() {
            None | Some("key") => 0,
            Some("value") => 1,
            Some(_) => return Err(Error::failed("You can only sort by either \"key\" or \"value\"")),
        };
        let pairs = dict.entries().iter().map(|(key, value)| Value::tuple(vec![key.clone(), value.clone()])).collect();
        let pairs = self.list(pairs)?;
        let sorted = self.sorted(&pairs, Some(&Value::Int(at)), truth(case), truth(reverse))?;
        self.list(sorted)
    }
}

fn ordered(a: &Value, b: &Value) -> Result<Ordering, Error> {
    a.order(b).ok_or_else(|| Error::failed(format!("a {} and a {} have no order", a.kind(), b.kind())))
}

/// The number that `divisibleby` and the like take.
pub fn number_of(args: Args, test: &str) -> Result<i128, Error> {
    let [number] = args.bind(test, ["num"])?;
    whole(number, 0)
}
