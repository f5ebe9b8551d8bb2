//! What a template is made of. Chains of operators, accesses and branches are flat, so that only what is nested is deep.

use crate::text::Text;

/// A constant.
#[derive(Clone, Debug)]
pub enum Constant {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Text),
}

/// An operator between two values, of one of three levels of precedence (and `**`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

/// What is done to a value, left to right.
#[derive(Debug)]
pub enum Step {
    Attribute(String),
    Item(Expression),
    Slice(Box<[Option<Expression>; 3]>),
    Call(Arguments),
    Filter(String, Arguments),
    Test { name: String, arguments: Arguments, negated: bool },
}

/// Arguments of a call.
#[derive(Debug, Default)]
pub struct Arguments {
    pub positional: Vec<Expression>,
    pub named: Vec<(String, Expression)>,
    pub star: Option<Box<Expression>>,
    pub stars: Option<Box<Expression>>,
}

/// An expression with the line that it is in.
#[derive(Debug)]
pub struct Expression {
    pub line: u32,
    pub kind: Kind,
}

/// What an expression is.
#[derive(Debug)]
pub enum Kind {
    Constant(Constant),
    Name(String),
    List(Vec<Expression>),
    Tuple(Vec<Expression>),
    Dict(Vec<(Expression, Expression)>),
    /// `value if condition else other`. Without `else`, more conditions may follow; the last one is looked at first.
    Condition(Box<Expression>, Vec<(Expression, Option<Expression>)>),
    Or(Vec<Expression>),
    And(Vec<Expression>),
    Not(Box<Expression>),
    Negative(Box<Expression>),
    Positive(Box<Expression>),
    Compare(Box<Expression>, Vec<(Comparison, Expression)>),
    Operate(Box<Expression>, Vec<(Operator, Expression)>),
    /// `a ~ b`.
    Join(Vec<Expression>),
    Steps(Box<Expression>, Vec<Step>),
}

/// What is assigned to.
#[derive(Debug)]
pub enum Target {
    Name(String),
    /// A member of a namespace.
    Member(String, String),
    Tuple(Vec<Target>),
}

/// Parameters of a macro: names, and the values of the last of them.
#[derive(Debug, Default)]
pub struct Parameters {
    pub names: Vec<String>,
    pub defaults: Vec<Expression>,
}

/// A macro, or the body of a call block.
#[derive(Debug)]
pub struct Macro {
    pub name: String,
    pub parameters: Parameters,
    pub body: Vec<Statement>,
    /// Whether its body names `caller`, `varargs`, `kwargs`: it takes them only then.
    pub takes: Takes,
}

/// What a macro takes beyond its parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Takes {
    pub caller: bool,
    pub varargs: bool,
    pub kwargs: bool,
}

/// A loop.
#[derive(Debug)]
pub struct For {
    pub target: Target,
    pub over: Expression,
    pub condition: Option<Expression>,
    pub recursive: bool,
    pub body: Vec<Statement>,
    pub otherwise: Vec<Statement>,
}

/// Filters of a block.
pub type Filters = Vec<(String, Arguments)>;

/// A statement with its line.
#[derive(Debug)]
pub struct Statement {
    pub line: u32,
    pub action: Action,
}

/// What a statement does.
#[derive(Debug)]
pub enum Action {
    Text(Text),
    Print(Expression),
    For(Box<For>),
    If(Vec<(Expression, Vec<Statement>)>, Vec<Statement>),
    Set(Target, Expression),
    SetBlock(Target, Filters, Vec<Statement>),
    Filter(Filters, Vec<Statement>),
    With(Vec<(Target, Expression)>, Vec<Statement>),
    Macro(Macro),
    Call(Expression, Macro),
    Do(Expression),
    Break,
    Continue,
}
