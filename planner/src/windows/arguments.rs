//! The arguments of a windowing table function by name: what is written in order, by name, or mixed.

use datafusion_common::Result;
use datafusion_sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, ObjectNamePart, Query,
    Spanned, TableFunctionArgs,
};

use super::{GROUPED, PARTITION_BY, PLAIN, WindowFunction};
use crate::bind::carry;
use crate::error::{PlannerError, Span};
use crate::parse::span_of;
use crate::suggest::did_you_mean;

/// The arguments of one call.
pub(super) struct Arguments {
    pub(super) function: WindowFunction,
    /// Where the function's name stands.
    pub(super) span: Option<Span>,
    /// The rows that get windows.
    pub(super) data: Query,
    /// The column with their times; `None` for the event time of the data.
    pub(super) time: Option<Expr>,
    /// Whether data and time are written as names alone, without TABLE and DESCRIPTOR: such calls give no `window_time`.
    pub(super) plain: bool,
    /// Whether a key of GROUP BY is meant, see [`GROUPED`].
    pub(super) grouped: bool,
    /// The columns whose values have sessions of their own.
    pub(super) keys: Vec<Expr>,
    /// The values of `function.parameters()` in their order.
    values: Vec<Option<Expr>>,
}

impl Arguments {
    /// Sorts the arguments of a call by name; fails when one is missing, unknown or there twice.
    pub(super) fn read(
        function: WindowFunction,
        name: &ObjectName,
        args: &TableFunctionArgs,
    ) -> Result<Self> {
        let span = name.0.first().and_then(ObjectNamePart::as_ident);
        let reader = Reader { function, span: span.and_then(|ident| span_of(ident.span)) };
        let mut values: Vec<Option<Expr>> = vec![None; function.parameters().len()];
        let (mut keys, mut grouped, mut name_alone) = (Vec::new(), false, false);
        let mut position = 0;
        for arg in &args.args {
            match reader.argument(arg)? {
                (Some(name), _) if name == GROUPED => grouped = true,
                (Some(name), _) if name == PLAIN => name_alone = true,
                (Some(name), value) if name == PARTITION_BY => {
                    keys = reader.keys(value, grouped)?
                }
                (Some(name), value) => {
                    reader.set(&mut values, reader.place(&name, &value)?, value)?
                }
                (None, value) => {
                    let Some(parameter) = function.parameter_at(position, &value) else {
                        return Err(reader.wrong("has more arguments than it takes", &value));
                    };
                    reader.set(&mut values, reader.place(parameter, &value)?, value)?;
                    position += 1;
                }
            }
        }
        let mut needed =
            |at: usize| values[at].take().ok_or_else(|| reader.missing(function.parameters()[at]));
        let data = reader.data(needed(0)?)?;
        let (time, plain) = match grouped {
            true => (values[1].take(), false),
            false => {
                let written = needed(1)?;
                let plain = name_alone && !matches!(written, Expr::Function(_));
                (Some(reader.descriptor(written)?), plain)
            }
        };
        Ok(Arguments { function, span: reader.span, data, time, plain, grouped, keys, values })
    }

    /// The value of a parameter, if it is given.
    pub(super) fn get(&self, parameter: &str) -> Option<&Expr> {
        let at = self.function.parameters().iter().position(|name| *name == parameter)?;
        self.values[at].as_ref()
    }

    /// The error for a call without a parameter that it needs.
    pub(super) fn missing(&self, parameter: &str) -> datafusion_common::DataFusionError {
        Reader { function: self.function, span: self.span }.missing(parameter)
    }
}

struct Reader {
    function: WindowFunction,
    span: Option<Span>,
}

impl Reader {
    fn error(
        &self,
        what: &str,
        span: Option<Span>,
        hint: String,
    ) -> datafusion_common::DataFusionError {
        let error = PlannerError::invalid(format!("{} {what}", self.function.name()));
        carry(error.with_hint(hint).with_span(span).with_span(self.span))
    }

    fn usage(&self) -> String {
        format!("write {}", self.function.usage())
    }

    fn wrong(&self, what: &str, at: &Expr) -> datafusion_common::DataFusionError {
        self.error(what, span_of(at.span()), self.usage())
    }

    fn missing(&self, parameter: &str) -> datafusion_common::DataFusionError {
        let what = format!("has no argument {}", parameter.to_uppercase());
        self.error(&what, self.span, self.usage())
    }

    /// Name, in lower case, and value of an argument.
    fn argument(&self, arg: &FunctionArg) -> Result<(Option<String>, Expr)> {
        let (name, value) = match arg {
            FunctionArg::Unnamed(value) => (None, value),
            FunctionArg::Named { name, arg, .. } => (Some(name.value.to_lowercase()), arg),
            FunctionArg::ExprNamed { .. } => {
                return Err(self.error("has an argument it does not take", None, self.usage()));
            }
        };
        match value {
            FunctionArgExpr::Expr(value) => Ok((name, value.clone())),
            FunctionArgExpr::QualifiedWildcard(_)
            | FunctionArgExpr::Wildcard
            | FunctionArgExpr::WildcardWithOptions(_) => {
                Err(self.error("does not take * as an argument", None, self.usage()))
            }
        }
    }

    fn place(&self, name: &str, value: &Expr) -> Result<usize> {
        let names = self.function.parameters();
        names.iter().position(|known| *known == name).ok_or_else(|| {
            let hint = did_you_mean(name, names.iter().copied()).unwrap_or_else(|| self.usage());
            let what = format!("has no parameter {}", name.to_uppercase());
            self.error(&what, span_of(value.span()), hint)
        })
    }

    fn set(&self, values: &mut [Option<Expr>], at: usize, value: Expr) -> Result<()> {
        if values[at].is_some() {
            let name = self.function.parameters()[at].to_uppercase();
            return Err(self.wrong(&format!("has the argument {name} twice"), &value));
        }
        values[at] = Some(value);
        Ok(())
    }

    fn data(&self, value: Expr) -> Result<Query> {
        match value {
            Expr::Subquery(query) => Ok(*query),
            Expr::Nested(inner) => self.data(*inner),
            other => Err(self.wrong("takes a table as its first argument: TABLE t", &other)),
        }
    }

    /// The column in `DESCRIPTOR(column)`; the column alone will do.
    fn descriptor(&self, value: Expr) -> Result<Expr> {
        match &value {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => return Ok(value),
            Expr::Function(function) if is_descriptor(&function.name) => {
                if let FunctionArguments::List(list) = &function.args
                    && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(column))] =
                        list.args.as_slice()
                    && let Expr::Identifier(_) | Expr::CompoundIdentifier(_) = column
                {
                    return Ok(column.clone());
                }
            }
            _ => {}
        }
        Err(self.wrong("takes the time of rows as DESCRIPTOR(column)", &value))
    }

    fn keys(&self, value: Expr, any: bool) -> Result<Vec<Expr>> {
        if self.function != WindowFunction::Session && !self.function.is_of_rows() {
            return Err(
                self.wrong("takes no PARTITION BY: its windows are the same for all", &value)
            );
        }
        let keys = match value {
            Expr::Tuple(keys) => keys,
            Expr::Nested(key) => vec![*key],
            key => vec![key],
        };
        let is_column =
            |key: &Expr| matches!(key, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        match keys.iter().find(|key| !any && !is_column(key)) {
            None => Ok(keys),
            Some(key) => Err(self.wrong("takes columns in PARTITION BY", key)),
        }
    }
}

fn is_descriptor(name: &ObjectName) -> bool {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(ident)] => {
            ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("descriptor")
        }
        _ => false,
    }
}
