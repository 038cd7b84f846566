//! Functions that are defined by an SQL expression: CREATE FUNCTION … LANGUAGE sql and CREATE MACRO.
//!
//! A call is replaced by the expression before anything is bound, the arguments in the place of the parameters.
//! A function of a built-in one's name hides it. Invariant: a call inside a definition means what its name means when the
//! outer function is called, but a function's own name there is that of the built-in one. A body that
//! reads tables is refused, since its names would hide those of the arguments.

use std::cell::Cell;
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    self, CastKind, CreateFunctionBody, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    FunctionReturnType, Ident, SelectItem, SetExpr, Value, VisitMut, VisitorMut,
};

use super::names::{normalized, span_of_name, table_name};
use super::statements::Context;
use crate::error::{PlannerError, Result};
use crate::functions::Functions;
use crate::parse::{Ast, parse_script};
use crate::statement::Statement;

/// How many functions may stand in each other's definitions; more means that they go round in a circle.
const MAX_CALL_DEPTH: usize = 32;
/// How many calls a statement may come to, those inside definitions included.
const MAX_CALLS: usize = 10_000;

/// A function that is defined by an SQL expression.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlFunction {
    name: String,
    parameters: Vec<Parameter>,
    returns: Option<ast::DataType>,
    body: Expr,
}

#[derive(Debug, Clone, PartialEq)]
struct Parameter {
    name: Option<String>,
    data_type: Option<ast::DataType>,
    default: Option<Expr>,
}

impl SqlFunction {
    /// Its name, normalised.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The expression that a call with these arguments stands for.
    fn call(&self, given: Vec<(Option<Ident>, Expr)>) -> Result<Expr> {
        let mut values: Vec<Option<Expr>> = vec![None; self.parameters.len()];
        let count = given.len();
        for (at, (name, value)) in given.into_iter().enumerate() {
            let at = match &name {
                None => Some(at),
                Some(name) => {
                    let name = normalized(name);
                    self.parameters.iter().position(|p| p.name.as_deref() == Some(&name))
                }
            };
            let place = at.and_then(|at| values.get_mut(at)).filter(|place| place.is_none());
            *place.ok_or_else(|| self.wrong_arguments(count))? = Some(value);
        }
        let arguments = self.parameters.iter().zip(values).map(|(parameter, value)| {
            let value = value.or_else(|| parameter.default.clone());
            let value = value.ok_or_else(|| self.wrong_arguments(count))?;
            Ok(cast(value, parameter.data_type.as_ref()))
        });
        let arguments = arguments.collect::<Result<Vec<Expr>>>()?;
        let mut body = self.body.clone();
        let mut substitute = Substitute { parameters: &self.parameters, arguments: &arguments };
        match VisitMut::visit(&mut body, &mut substitute) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(cast(body, self.returns.as_ref())),
        }
    }

    fn wrong_arguments(&self, given: usize) -> PlannerError {
        let name = |p: &Parameter| match (&p.name, &p.data_type) {
            (Some(name), Some(data_type)) => format!("{name} {data_type}"),
            (Some(name), None) => name.clone(),
            (None, Some(data_type)) => data_type.to_string(),
            (None, None) => "any".to_string(),
        };
        let list: Vec<String> = self.parameters.iter().map(name).collect();
        let call = format!("{}({})", self.name, list.join(", "));
        PlannerError::invalid(format!("the function {call} does not take these {given} arguments"))
            .about(self.name.as_str())
    }
}

/// The value as one operand, cast to the type if there is one.
fn cast(value: Expr, data_type: Option<&ast::DataType>) -> Expr {
    let value = Box::new(Expr::Nested(Box::new(value)));
    match data_type {
        None => *value,
        Some(data_type) => Expr::Cast {
            kind: CastKind::Cast,
            expr: value,
            data_type: data_type.clone(),
            array: false,
            format: None,
        },
    }
}

/// Puts arguments in the place of `$n` and of parameters' names. Works upwards, so that arguments stay as they are.
struct Substitute<'a> {
    parameters: &'a [Parameter],
    arguments: &'a [Expr],
}

impl VisitorMut for Substitute<'_> {
    type Break = PlannerError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<PlannerError> {
        let at = match expr {
            Expr::Identifier(ident) => {
                let name = normalized(ident);
                self.parameters.iter().position(|p| p.name.as_deref() == Some(&name))
            }
            Expr::Value(value) => match &value.value {
                Value::Placeholder(text) => match position(text, self.arguments.len()) {
                    Some(at) => Some(at),
                    None => {
                        let message = format!("the function has no parameter {text}");
                        return ControlFlow::Break(PlannerError::invalid(message));
                    }
                },
                _ => None,
            },
            _ => None,
        };
        if let Some(argument) = at.and_then(|at| self.arguments.get(at)) {
            *expr = argument.clone();
        }
        ControlFlow::Continue(())
    }
}

/// The index that `$n` stands for.
fn position(placeholder: &str, parameters: usize) -> Option<usize> {
    let number = placeholder.strip_prefix('$')?.parse::<usize>().ok()?;
    number.checked_sub(1).filter(|at| *at < parameters)
}

/// Replaces all calls of SQL functions in the tree.
pub(super) fn expand<T: VisitMut>(tree: &mut T, functions: &Functions) -> Result<()> {
    if !functions.has_sql_functions() {
        return Ok(());
    }
    let calls = Cell::new(0);
    let mut expand = Expand { functions, within: None, depth: 0, calls: &calls };
    match VisitMut::visit(tree, &mut expand) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Expand<'a> {
    functions: &'a Functions,
    /// The function whose definition is expanded.
    within: Option<&'a str>,
    depth: usize,
    calls: &'a Cell<usize>,
}

impl VisitorMut for Expand<'_> {
    type Break = PlannerError;

    /// Upwards: the arguments of a call have been expanded when the call is.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<PlannerError> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        let function = match call.name.0.as_slice() {
            [part] => part.as_ident().and_then(|name| self.functions.sql(&normalized(name))),
            _ => None,
        };
        let Some(function) = function else { return ControlFlow::Continue(()) };
        if self.within == Some(function.name()) && self.functions.is_built_in(function.name()) {
            return ControlFlow::Continue(());
        }
        let place = span_of_name(&call.name);
        self.calls.set(self.calls.get() + 1);
        if self.depth >= MAX_CALL_DEPTH || self.calls.get() > MAX_CALLS {
            let error = PlannerError::invalid(format!(
                "the calls of the function {} come to no end",
                function.name
            ));
            return ControlFlow::Break(error.with_span(place));
        }
        match arguments(call).and_then(|given| function.call(given)) {
            Err(error) => ControlFlow::Break(error.with_span(place)),
            Ok(mut body) => {
                let mut inner = Expand {
                    functions: self.functions,
                    within: Some(function.name()),
                    depth: self.depth + 1,
                    calls: self.calls,
                };
                VisitMut::visit(&mut body, &mut inner)?;
                *expr = body;
                ControlFlow::Continue(())
            }
        }
    }
}

fn arguments(call: &ast::Function) -> Result<Vec<(Option<Ident>, Expr)>> {
    let plain = call.filter.is_none()
        && call.over.is_none()
        && call.null_treatment.is_none()
        && call.within_group.is_empty()
        && matches!(call.parameters, FunctionArguments::None);
    let list = match &call.args {
        FunctionArguments::None if plain => return Ok(Vec::new()),
        FunctionArguments::List(list)
            if plain && list.clauses.is_empty() && list.duplicate_treatment.is_none() =>
        {
            &list.args
        }
        FunctionArguments::None | FunctionArguments::List(_) | FunctionArguments::Subquery(_) => {
            let what = "FILTER, OVER or DISTINCT in the call of a function defined in SQL";
            return Err(PlannerError::not_supported(what));
        }
    };
    let argument = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Ok((None, value.clone())),
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
            Ok((Some(name.clone()), value.clone()))
        }
        FunctionArg::Unnamed(_) | FunctionArg::Named { .. } | FunctionArg::ExprNamed { .. } => {
            Err(PlannerError::invalid("* is no argument of a function defined in SQL"))
        }
    };
    list.iter().map(argument).collect()
}

impl Context<'_> {
    /// `CREATE FUNCTION name(parameters) RETURNS type LANGUAGE sql AS 'SELECT …'`.
    pub(super) fn create_function(&self, create: &ast::CreateFunction) -> Result<Statement> {
        let span = span_of_name(&create.name);
        let language = create.language.as_ref().map(normalized);
        if language.as_deref().is_some_and(|language| language != "sql") {
            let error = PlannerError::not_supported("CREATE FUNCTION in another language than SQL");
            return Err(error.with_span(span));
        }
        if create.or_alter || create.using.is_some() || create.remote_connection.is_some() {
            let error = PlannerError::not_supported("this form of CREATE FUNCTION");
            return Err(error.with_span(span));
        }
        let parameters = create.args.iter().flatten().map(|arg| Parameter {
            name: arg.name.as_ref().map(normalized),
            data_type: Some(arg.data_type.clone()),
            default: arg.default_expr.clone(),
        });
        let returns = match &create.return_type {
            Some(FunctionReturnType::DataType(data_type)) => Some(data_type.clone()),
            None => None,
            Some(FunctionReturnType::SetOf(_)) => {
                return Err(PlannerError::not_supported("RETURNS SETOF").with_span(span));
            }
        };
        let body = create.function_body.as_ref();
        let body = body.ok_or_else(|| PlannerError::syntax("a function needs a body"));
        let function = SqlFunction {
            name: table_name(&create.name)?.to_string(),
            parameters: parameters.collect(),
            returns,
            body: body.and_then(expression_of).map_err(|error| error.with_span(span))?,
        };
        self.check_function(&function).map_err(|error| error.with_span(span))?;
        let (or_replace, if_not_exists) = (create.or_replace, create.if_not_exists);
        Ok(Statement::CreateFunction { function, or_replace, if_not_exists })
    }

    /// `CREATE MACRO name(parameters) AS expression`.
    pub(super) fn create_macro(
        &self,
        name: &ast::ObjectName,
        args: &[ast::MacroArg],
        definition: &ast::MacroDefinition,
        or_replace: bool,
    ) -> Result<Statement> {
        let span = span_of_name(name);
        let ast::MacroDefinition::Expr(body) = definition else {
            return Err(PlannerError::not_supported("CREATE MACRO … AS TABLE").with_span(span));
        };
        let parameters = args.iter().map(|arg| Parameter {
            name: Some(normalized(&arg.name)),
            data_type: None,
            default: arg.default_expr.clone(),
        });
        let function = SqlFunction {
            name: table_name(name)?.to_string(),
            parameters: parameters.collect(),
            returns: None,
            body: body.clone(),
        };
        Ok(Statement::CreateFunction { function, or_replace, if_not_exists: false })
    }

    /// Binds a call with NULLs, so that what can never be called is not created.
    fn check_function(&self, function: &SqlFunction) -> Result<()> {
        let null = || (None, Expr::value(Value::Null));
        let call = function.call(function.parameters.iter().map(|_| null()).collect())?;
        let empty = ast::ObjectName::from(Vec::new());
        let mut query = super::cte::select_all_from(empty);
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection = vec![SelectItem::UnnamedExpr(call)];
            select.from = Vec::new();
        }
        let binder = self.binder();
        let plan = binder.bind(binder.prepare(query, &[])?)?;
        binder.finish(plan).map(|_| ())
    }
}

/// The one expression that a function's body computes.
fn expression_of(body: &CreateFunctionBody) -> Result<Expr> {
    let expr = match body {
        CreateFunctionBody::AsBeforeOptions { body, .. }
        | CreateFunctionBody::AsAfterOptions(body) => body,
        CreateFunctionBody::Return(expr) | CreateFunctionBody::AsReturnExpr(expr) => {
            return Ok(expr.clone());
        }
        CreateFunctionBody::AsBeginEnd(_) | CreateFunctionBody::AsReturnSelect(_) => {
            return Err(PlannerError::not_supported("this form of a function's body"));
        }
    };
    let text = match expr {
        Expr::Value(value) => value.value.clone().into_string(),
        _ => None,
    };
    match text {
        Some(text) => expression_of_text(&text),
        None => Ok(expr.clone()),
    }
}

fn expression_of_text(text: &str) -> Result<Expr> {
    let (mut statements, error) = parse_script(text);
    if let Some(error) = error {
        // Its place is one in the body's text.
        return Err(PlannerError { span: None, ..error });
    }
    let one = || PlannerError::not_supported("a function's body that is not SELECT expression");
    let statement = statements.pop().filter(|_| statements.is_empty()).ok_or_else(one)?;
    let Ast::Query(query) = statement.ast else { return Err(one()) };
    let plain = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
    let SetExpr::Select(select) = *query.body else { return Err(one()) };
    let plain = plain
        && select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none();
    let mut items = select.projection.into_iter();
    match (items.next(), items.next()) {
        (Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }), None)
            if plain =>
        {
            Ok(expr)
        }
        _ => Err(one()),
    }
}
