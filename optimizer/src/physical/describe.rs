//! Names for people: expressions and properties with column names instead of ids.

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, JoinType};
use datafusion_expr::{BinaryExpr, Expr, Operator};
use thalweg_planner::{sql_literal, with_sql_literals};

use crate::physical::{
    AggregateCall, AggregatePhase, ColumnId, ColumnTable, LateKeys, PhysicalNode, PhysicalOp,
    RuntimeFilterDef, ShipStrategy, Side, WindowCall,
};
use crate::properties::{Ordering, Partitioning, SortKey};
use crate::streaming::{CompletionUnit, Emission};

/// Most characters of an expression that are shown.
const MAX_EXPRESSION: usize = 200;

/// How columns are called.
pub(crate) struct Names<'a> {
    columns: &'a ColumnTable,
    /// Whether the id follows the name.
    ids: bool,
    /// Microseconds after which state that no watermark bounds is forgotten; 0 keeps it for ever.
    pub(super) state_ttl_us: i64,
}

impl<'a> Names<'a> {
    pub fn new(columns: &'a ColumnTable, ids: bool) -> Self {
        Self { columns, ids, state_ttl_us: 0 }
    }

    /// The names in a plan that forgets state after so long.
    pub fn forgetting(self, state_ttl_us: i64) -> Self {
        Self { state_ttl_us, ..self }
    }

    /// A column's name, with its id if they are shown.
    pub fn column(&self, id: ColumnId) -> String {
        let name = with_sql_literals(&self.columns.get(id).name);
        if self.ids { format!("{name}{id}") } else { name }
    }

    /// Names of several columns.
    pub fn list(&self, ids: &[ColumnId]) -> String {
        let names: Vec<String> = ids.iter().map(|&id| self.column(id)).collect();
        names.join(", ")
    }

    /// An expression, cut off when it is long.
    pub fn expr(&self, expr: &Expr) -> String {
        let named = expr.clone().transform(|node| {
            Ok(match ColumnId::from_expr(&node) {
                Some(id) => {
                    Transformed::yes(Expr::Column(Column::new_unqualified(self.column(id))))
                }
                None => match node {
                    Expr::Literal(value, _) => {
                        Transformed::yes(Expr::Column(Column::new_unqualified(sql_literal(&value))))
                    }
                    node => Transformed::no(node),
                },
            })
        });
        let text =
            named.map_or_else(|_| expr.to_string(), |named| named.data.human_display().to_string());
        match text.char_indices().nth(MAX_EXPRESSION) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text,
        }
    }

    /// An order.
    pub fn ordering(&self, ordering: &Ordering) -> String {
        self.keys(&ordering.0)
    }

    /// A spread.
    pub fn partitioning(&self, partitioning: &Partitioning) -> String {
        match partitioning {
            Partitioning::Random => "RANDOM".to_owned(),
            Partitioning::Hash(columns) => format!("HASH({})", self.list(columns)),
            Partitioning::Range(ordering) => format!("RANGE({})", self.ordering(ordering)),
            Partitioning::Replicated => "REPLICATED".to_owned(),
            Partitioning::Singleton => "SINGLETON".to_owned(),
        }
    }

    /// A ship strategy.
    pub fn ship(&self, ship: &ShipStrategy) -> String {
        match ship {
            ShipStrategy::Forward => "FORWARD".to_owned(),
            ShipStrategy::Hash(columns) => format!("HASH({})", self.list(columns)),
            ShipStrategy::Broadcast => "BROADCAST".to_owned(),
            ShipStrategy::Rebalance => "REBALANCE".to_owned(),
            ShipStrategy::Singleton => "SINGLETON".to_owned(),
            ShipStrategy::Merge(ordering) => format!("MERGE({})", self.ordering(ordering)),
            ShipStrategy::Range(ordering) => format!("RANGE({})", self.ordering(ordering)),
        }
    }

    /// What an operator works on.
    pub fn detail(&self, node: &PhysicalNode) -> String {
        match &node.op {
            PhysicalOp::Scan { table, filters, fetch, runtime_filters, .. } => {
                let mut text = table.clone();
                if !filters.is_empty() {
                    text += &format!(" where {}", self.exprs(filters, " AND "));
                }
                if !runtime_filters.is_empty() {
                    let uses: Vec<String> = runtime_filters
                        .iter()
                        .map(|f| format!("{}:{}", f.filter_id, self.expr(&f.key)))
                        .collect();
                    text += &format!(" runtime filters ({})", uses.join(", "));
                }
                text + &fetch.map(|fetch| format!(" fetch {fetch}")).unwrap_or_default()
            }
            PhysicalOp::SharedScan { shared, .. } => format!("{shared}"),
            PhysicalOp::Values { rows } => format!("{} rows", rows.len()),
            PhysicalOp::Empty { one_row } => {
                if *one_row { "one row" } else { "no rows" }.to_owned()
            }
            PhysicalOp::Filter { predicate } => self.expr(predicate),
            PhysicalOp::Project { exprs } => self.computed(exprs),
            PhysicalOp::HashJoin { join_type, build, on, filter, runtime_filters, .. } => {
                self.join(*join_type, Some(*build), on, filter.as_ref())
                    + &self.published(runtime_filters)
            }
            PhysicalOp::SortMergeJoin { join_type, on, filter, .. } => {
                self.join(*join_type, None, on, filter.as_ref())
            }
            PhysicalOp::StreamJoin { join_type, on, filter, lookup, .. } => {
                let lookup = match lookup {
                    None => "",
                    Some(Side::Left) => " looks left rows up",
                    Some(Side::Right) => " looks right rows up",
                };
                self.join(*join_type, None, on, filter.as_ref()) + lookup
            }
            PhysicalOp::NestedLoopJoin { join_type, build, filter, .. } => {
                self.join(*join_type, Some(*build), &[], filter.as_ref())
            }
            PhysicalOp::HashAggregate {
                phase, group_by, aggregates, late_keys, emission, ..
            } => {
                let leaves = match emission {
                    Emission::AtEnd => String::new(),
                    Emission::Changes => ", results change".to_owned(),
                    Emission::PeriodicChanges { every_us } => {
                        format!(", results change every {} ms", *every_us as f64 / 1_000.0)
                    }
                    Emission::Fired(closing, _) => {
                        let key = self.column(closing.key);
                        format!(", results change until the watermark passes {key}, or after")
                    }
                    Emission::Closed(closing) => {
                        let key = self.column(closing.key);
                        match closing.slices {
                            None => format!(", groups leave when the watermark passes {key}"),
                            Some(slices) => format!(
                                ", windows of {} slices from {key} leave when the watermark passes them",
                                slices.count
                            ),
                        }
                    }
                };
                self.aggregate(*phase, group_by, aggregates) + &self.fetched(late_keys) + &leaves
            }
            PhysicalOp::SortAggregate { phase, group_by, aggregates } => {
                self.aggregate(*phase, group_by, aggregates)
            }
            PhysicalOp::Sort { keys, fetch } => {
                self.keys(keys) + &fetch.map(|fetch| format!(" fetch {fetch}")).unwrap_or_default()
            }
            PhysicalOp::TopN { keys, skip, fetch } => {
                format!("{} skip {skip} fetch {fetch}", self.keys(keys))
            }
            PhysicalOp::Limit { skip, fetch } => {
                format!(
                    "skip {skip}{}",
                    fetch.map(|fetch| format!(" fetch {fetch}")).unwrap_or_default()
                )
            }
            PhysicalOp::Window { partition_by, order_by, functions } => {
                self.window(partition_by, order_by, functions)
            }
            PhysicalOp::ChangelogWindow { partition_by, order_by, functions, keep, closing } => {
                let closing = closing.as_ref().map(|closing| {
                    let late = closing.early_us.unwrap_or(0) as f64 / 1e6;
                    let time = self.column(closing.time);
                    match late > 0.0 {
                        true => format!(
                            " partitions are kept until the watermark is {late} s past {time}"
                        ),
                        false => format!(" partitions are kept until the watermark passes {time}"),
                    }
                });
                self.window(partition_by, order_by, functions)
                    + &first(*keep)
                    + &closing.unwrap_or_default()
            }
            PhysicalOp::RowWindows(spec) => {
                let of = match spec.keys.is_empty() {
                    true => String::new(),
                    false => format!(" of {}", self.list(&spec.keys)),
                };
                let order = match (spec.kind.keeps(), spec.by_arrival) {
                    (false, true) => " as they come".to_owned(),
                    (true, _) | (false, false) => format!(" by {}", self.column(spec.time)),
                };
                let leaves = match &spec.closing {
                    Some(closing) => format!(
                        ", rows leave when the watermark passes {}",
                        self.column(closing.key)
                    ),
                    None => String::new(),
                };
                format!("{}{of}{order}{leaves}", spec.kind.name())
            }
            PhysicalOp::EventTimeWindow { partition_by, order_by, functions, completion, keep } => {
                let complete = match completion.unit {
                    CompletionUnit::Partition => "partitions",
                    CompletionUnit::Row(_) => "rows",
                    CompletionUnit::Session { .. } => "sessions",
                };
                let time = self.column(completion.time);
                self.window(partition_by, order_by, functions)
                    + &first(*keep)
                    + &format!(" {complete} leave when the watermark passes {time}")
            }
            PhysicalOp::Fold => String::new(),
            PhysicalOp::Union { columns } => format!("{} inputs", columns.len()),
            PhysicalOp::Unnest { columns, .. } => {
                let outputs: Vec<ColumnId> = columns.iter().map(|column| column.output).collect();
                self.list(&outputs)
            }
            PhysicalOp::AssertSingleRow => String::new(),
            PhysicalOp::RecursiveCte { name, distinct, .. } => {
                format!("{name}{}", if *distinct { " distinct" } else { "" })
            }
            PhysicalOp::WorkTableScan { work_table, .. } => format!("{work_table}"),
        }
    }

    fn exprs(&self, exprs: &[Expr], separator: &str) -> String {
        let alternatives =
            |expr: &Expr| matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }));
        let text = |expr: &Expr| match alternatives(expr) && exprs.len() > 1 {
            true => format!("({})", self.expr(expr)),
            false => self.expr(expr),
        };
        let texts: Vec<String> = exprs.iter().map(text).collect();
        texts.join(separator)
    }

    fn keys(&self, keys: &[SortKey]) -> String {
        let key = |key: &SortKey| {
            let nulls = match (key.descending, key.nulls_first) {
                (false, true) => " NULLS FIRST",
                (true, false) => " NULLS LAST",
                (false, false) | (true, true) => "",
            };
            format!(
                "{}{}{nulls}",
                self.column(key.column),
                if key.descending { " DESC" } else { "" }
            )
        };
        let texts: Vec<String> = keys.iter().map(key).collect();
        texts.join(", ")
    }

    fn computed(&self, exprs: &[(ColumnId, Expr)]) -> String {
        let new = exprs.iter().filter(|(id, expr)| ColumnId::from_expr(expr) != Some(*id));
        let texts: Vec<String> =
            new.map(|(id, expr)| format!("{} := {}", self.column(*id), self.expr(expr))).collect();
        if texts.is_empty() {
            let ids: Vec<ColumnId> = exprs.iter().map(|(id, _)| *id).collect();
            return self.list(&ids);
        }
        texts.join(", ")
    }

    fn window(
        &self,
        partition_by: &[Expr],
        order_by: &[SortKey],
        functions: &[WindowCall],
    ) -> String {
        let calls: Vec<String> = functions.iter().map(|call| self.column(call.output)).collect();
        let partition = self.exprs(partition_by, ", ");
        let order = self.keys(order_by);
        format!("{} over (partition by {partition} order by {order})", calls.join(", "))
    }

    fn join(
        &self,
        join_type: JoinType,
        build: Option<Side>,
        on: &[(Expr, Expr)],
        filter: Option<&Expr>,
    ) -> String {
        let side = |side: Side| match side {
            Side::Left => "left",
            Side::Right => "right",
        };
        let mut text = format!("{join_type}");
        if let Some(build) = build {
            text += &format!(" build={}", side(build));
        }
        let keys: Vec<String> =
            on.iter().map(|(l, r)| format!("{} = {}", self.expr(l), self.expr(r))).collect();
        if !keys.is_empty() {
            text += &format!(" on {}", keys.join(" AND "));
        }
        if let Some(filter) = filter {
            text += &format!(" filter {}", self.expr(filter));
        }
        text
    }

    fn published(&self, filters: &[RuntimeFilterDef]) -> String {
        let ids: Vec<String> = filters.iter().map(|filter| filter.id.to_string()).collect();
        if ids.is_empty() {
            return String::new();
        }
        format!(" publishes filters ({})", ids.join(", "))
    }

    fn fetched(&self, late: &[LateKeys]) -> String {
        let keys: Vec<ColumnId> =
            late.iter().flat_map(|late| late.keys.iter().map(|(_, column)| *column)).collect();
        if keys.is_empty() {
            return String::new();
        }
        format!(" fetches {} from builds", self.list(&keys))
    }

    fn aggregate(
        &self,
        phase: AggregatePhase,
        group_by: &[(ColumnId, Expr)],
        aggregates: &[AggregateCall],
    ) -> String {
        let phase = match phase {
            AggregatePhase::Single => "single",
            AggregatePhase::Partial => "partial",
            AggregatePhase::Final => "final",
        };
        let keys: Vec<ColumnId> = group_by.iter().map(|(id, _)| *id).collect();
        let calls: Vec<ColumnId> = aggregates.iter().map(|call| call.output).collect();
        let mut text = phase.to_owned();
        if !keys.is_empty() {
            text += &format!(" by {}", self.list(&keys));
        }
        if !calls.is_empty() {
            text += &format!(" computes {}", self.list(&calls));
        }
        text
    }
}

/// How many rows of a partition matter, if not all.
fn first(keep: Option<usize>) -> String {
    keep.map(|keep| format!(" first {keep}")).unwrap_or_default()
}
