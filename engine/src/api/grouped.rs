//! Groups of rows, waiting for aggregates.

use datafusion_expr::{Expr, LogicalPlanBuilder};

use super::relation::Relation;

/// A relation whose rows are in groups; [`GroupedRelation::agg`] makes a relation of one row a group.
#[derive(Debug, Clone)]
pub struct GroupedRelation {
    relation: Relation,
    keys: Vec<Expr>,
}

impl GroupedRelation {
    pub(super) fn new(relation: Relation, keys: Vec<Expr>) -> Self {
        GroupedRelation { relation, keys }
    }

    /// The keys and these aggregates of each group; aggregates are named by `.alias("name")`.
    pub fn agg(self, aggregates: impl IntoIterator<Item = Expr>) -> Relation {
        let GroupedRelation { relation, keys } = self;
        let (aliased, aggregates): (Vec<_>, Vec<_>) =
            aggregates.into_iter().map(without_alias).unzip();
        relation.then(|builder| aggregate(builder, keys, aggregates, aliased))
    }
}

/// An aggregate and the name it is to have.
fn without_alias(aggregate: Expr) -> (Option<String>, Expr) {
    match aggregate {
        Expr::Alias(alias) => (Some(alias.name), *alias.expr),
        other => (None, other),
    }
}

/// Names are given behind the aggregation, as SQL does it.
fn aggregate(
    builder: LogicalPlanBuilder,
    keys: Vec<Expr>,
    aggregates: Vec<Expr>,
    names: Vec<Option<String>>,
) -> datafusion_common::Result<LogicalPlanBuilder> {
    let key_count = keys.len();
    let builder = builder.aggregate(keys, aggregates)?;
    let schema = builder.schema().clone();
    let columns = schema.columns().into_iter().enumerate().map(|(at, column)| {
        let name = at.checked_sub(key_count).and_then(|at| names.get(at).cloned().flatten());
        match name {
            Some(name) => Expr::Column(column).alias(name),
            None => Expr::Column(column),
        }
    });
    builder.project(columns.collect::<Vec<_>>())
}
