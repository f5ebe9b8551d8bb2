//! Blocks of a template.

use crate::Error;
use crate::ast::{Action, Filters, For, Macro, Parameters, Statement, Takes, Target};
use crate::lexer::Token;
use crate::parser::Parser;
use crate::text::Text;

/// Blocks that need other templates, of which a model file has none.
const OF_OTHERS: [&str; 4] = ["include", "import", "from", "extends"];

impl Parser<'_> {
    /// The whole template.
    pub fn template(&mut self) -> Result<Vec<Statement>, Error> {
        let (body, end) = self.body(&[])?;
        match end {
            None => Ok(body),
            Some(_) => self.unexpected("no end"),
        }
    }

    /// Statements up to a block of one of these names, which is passed.
    fn body(&mut self, ends: &[&str]) -> Result<(Vec<Statement>, Option<String>), Error> {
        self.deeper(|parser| parser.statements(ends))
    }

    #[inline(never)]
    fn statements(&mut self, ends: &[&str]) -> Result<(Vec<Statement>, Option<String>), Error> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let action = match self.peek() {
                None if ends.is_empty() => return Ok((body, None)),
                None => return self.unexpected(&format!("'{}'", ends.join("' or '"))),
                Some(Token::Data(text)) => {
                    self.next();
                    Action::Text(Text::own(text))
                }
                Some(Token::PrintBegin) => {
                    self.next();
                    let value = self.tuple(true, None)?;
                    self.end(Token::PrintEnd, "'}}'")?;
                    Action::Print(value)
                }
                Some(Token::BlockBegin) => {
                    self.next();
                    if let Some(Token::Name(name)) = self.peek()
                        && ends.contains(&name.as_str())
                    {
                        self.next();
                        return Ok((body, Some(name.clone())));
                    }
                    match self.block()? {
                        Blocks::One(action) => action,
                        Blocks::Inline(inner) => {
                            body.extend(inner);
                            continue;
                        }
                    }
                }
                Some(_) => return self.unexpected("text or a block"),
            };
            body.push(Statement { line, action });
        }
    }

    fn end(&mut self, token: Token, name: &str) -> Result<(), Error> {
        if self.peek() == Some(&token) {
            self.next();
            return Ok(());
        }
        self.unexpected(name)
    }

    fn block_end(&mut self) -> Result<(), Error> {
        self.end(Token::BlockEnd, "'%}'")
    }

    /// The body of a block, behind its head, and its end.
    #[inline(never)]
    fn closed(&mut self, end: &str) -> Result<Vec<Statement>, Error> {
        self.block_end()?;
        let (body, _) = self.body(&[end])?;
        self.block_end()?;
        Ok(body)
    }

    fn block(&mut self) -> Result<Blocks, Error> {
        let line = self.line();
        let name = self.name()?;
        let action = match name.as_str() {
            "for" => self.for_loop()?,
            "if" => self.condition()?,
            "set" => self.set()?,
            "with" => {
                let mut values = Vec::new();
                while self.peek() != Some(&Token::BlockEnd) {
                    if !values.is_empty() {
                        self.sign(",")?;
                    }
                    let target = self.target(false, false)?;
                    self.sign("=")?;
                    values.push((target, self.expression()?));
                }
                Action::With(values, self.closed("endwith")?)
            }
            // What a model learns from is no matter here; the scope of the block is.
            "generation" => Action::With(Vec::new(), self.closed("endgeneration")?),
            "block" => {
                let name = self.name()?;
                while self.takes_name("scoped") || self.takes_name("required") {}
                self.block_end()?;
                let (body, _) = self.body(&["endblock"])?;
                self.takes_name(&name);
                self.block_end()?;
                Action::With(Vec::new(), body)
            }
            "autoescape" => {
                let enabled = self.expression()?;
                let is_off = matches!(&enabled.kind, crate::ast::Kind::Constant(crate::ast::Constant::Bool(false)));
                if !is_off {
                    return Err(Error::syntax("autoescape can only be turned off here", line));
                }
                Action::With(Vec::new(), self.closed("endautoescape")?)
            }
            "filter" => {
                let filters = self.filters()?;
                Action::Filter(filters, self.closed("endfilter")?)
            }
            "macro" => {
                let name = self.name()?;
                let parameters = self.parameters()?;
                Action::Macro(self.macro_body(name, parameters, "endmacro")?)
            }
            "call" => {
                let parameters = if self.is_sign("(") { self.parameters()? } else { Parameters::default() };
                let call = self.expression()?;
                Action::Call(call, self.macro_body("caller".into(), parameters, "endcall")?)
            }
            "do" => self.closed_line(|parser| parser.tuple(true, None).map(Action::Do))?,
            "print" => {
                let mut inner = Vec::new();
                while self.peek() != Some(&Token::BlockEnd) {
                    if !inner.is_empty() {
                        self.sign(",")?;
                    }
                    inner.push(Statement { line, action: Action::Print(self.expression()?) });
                }
                self.block_end()?;
                return Ok(Blocks::Inline(inner));
            }
            "break" => self.closed_line(|_| Ok(Action::Break))?,
            "continue" => self.closed_line(|_| Ok(Action::Continue))?,
            other if OF_OTHERS.contains(&other) => {
                return Err(Error::syntax(
                    format!("'{other}' needs another template, and a model file has only one"),
                    line,
                ));
            }
            other => return Err(Error::syntax(format!("a block '{other}' is not known"), line)),
        };
        Ok(Blocks::One(action))
    }

    fn closed_line(&mut self, inner: impl FnOnce(&mut Self) -> Result<Action, Error>) -> Result<Action, Error> {
        let action = inner(self)?;
        self.block_end()?;
        Ok(action)
    }

    #[inline(never)]
    fn for_loop(&mut self) -> Result<Action, Error> {
        let target = self.target(false, true)?;
        if !self.takes_name("in") {
            return self.unexpected("'in'");
        }
        let over = self.tuple(false, Some("recursive"))?;
        let condition = if self.takes_name("if") { Some(self.expression()?) } else { None };
        let recursive = self.takes_name("recursive");
        self.block_end()?;
        let (body, end) = self.body(&["endfor", "else"])?;
        self.block_end()?;
        let mut otherwise = Vec::new();
        if end.as_deref() == Some("else") {
            otherwise = self.body(&["endfor"])?.0;
            self.block_end()?;
        }
        Ok(Action::For(Box::new(For { target, over, condition, recursive, body, otherwise })))
    }

    #[inline(never)]
    fn condition(&mut self) -> Result<Action, Error> {
        let (mut branches, mut otherwise) = (Vec::new(), Vec::new());
        loop {
            let condition = self.tuple(false, None)?;
            self.block_end()?;
            let (body, end) = self.body(&["elif", "else", "endif"])?;
            branches.push((condition, body));
            match end.as_deref() {
                Some("elif") => {}
                Some("else") => {
                    self.block_end()?;
                    otherwise = self.body(&["endif"])?.0;
                    break;
                }
                _ => break,
            }
        }
        self.block_end()?;
        Ok(Action::If(branches, otherwise))
    }

    #[inline(never)]
    fn set(&mut self) -> Result<Action, Error> {
        let target = self.target(true, true)?;
        if self.takes_sign("=") {
            let value = self.tuple(true, None)?;
            self.block_end()?;
            return Ok(Action::Set(target, value));
        }
        let filters = if self.takes_sign("|") { self.filters()? } else { Filters::new() };
        Ok(Action::SetBlock(target, filters, self.closed("endset")?))
    }

    #[inline(never)]
    fn filters(&mut self) -> Result<Filters, Error> {
        let mut filters = vec![self.filter()?];
        while self.takes_sign("|") {
            filters.push(self.filter()?);
        }
        Ok(filters)
    }

    #[inline(never)]
    fn target(&mut self, members: bool, tuples: bool) -> Result<Target, Error> {
        let first = self.one_target(members)?;
        if !tuples || !self.is_sign(",") {
            return Ok(first);
        }
        let mut targets = vec![first];
        while self.takes_sign(",") {
            if self.is_name("in") || self.is_sign("=") {
                break;
            }
            targets.push(self.one_target(members)?);
        }
        Ok(Target::Tuple(targets))
    }

    #[inline(never)]
    fn one_target(&mut self, members: bool) -> Result<Target, Error> {
        if self.takes_sign("(") {
            let inner = self.deeper(|parser| parser.target(members, true))?;
            self.sign(")")?;
            return Ok(inner);
        }
        let name = self.name()?;
        if ["true", "false", "none", "True", "False", "None"].contains(&name.as_str()) {
            return Err(Error::syntax(format!("nothing can be assigned to {name}"), self.line()));
        }
        if members && self.takes_sign(".") {
            return Ok(Target::Member(name, self.name()?));
        }
        Ok(Target::Name(name))
    }

    #[inline(never)]
    fn parameters(&mut self) -> Result<Parameters, Error> {
        self.sign("(")?;
        let mut parameters = Parameters::default();
        while !self.takes_sign(")") {
            if !parameters.names.is_empty() {
                self.sign(",")?;
                // A comma at the end.
                if self.takes_sign(")") {
                    break;
                }
            }
            parameters.names.push(self.name()?);
            if self.takes_sign("=") {
                parameters.defaults.push(self.expression()?);
            } else if !parameters.defaults.is_empty() {
                return self.unexpected("a default, as the parameters before it have");
            }
        }
        Ok(parameters)
    }

    #[inline(never)]
    fn macro_body(&mut self, name: String, parameters: Parameters, end: &str) -> Result<Macro, Error> {
        let begin = self.place();
        let body = self.closed(end)?;
        let names =
            |wanted: &str| self.names_since(begin, wanted) && !parameters.names.iter().any(|name| name == wanted);
        let takes = Takes { caller: names("caller"), varargs: names("varargs"), kwargs: names("kwargs") };
        Ok(Macro { name, parameters, body, takes })
    }
}

enum Blocks {
    One(Action),
    Inline(Vec<Statement>),
}
