//! Expressions in terms of column ids.
//!
//! Invariant: a bound expression holds neither qualified columns nor aliases nor subqueries. An uncorrelated scalar
//! subquery becomes a column of a single-row input that the caller joins; a correlated one is refused.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema, DataFusionError, JoinType};
use datafusion_expr::expr::Sort as SortExpr;
use datafusion_expr::{Expr, Subquery};

use crate::error::{OptimizerError, Result};
use crate::physical::ColumnId;
use crate::properties::SortKey;
use crate::relational::entry::{Binder, Bound};
use crate::relational::{JoinSpec, Rel, RelOp};

/// Columns an expression may name: schemas with the ids of their fields.
pub(super) struct Scope<'a> {
    parts: Vec<(&'a DFSchema, &'a [ColumnId])>,
}

impl<'a> Scope<'a> {
    /// The columns of one input.
    pub fn of(schema: &'a DFSchema, columns: &'a [ColumnId]) -> Self {
        Self { parts: vec![(schema, columns)] }
    }

    /// The columns of two inputs; the first one wins where a name is in both.
    pub fn and(mut self, schema: &'a DFSchema, columns: &'a [ColumnId]) -> Self {
        self.parts.push((schema, columns));
        self
    }

    /// The id of a named column.
    pub fn resolve(&self, column: &Column) -> Result<ColumnId> {
        let found = self.parts.iter().find_map(|(schema, ids)| {
            schema.maybe_index_of_column(column).and_then(|index| ids.get(index).copied())
        });
        found
            .ok_or_else(|| OptimizerError::InvalidPlan(format!("no input has the column {column}")))
    }
}

/// Scalar subqueries met while binding, each once.
#[derive(Default)]
pub(super) struct Subqueries {
    found: Vec<(Subquery, ColumnId, Rel)>,
}

impl Subqueries {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Joins the single-row inputs to a plan; its positions stay.
    pub fn attach(self, mut rel: Rel) -> Rel {
        for (_, _, subplan) in self.found {
            rel = Rel::new(RelOp::Join(JoinSpec::cross()), vec![rel, subplan]);
        }
        rel
    }
}

impl JoinSpec {
    /// An inner join without a condition.
    pub fn cross() -> Self {
        Self {
            join_type: JoinType::Inner,
            on: Vec::new(),
            filter: Vec::new(),
            null_equal: false,
            null_aware: false,
            mark: None,
            expiry: Vec::new(),
            patient: false,
            lookup: false,
        }
    }
}

impl Binder<'_> {
    /// Binds an expression; subqueries are collected for the caller to attach.
    pub(super) fn expr(
        &mut self,
        expr: &Expr,
        scope: &Scope<'_>,
        subqueries: &mut Subqueries,
    ) -> Result<Expr> {
        let mut failure = None;
        let bound = expr.clone().transform_up(|node| match self.node(node, scope, subqueries) {
            Ok(node) => Ok(node),
            Err(error) => {
                let stop = DataFusionError::Plan(error.to_string());
                failure = Some(error);
                Err(stop)
            }
        });
        match (bound, failure) {
            (_, Some(error)) => Err(error),
            (bound, None) => Ok(bound?.data),
        }
    }

    fn node(
        &mut self,
        node: Expr,
        scope: &Scope<'_>,
        subqueries: &mut Subqueries,
    ) -> Result<Transformed<Expr>> {
        let refuse =
            |what: &str| Err(OptimizerError::unsupported(format!("{what} is not supported here")));
        match node {
            Expr::Column(column) => Ok(Transformed::yes(scope.resolve(&column)?.expr())),
            Expr::Alias(alias) => Ok(Transformed::yes(*alias.expr)),
            Expr::ScalarSubquery(subquery) => {
                Ok(Transformed::yes(self.scalar_subquery(subquery, subqueries)?.expr()))
            }
            Expr::Exists(_) => refuse("EXISTS that cannot be turned into a join"),
            Expr::InSubquery(_) => refuse("IN (subquery) that cannot be turned into a join"),
            Expr::SetComparison(_) => refuse("a comparison with ANY or ALL of a subquery"),
            Expr::OuterReferenceColumn(_, column) => Err(OptimizerError::unsupported(format!(
                "the subquery refers to the outer column {column} in a way that cannot be turned into a join"
            ))),
            Expr::Placeholder(placeholder) => Err(OptimizerError::unsupported(format!(
                "the parameter {} has no value",
                placeholder.id
            ))),
            Expr::GroupingSet(_) => refuse("a grouping set outside GROUP BY"),
            Expr::Unnest(_) => refuse("unnest"),
            node => Ok(Transformed::no(node)),
        }
    }

    fn scalar_subquery(
        &mut self,
        subquery: Subquery,
        subqueries: &mut Subqueries,
    ) -> Result<ColumnId> {
        if let Some((_, id, _)) = subqueries.found.iter().find(|(known, ..)| *known == subquery) {
            return Ok(*id);
        }
        if !subquery.outer_ref_columns.is_empty() {
            return Err(OptimizerError::Unsupported {
                message: "a correlated scalar subquery could not be turned into a join".to_owned(),
                hint: Some("write it as a join with a grouped subquery".to_owned()),
            });
        }
        let bound = self.plan(&subquery.subquery)?;
        let [column] = bound.columns[..] else {
            return Err(OptimizerError::InvalidPlan("a scalar subquery has one column".to_owned()));
        };
        self.columns.set_nullable(column);
        let single = Rel::new(RelOp::AssertSingleRow, vec![bound.rel]);
        subqueries.found.push((subquery, column, single));
        Ok(column)
    }

    /// Binds an expression that must become a column of the input: a bare column is that column, anything else is
    /// added to `computed`.
    pub(super) fn key(
        &mut self,
        expr: &Expr,
        schema: &DFSchema,
        scope: &Scope<'_>,
        subqueries: &mut Subqueries,
        computed: &mut Vec<(ColumnId, Expr)>,
    ) -> Result<ColumnId> {
        let bound = self.expr(expr, scope, subqueries)?;
        if let Some(id) = ColumnId::from_expr(&bound) {
            return Ok(id);
        }
        if let Some((id, _)) = computed.iter().find(|(_, known)| *known == bound) {
            return Ok(*id);
        }
        let (_, field) = datafusion_expr::ExprSchemable::to_field(expr, schema)?;
        let id = self.columns.add(expr.schema_name().to_string(), field.data_type().clone(), true);
        computed.push((id, bound));
        Ok(id)
    }

    /// Binds sort expressions; computed keys are added to `computed`.
    pub(super) fn sort_keys(
        &mut self,
        exprs: &[SortExpr],
        input: (&Arc<DFSchema>, &[ColumnId]),
        subqueries: &mut Subqueries,
        computed: &mut Vec<(ColumnId, Expr)>,
    ) -> Result<Vec<SortKey>> {
        let mut keys: Vec<SortKey> = Vec::with_capacity(exprs.len());
        for sort in exprs {
            let scope = Scope::of(input.0, input.1);
            let column = self.key(&sort.expr, input.0, &scope, subqueries, computed)?;
            if keys.iter().all(|key| key.column != column) {
                keys.push(SortKey { column, descending: !sort.asc, nulls_first: sort.nulls_first });
            }
        }
        Ok(keys)
    }
}

/// Puts subqueries and computed columns between an operator and its input.
pub(super) fn prepare(
    bound: Bound,
    subqueries: Subqueries,
    computed: Vec<(ColumnId, Expr)>,
) -> Rel {
    let rel = subqueries.attach(bound.rel);
    if computed.is_empty() { rel } else { Rel::new(RelOp::Compute { exprs: computed }, vec![rel]) }
}
