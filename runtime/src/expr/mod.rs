//! Scalar expressions over column positions: serialisable data here, compiled at task start.
//!
//! Lowering writes [`Expr`]; [`compile`] turns one into a [`CompiledExpr`] on DataFusion's vectorised physical
//! expressions, with the engine's own value semantics where they differ: integer overflow is an error, −0.0
//! equals 0.0, all NaNs are one value, and decimals become the nearest floating-point numbers.

mod cast;
mod compile;
mod decimal;
mod float;
mod functions;
mod literal;
mod nested;
mod text_match;
mod time_shift;

use arrow_schema::{DataType, Field};
use serde::{Deserialize, Serialize};

pub use cast::cast_column;
pub use compile::{CompiledExpr, compile, compile_all, positional_schema};
pub use float::canonical;
pub use functions::FunctionRegistry;
pub use literal::Literal;

/// Binary operators, as DataFusion names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum BinaryOperator {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
    Plus,
    Minus,
    Multiply,
    Divide,
    Modulo,
    And,
    Or,
    IsDistinctFrom,
    IsNotDistinctFrom,
    RegexMatch,
    RegexIMatch,
    RegexNotMatch,
    RegexNotIMatch,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    BitwiseShiftRight,
    BitwiseShiftLeft,
    StringConcat,
}

/// The truth tests `IS [NOT] {NULL, TRUE, FALSE, UNKNOWN}`; their result is never NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum IsTest {
    Null,
    NotNull,
    True,
    NotTrue,
    False,
    NotFalse,
    Unknown,
    NotUnknown,
}

/// A scalar expression over the columns of its input, by position.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Expr {
    /// Column of the input.
    Column(usize),
    /// A constant.
    Literal(Literal),
    /// An infix operator; both sides have the types the operator wants.
    Binary {
        /// The operator.
        op: BinaryOperator,
        /// Left side.
        left: Box<Expr>,
        /// Right side.
        right: Box<Expr>,
    },
    /// Logical NOT.
    Not(Box<Expr>),
    /// Arithmetic negation.
    Negative(Box<Expr>),
    /// A truth test.
    Is {
        /// Which.
        test: IsTest,
        /// Of what.
        expr: Box<Expr>,
    },
    /// CAST, or TRY_CAST, which gives NULL instead of an error.
    Cast {
        /// What to cast.
        expr: Box<Expr>,
        /// To which type.
        to: DataType,
        /// NULL instead of an error.
        fallible: bool,
    },
    /// CASE with or without an operand.
    Case {
        /// `CASE operand WHEN …`; without one each WHEN is a condition.
        operand: Option<Box<Expr>>,
        /// WHEN and THEN.
        branches: Vec<(Expr, Expr)>,
        /// ELSE; NULL if there is none.
        otherwise: Option<Box<Expr>>,
    },
    /// LIKE and ILIKE, with `\` as the escape.
    Like {
        /// NOT LIKE.
        negated: bool,
        /// ILIKE.
        case_insensitive: bool,
        /// The text.
        expr: Box<Expr>,
        /// The pattern.
        pattern: Box<Expr>,
    },
    /// `IN (list)`.
    InList {
        /// What is looked for.
        expr: Box<Expr>,
        /// Where.
        list: Vec<Expr>,
        /// NOT IN.
        negated: bool,
    },
    /// A scalar function by its registered name.
    Function {
        /// The registered name.
        name: String,
        /// The arguments.
        args: Vec<Expr>,
        /// Name, type and nullability of the result, as the planner found them.
        result: Field,
    },
    /// A function that takes lambdas.
    HigherOrder {
        /// The registered name.
        name: String,
        /// Values and [`Expr::Lambda`]s.
        args: Vec<Expr>,
    },
    /// An argument of a higher-order function.
    Lambda {
        /// Names of the parameters.
        params: Vec<String>,
        /// The body, over the input's columns and the parameters.
        body: Box<Expr>,
    },
    /// A parameter inside a lambda's body.
    LambdaVariable {
        /// Its position after the input's columns.
        index: usize,
        /// Its name and type.
        field: Field,
    },
}

impl Expr {
    /// A constant.
    pub fn literal(value: datafusion_common::ScalarValue) -> Self {
        Expr::Literal(Literal(value))
    }

    /// The columns that the expression reads, each once, in ascending order.
    pub fn columns(&self) -> Vec<usize> {
        let mut found = Vec::new();
        self.visit(&mut |expr| {
            if let Expr::Column(index) = expr {
                found.push(*index);
            }
        });
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Calls `f` for every node, parents first.
    pub fn visit(&self, f: &mut impl FnMut(&Expr)) {
        f(self);
        self.children().into_iter().for_each(|child| child.visit(f));
    }

    /// The same expression with every column position replaced.
    pub fn map_columns(mut self, f: &mut impl FnMut(usize) -> usize) -> Self {
        self.rewrite_columns(f);
        self
    }

    fn rewrite_columns(&mut self, f: &mut impl FnMut(usize) -> usize) {
        if let Expr::Column(index) = self {
            *index = f(*index);
        }
        self.children_mut().into_iter().for_each(|child| child.rewrite_columns(f));
    }

    /// The same expression with every column replaced by what `f` makes of its position.
    pub fn replace_columns(mut self, f: &mut impl FnMut(usize) -> Expr) -> Self {
        self.put_in_columns(f);
        self
    }

    fn put_in_columns(&mut self, f: &mut impl FnMut(usize) -> Expr) {
        if let Expr::Column(index) = self {
            *self = f(*index);
        } else {
            self.children_mut().into_iter().for_each(|child| child.put_in_columns(f));
        }
    }

    fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Column(_) | Expr::Literal(_) | Expr::LambdaVariable { .. } => vec![],
            Expr::Binary { left, right, .. } => vec![left, right],
            Expr::Not(e) | Expr::Negative(e) | Expr::Is { expr: e, .. } => vec![e],
            Expr::Cast { expr, .. } => vec![expr],
            Expr::Case { operand, branches, otherwise } => operand
                .iter()
                .map(|e| &**e)
                .chain(branches.iter().flat_map(|(when, then)| [when, then]))
                .chain(otherwise.iter().map(|e| &**e))
                .collect(),
            Expr::Like { expr, pattern, .. } => vec![expr, pattern],
            Expr::InList { expr, list, .. } => {
                std::iter::once(&**expr).chain(list.iter()).collect()
            }
            Expr::Function { args, .. } | Expr::HigherOrder { args, .. } => args.iter().collect(),
            Expr::Lambda { body, .. } => vec![body],
        }
    }

    fn children_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Expr::Column(_) | Expr::Literal(_) | Expr::LambdaVariable { .. } => vec![],
            Expr::Binary { left, right, .. } => vec![left, right],
            Expr::Not(e) | Expr::Negative(e) | Expr::Is { expr: e, .. } => vec![e],
            Expr::Cast { expr, .. } => vec![expr],
            Expr::Case { operand, branches, otherwise } => operand
                .iter_mut()
                .map(|e| &mut **e)
                .chain(branches.iter_mut().flat_map(|(when, then)| [when, then]))
                .chain(otherwise.iter_mut().map(|e| &mut **e))
                .collect(),
            Expr::Like { expr, pattern, .. } => vec![expr, pattern],
            Expr::InList { expr, list, .. } => {
                std::iter::once(&mut **expr).chain(list.iter_mut()).collect()
            }
            Expr::Function { args, .. } | Expr::HigherOrder { args, .. } => {
                args.iter_mut().collect()
            }
            Expr::Lambda { body, .. } => vec![body],
        }
    }
}
