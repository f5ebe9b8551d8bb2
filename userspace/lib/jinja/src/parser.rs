//! Expressions of a template.

use crate::Error;
use crate::ast::{Arguments, Comparison, Constant, Expression, Kind, Operator, Step};
use crate::lexer::Token;
use crate::text::Text;

/// How deep parentheses and blocks may lie in each other: rendering goes as deep on the stack.
const DEPTH: usize = 48;

/// The precedence of comparisons; `not` stands before them.
const COMPARISON: u8 = 4;

/// What stands between two expressions.
#[derive(Clone, Copy)]
enum Link {
    Or,
    And,
    Compare(Comparison),
    Operate(Operator),
    Join,
}

/// Two expressions and what is between them; `flat` where the left one is a chain of the same precedence.
#[inline(never)]
fn linked(left: Expression, link: Link, right: Expression, flat: bool) -> Expression {
    let Expression { line, kind } = left;
    let kind = match (kind, link) {
        (Kind::Or(mut parts), Link::Or) if flat => {
            parts.push(right);
            Kind::Or(parts)
        }
        (Kind::And(mut parts), Link::And) if flat => {
            parts.push(right);
            Kind::And(parts)
        }
        (Kind::Join(mut parts), Link::Join) if flat => {
            parts.push(right);
            Kind::Join(parts)
        }
        (Kind::Compare(first, mut others), Link::Compare(comparison)) if flat => {
            others.push((comparison, right));
            Kind::Compare(first, others)
        }
        (Kind::Operate(first, mut others), Link::Operate(operator)) if flat => {
            others.push((operator, right));
            Kind::Operate(first, others)
        }
        (kind, link) => {
            let left = Expression { line, kind };
            match link {
                Link::Or => Kind::Or(vec![left, right]),
                Link::And => Kind::And(vec![left, right]),
                Link::Join => Kind::Join(vec![left, right]),
                Link::Compare(comparison) => Kind::Compare(Box::new(left), vec![(comparison, right)]),
                Link::Operate(operator) => Kind::Operate(Box::new(left), vec![(operator, right)]),
            }
        }
    };
    Expression { line, kind }
}

pub struct Parser<'t> {
    tokens: &'t [(Token, u32)],
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    pub fn new(tokens: &'t [(Token, u32)]) -> Self {
        Self { tokens, at: 0, depth: 0 }
    }

    pub fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn peek_second(&self) -> Option<&'t Token> {
        self.tokens.get(self.at.saturating_add(1)).map(|(token, _)| token)
    }

    pub fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |(_, line)| *line)
    }

    pub fn next(&mut self) -> Option<&'t Token> {
        let token = self.peek();
        self.at = self.at.saturating_add(1);
        token
    }

    /// Runs `inner` a level deeper.
    pub fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > DEPTH {
            let why = format!("more than {DEPTH} parentheses and blocks lie in each other");
            return Err(Error::syntax(why, self.line()));
        }
        let made = inner(self);
        self.depth = self.depth.saturating_sub(1);
        made
    }

    #[inline(never)]
    pub fn unexpected<T>(&self, expected: &str) -> Result<T, Error> {
        let found = match self.peek() {
            None => "the end of the template".to_string(),
            Some(Token::Name(name)) => format!("'{name}'"),
            Some(Token::Sign(sign)) => format!("'{sign}'"),
            Some(Token::Text(text)) => format!("the text {text:?}"),
            Some(Token::Int(number)) => number.to_string(),
            Some(Token::Float(number)) => number.to_string(),
            Some(Token::Data(_)) => "text of the template".into(),
            Some(Token::BlockBegin) => "'{%'".into(),
            Some(Token::BlockEnd) => "'%}'".into(),
            Some(Token::PrintBegin) => "'{{'".into(),
            Some(Token::PrintEnd) => "'}}'".into(),
        };
        Err(Error::syntax(format!("unexpected {found}, where {expected} was expected"), self.line()))
    }

    pub fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(found)) if *found == sign)
    }

    pub fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(found)) if found == name)
    }

    pub fn takes_sign(&mut self, sign: &str) -> bool {
        let takes = self.is_sign(sign);
        self.at = self.at.saturating_add(usize::from(takes));
        takes
    }

    pub fn takes_name(&mut self, name: &str) -> bool {
        let takes = self.is_name(name);
        self.at = self.at.saturating_add(usize::from(takes));
        takes
    }

    pub fn sign(&mut self, sign: &str) -> Result<(), Error> {
        if self.takes_sign(sign) { Ok(()) } else { self.unexpected(&format!("'{sign}'")) }
    }

    pub fn name(&mut self) -> Result<String, Error> {
        match self.peek() {
            Some(Token::Name(name)) => {
                self.next();
                Ok(name.clone())
            }
            _ => self.unexpected("a name"),
        }
    }

    /// An expression with `if` and `else`.
    #[inline(never)]
    pub fn expression(&mut self) -> Result<Expression, Error> {
        self.deeper(|parser| {
            let line = parser.line();
            let value = parser.binary(0)?;
            let mut conditions = Vec::new();
            while parser.takes_name("if") {
                let condition = parser.binary(0)?;
                conditions.push((condition, if parser.takes_name("else") { Some(parser.expression()?) } else { None }));
            }
            if conditions.is_empty() {
                return Ok(value);
            }
            Ok(Expression { line, kind: Kind::Condition(Box::new(value), conditions) })
        })
    }

    /// Several with commas between them are a tuple. `conditions`: whether `if` belongs to it. `end`: a name that ends it.
    #[inline(never)]
    pub fn tuple(&mut self, conditions: bool, end: Option<&str>) -> Result<Expression, Error> {
        let line = self.line();
        let (mut items, mut is_tuple) = (Vec::new(), false);
        while !self.ends_tuple(end) {
            items.push(if conditions { self.expression()? } else { self.deeper(|parser| parser.binary(0))? });
            if !self.takes_sign(",") {
                break;
            }
            is_tuple = true;
        }
        match items.pop() {
            None => self.unexpected("an expression"),
            Some(only) if !is_tuple => Ok(only),
            Some(last) => {
                items.push(last);
                Ok(Expression { line, kind: Kind::Tuple(items) })
            }
        }
    }

    fn ends_tuple(&self, end: Option<&str>) -> bool {
        match self.peek() {
            None | Some(Token::BlockEnd | Token::PrintEnd | Token::Sign(")")) => true,
            Some(Token::Name(name)) => end == Some(name),
            _ => false,
        }
    }

    /// Operators of at least this precedence and what is between them. What is of one precedence stays flat.
    #[inline(never)]
    fn binary(&mut self, least: u8) -> Result<Expression, Error> {
        let line = self.line();
        let mut left = if self.takes_name("not") {
            let inner = self.deeper(|parser| parser.binary(COMPARISON))?;
            Expression { line, kind: Kind::Not(Box::new(inner)) }
        } else {
            self.unary(true)?
        };
        let mut chain = None;
        while let Some((link, precedence)) = self.link().filter(|(_, precedence)| *precedence >= least) {
            self.next();
            if matches!(link, Link::Compare(Comparison::NotIn)) {
                self.next();
            }
            let right = self.deeper(|parser| parser.binary(precedence.saturating_add(1)))?;
            left = linked(left, link, right, chain == Some(precedence));
            chain = Some(precedence);
        }
        Ok(left)
    }

    /// The operator that is next, and its precedence.
    #[inline(never)]
    fn link(&self) -> Option<(Link, u8)> {
        let compare = |comparison| Some((Link::Compare(comparison), COMPARISON));
        match self.peek()? {
            Token::Name(name) => match name.as_str() {
                "or" => Some((Link::Or, 1)),
                "and" => Some((Link::And, 2)),
                "in" => compare(Comparison::In),
                "not" if matches!(self.peek_second(), Some(Token::Name(name)) if name == "in") => {
                    compare(Comparison::NotIn)
                }
                _ => None,
            },
            Token::Sign(sign) => match *sign {
                "==" => compare(Comparison::Equal),
                "!=" => compare(Comparison::NotEqual),
                "<" => compare(Comparison::Less),
                "<=" => compare(Comparison::LessOrEqual),
                ">" => compare(Comparison::Greater),
                ">=" => compare(Comparison::GreaterOrEqual),
                "+" => Some((Link::Operate(Operator::Add), 5)),
                "-" => Some((Link::Operate(Operator::Subtract), 5)),
                "~" => Some((Link::Join, 6)),
                "*" => Some((Link::Operate(Operator::Multiply), 7)),
                "/" => Some((Link::Operate(Operator::Divide), 7)),
                "//" => Some((Link::Operate(Operator::FloorDivide), 7)),
                "%" => Some((Link::Operate(Operator::Modulo), 7)),
                "**" => Some((Link::Operate(Operator::Power), 8)),
                _ => None,
            },
            _ => None,
        }
    }

    #[inline(never)]
    fn unary(&mut self, filters: bool) -> Result<Expression, Error> {
        let line = self.line();
        let value = if self.takes_sign("-") {
            let inner = self.deeper(|parser| parser.unary(false))?;
            Expression { line, kind: Kind::Negative(Box::new(inner)) }
        } else if self.takes_sign("+") {
            let inner = self.deeper(|parser| parser.unary(false))?;
            Expression { line, kind: Kind::Positive(Box::new(inner)) }
        } else {
            self.primary()?
        };
        self.steps(value, filters)
    }

    /// Accesses and calls behind a value, and filters and tests after them.
    #[inline(never)]
    fn steps(&mut self, value: Expression, filters: bool) -> Result<Expression, Error> {
        let mut steps = Vec::new();
        let mut accesses = true;
        loop {
            match self.peek() {
                Some(Token::Sign(".")) if accesses => {
                    self.next();
                    steps.push(self.attribute()?);
                }
                Some(Token::Sign("[")) if accesses => {
                    self.next();
                    steps.push(self.deeper(Self::subscript)?);
                }
                Some(Token::Sign("(")) => steps.push(Step::Call(self.deeper(Self::arguments)?)),
                Some(Token::Sign("|")) if filters => {
                    self.next();
                    accesses = false;
                    let (name, arguments) = self.filter()?;
                    steps.push(Step::Filter(name, arguments));
                }
                Some(Token::Name(name)) if filters && name == "is" => {
                    self.next();
                    accesses = false;
                    steps.push(self.deeper(Self::test)?);
                }
                _ => break,
            }
        }
        if steps.is_empty() {
            return Ok(value);
        }
        Ok(Expression { line: value.line, kind: Kind::Steps(Box::new(value), steps) })
    }

    #[inline(never)]
    fn attribute(&mut self) -> Result<Step, Error> {
        match self.next() {
            Some(Token::Name(name)) => Ok(Step::Attribute(name.clone())),
            Some(Token::Int(number)) => {
                let line = self.line();
                Ok(Step::Item(Expression { line, kind: Kind::Constant(Constant::Int(*number)) }))
            }
            _ => {
                self.at = self.at.saturating_sub(1);
                self.unexpected("a name or a number")
            }
        }
    }

    #[inline(never)]
    fn subscript(&mut self) -> Result<Step, Error> {
        let line = self.line();
        let mut items = Vec::new();
        loop {
            if !items.is_empty() {
                self.sign(",")?;
            }
            let first = if self.is_sign(":") { None } else { Some(self.expression()?) };
            if self.is_sign(":") {
                let mut parts = [first, None, None];
                for part in parts.iter_mut().skip(1) {
                    if !self.takes_sign(":") {
                        break;
                    }
                    if !self.is_sign(":") && !self.is_sign("]") {
                        *part = Some(self.expression()?);
                    }
                }
                self.sign("]")?;
                return Ok(Step::Slice(Box::new(parts)));
            }
            items.extend(first);
            if self.takes_sign("]") {
                break;
            }
        }
        match items.pop() {
            Some(only) if items.is_empty() => Ok(Step::Item(only)),
            last => {
                items.extend(last);
                Ok(Step::Item(Expression { line, kind: Kind::Tuple(items) }))
            }
        }
    }

    /// A filter's name and arguments.
    #[inline(never)]
    pub fn filter(&mut self) -> Result<(String, Arguments), Error> {
        let name = self.dotted()?;
        let arguments = if self.is_sign("(") { self.deeper(Self::arguments)? } else { Arguments::default() };
        Ok((name, arguments))
    }

    fn dotted(&mut self) -> Result<String, Error> {
        let mut name = self.name()?;
        while self.takes_sign(".") {
            name.push('.');
            name.push_str(&self.name()?);
        }
        Ok(name)
    }

    #[inline(never)]
    fn test(&mut self) -> Result<Step, Error> {
        let negated = self.takes_name("not");
        let name = self.dotted()?;
        let mut arguments = Arguments::default();
        let takes_one = match self.peek() {
            Some(Token::Sign("(")) => {
                arguments = self.arguments()?;
                false
            }
            Some(Token::Text(_) | Token::Int(_) | Token::Float(_) | Token::Sign("[" | "{")) => true,
            Some(Token::Name(name)) => !matches!(name.as_str(), "else" | "or" | "and"),
            _ => false,
        };
        if takes_one {
            if self.is_name("is") {
                return self.unexpected("no further test: tests cannot be chained with 'is'");
            }
            let value = self.primary()?;
            arguments.positional.push(self.steps_of_access(value)?);
        }
        Ok(Step::Test { name, arguments, negated })
    }

    fn steps_of_access(&mut self, value: Expression) -> Result<Expression, Error> {
        self.steps(value, false)
    }

    #[inline(never)]
    pub fn arguments(&mut self) -> Result<Arguments, Error> {
        self.sign("(")?;
        let mut arguments = Arguments::default();
        let mut first = true;
        while !self.takes_sign(")") {
            if !first {
                self.sign(",")?;
                if self.takes_sign(")") {
                    break;
                }
            }
            first = false;
            if self.takes_sign("**") {
                arguments.stars = Some(Box::new(self.expression()?));
            } else if self.takes_sign("*") {
                arguments.star = Some(Box::new(self.expression()?));
            } else if let (Some(Token::Name(name)), Some(Token::Sign("="))) = (self.peek(), self.peek_second()) {
                if arguments.named.iter().any(|(found, _)| found == name) {
                    return Err(Error::syntax(format!("keyword argument repeated: {name}"), self.line()));
                }
                self.next();
                self.next();
                arguments.named.push((name.clone(), self.expression()?));
            } else if arguments.named.is_empty() && arguments.stars.is_none() {
                arguments.positional.push(self.expression()?);
            } else {
                return self.unexpected("an argument with a name");
            }
        }
        Ok(arguments)
    }

    #[inline(never)]
    fn primary(&mut self) -> Result<Expression, Error> {
        let line = self.line();
        let made = |kind| Ok(Expression { line, kind });
        match self.peek() {
            Some(Token::Name(name)) => {
                self.next();
                made(match name.as_str() {
                    "true" | "True" => Kind::Constant(Constant::Bool(true)),
                    "false" | "False" => Kind::Constant(Constant::Bool(false)),
                    "none" | "None" => Kind::Constant(Constant::None),
                    _ => Kind::Name(name.clone()),
                })
            }
            Some(Token::Text(_)) => {
                let mut whole = String::new();
                while let Some(Token::Text(text)) = self.peek() {
                    self.next();
                    whole.push_str(text);
                }
                made(Kind::Constant(Constant::Text(Text::own(&whole))))
            }
            Some(Token::Int(number)) => {
                self.next();
                made(Kind::Constant(Constant::Int(*number)))
            }
            Some(Token::Float(number)) => {
                self.next();
                made(Kind::Constant(Constant::Float(*number)))
            }
            Some(Token::Sign("(")) => {
                self.next();
                if self.takes_sign(")") {
                    return made(Kind::Tuple(Vec::new()));
                }
                let inner = self.tuple(true, None)?;
                self.sign(")")?;
                Ok(inner)
            }
            Some(Token::Sign("[")) => {
                self.next();
                let items = self.items("]", Self::expression)?;
                made(Kind::List(items))
            }
            Some(Token::Sign("{")) => {
                self.next();
                let items = self.items("}", |parser| {
                    let key = parser.expression()?;
                    parser.sign(":")?;
                    Ok((key, parser.expression()?))
                })?;
                made(Kind::Dict(items))
            }
            _ => self.unexpected("an expression"),
        }
    }

    #[inline(never)]
    fn items<T>(&mut self, end: &str, item: fn(&mut Self) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        let mut items = Vec::new();
        while !self.takes_sign(end) {
            if !items.is_empty() {
                self.sign(",")?;
                if self.takes_sign(end) {
                    break;
                }
            }
            items.push(item(self)?);
        }
        Ok(items)
    }
}

impl Parser<'_> {
    /// How many tokens were passed.
    pub fn place(&self) -> usize {
        self.at
    }

    /// Whether a name is among the tokens from `begin` to here.
    pub fn names_since(&self, begin: usize, wanted: &str) -> bool {
        let tokens = self.tokens.get(begin..self.at).unwrap_or_default();
        tokens.iter().any(|(token, _)| matches!(token, Token::Name(name) if name == wanted))
    }
}
