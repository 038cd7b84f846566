//! Queries over tables without an end: which keys close groups, and what has to be refused.
//!
//! Invariant: every operator over an endless input gives each result after a finite time and keeps a state that the
//! watermark bounds; a query for which that does not hold is refused here, before any strategy is looked at. A column has
//! a bound only as long as its rows leave before the watermark that they came before: what keeps rows to the end, as
//! ORDER BY and the build side of a join do, takes the bounds of their columns away.

mod bounds;

use std::cmp::Reverse;

use datafusion_common::JoinType;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::Expr;
use thalweg_planner::opened_lists;

use self::bounds::Bounds;
use crate::error::{OptimizerError, Result};
use crate::input::StreamOf;
use crate::physical::{ColumnId, ColumnTable, Side};
use crate::relational::{AggregateSpec, Rel, RelOp, RelQuery};

/// The key by which groups are complete before the input ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Closing {
    /// The output column of the key.
    pub key: ColumnId,
    /// What no later value of the key is below, over the watermark.
    pub bound: Expr,
    /// The column that stands for the watermark in the bound: the event-time column of a table.
    pub watermark: ColumnId,
}

/// Finds the closing keys of a query that runs as a stream, and refuses what cannot. Gives whether it runs as one:
/// because it is wanted, or because a table has no end.
pub(crate) fn prepare(query: &mut RelQuery, stream_of: &StreamOf, wanted: bool) -> Result<bool> {
    if query.shared.iter().any(|shared| any_endless(&shared.root, stream_of)) {
        return Err(refused(
            "an endless table in a WITH query that is read more than once",
            "write the query out at each place",
        ));
    }
    let streaming = wanted || any_endless(&query.root, stream_of);
    if streaming {
        let mut walk = Walk { stream_of, columns: &query.columns, bounds: Bounds::default() };
        walk.visit(&mut query.root)?;
    }
    Ok(streaming)
}

/// Whether the rows of a relation have no end. A limit gives them one.
pub(crate) fn reads_endless(rel: &Rel, stream_of: &StreamOf) -> bool {
    let limited =
        matches!(&rel.op, RelOp::Limit { fetch: Some(_), .. } | RelOp::Scan { fetch: Some(_), .. });
    !limited
        && (is_endless_scan(rel, stream_of)
            || rel.inputs.iter().any(|input| reads_endless(input, stream_of)))
}

/// Whether any table below has no end, whatever is read of it.
fn any_endless(rel: &Rel, stream_of: &StreamOf) -> bool {
    is_endless_scan(rel, stream_of) || rel.inputs.iter().any(|input| any_endless(input, stream_of))
}

fn is_endless_scan(rel: &Rel, stream_of: &StreamOf) -> bool {
    let RelOp::Scan { source, .. } = &rel.op else { return false };
    stream_of(source.as_ref()).is_some_and(|stream| stream.unbounded)
}

/// Whether a join can do without the end of one operand: its rows are looked up in the other one, and each is done with
/// at once.
fn probes_with(side: Side, join_type: JoinType) -> bool {
    match side {
        Side::Left => matches!(
            join_type,
            JoinType::Inner
                | JoinType::Left
                | JoinType::LeftSemi
                | JoinType::LeftAnti
                | JoinType::LeftMark
        ),
        Side::Right => matches!(
            join_type,
            JoinType::Inner
                | JoinType::Right
                | JoinType::RightSemi
                | JoinType::RightAnti
                | JoinType::RightMark
        ),
    }
}

fn refused(what: &str, hint: &str) -> OptimizerError {
    OptimizerError::Unsupported {
        message: format!("{what} is not supported"),
        hint: Some(hint.to_string()),
    }
}

struct Walk<'a> {
    stream_of: &'a StreamOf,
    columns: &'a ColumnTable,
    bounds: Bounds,
}

impl Walk<'_> {
    /// Gives whether the rows have no end.
    fn visit(&mut self, rel: &mut Rel) -> Result<bool> {
        let mut endless = Vec::with_capacity(rel.inputs.len());
        for input in &mut rel.inputs {
            endless.push(self.visit(input)?);
        }
        let any = endless.iter().any(|endless| *endless);
        match &mut rel.op {
            RelOp::Scan { source, columns, fetch, .. } => {
                let Some(stream) = (self.stream_of)(source.as_ref()) else { return Ok(false) };
                let time = columns.iter().find(|(_, at)| Some(*at) == stream.event_time);
                if let Some((id, _)) = time {
                    self.bounds.add_event_time(*id);
                }
                return Ok(stream.unbounded && fetch.is_none());
            }
            RelOp::Compute { exprs } => self.bounds.compute(exprs, self.columns),
            RelOp::Unnest { columns, .. } => self.bounds.unnest(columns),
            RelOp::Union { targets, columns } => {
                for (at, target) in targets.iter().enumerate() {
                    let sources: Vec<ColumnId> = columns.iter().map(|input| input[at]).collect();
                    self.bounds.unite(*target, &sources);
                }
            }
            RelOp::Aggregate(spec) => {
                spec.closing = self.closing(spec);
                self.keep_implied(spec);
                if any && spec.closing.is_none() {
                    return Err(refused(
                        "GROUP BY over an endless table by keys that no watermark closes",
                        "declare a WATERMARK for the table and group by windows of its column: TUMBLE(TABLE t, \
                         DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
                    ));
                }
            }
            RelOp::Sort { .. } if any => {
                return Err(refused(
                    "ORDER BY over an endless table",
                    "leave it out, or order the rows of a bounded query",
                ));
            }
            RelOp::Window { .. } if any => {
                return Err(refused("a window function over an endless table", BOUNDED));
            }
            RelOp::Join(spec) if any => {
                if endless == [true, true] {
                    return Err(refused("a join of two endless tables", BOUNDED));
                }
                let side = if endless[0] { Side::Left } else { Side::Right };
                self.forget_bounded(&rel.inputs, &endless);
                if !probes_with(side, spec.join_type) {
                    return Err(refused(
                        "a join that waits for the end of an endless table",
                        "only rows of the endless table may be kept for which there is no partner",
                    ));
                }
            }
            RelOp::AssertSingleRow | RelOp::RecursiveCte { .. } if any => {
                return Err(refused("such a subquery over an endless table", BOUNDED));
            }
            RelOp::Join(_)
            | RelOp::Window { .. }
            | RelOp::Sort { .. }
            | RelOp::AssertSingleRow
            | RelOp::RecursiveCte { .. } => self.forget_bounded(&rel.inputs, &endless),
            RelOp::SharedScan { .. }
            | RelOp::WorkTableScan { .. }
            | RelOp::Values { .. }
            | RelOp::Empty { .. }
            | RelOp::Filter { .. } => {}
            // The first rows are all that is wanted: the query ends with them.
            RelOp::Limit { fetch, .. } => return Ok(any && fetch.is_none()),
        }
        Ok(any)
    }

    /// An operator keeps rows of its inputs that end, or gives them again with later ones of another input.
    fn forget_bounded(&mut self, inputs: &[Rel], endless: &[bool]) {
        for (input, _) in inputs.iter().zip(endless).filter(|(_, endless)| !**endless) {
            self.bounds.forget(input.output.iter().copied());
        }
    }

    /// A group leaves when its closing key is behind. Keys that follow from that one are not behind before; of others
    /// nothing is known.
    fn keep_implied(&mut self, spec: &AggregateSpec) {
        let closing = spec.closing.as_ref().map(|closing| closing.bound.clone());
        for (output, _) in &spec.group_by {
            let implied = self.bounds.of(*output).zip(closing.as_ref());
            if !implied.is_some_and(|(bound, closing)| contains(bound, closing)) {
                self.bounds.forget([*output]);
            }
        }
    }

    /// Of the keys with bounds the one that closes first, which is at the bottom of others: ends of windows that come
    /// out of a list lie closer together than the starts that such windows share.
    fn closing(&self, spec: &AggregateSpec) -> Option<Closing> {
        if spec.grouping_sets.is_some() {
            return None;
        }
        let bounded = spec.group_by.iter().filter_map(|(output, key)| {
            let bound = self.bounds.of(*key)?.clone();
            let watermark = *ColumnId::referenced(&bound).iter().next()?;
            Some(Closing { key: *output, bound, watermark })
        });
        bounded.max_by_key(|closing| (opened_lists(&closing.bound), Reverse(size(&closing.bound))))
    }
}

/// Whether an expression is a function of another.
fn contains(expr: &Expr, part: &Expr) -> bool {
    expr.exists(|node| Ok(node == part)).unwrap_or(false)
}

/// How many parts an expression has.
fn size(expr: &Expr) -> usize {
    let mut parts = 0;
    let counted = expr.apply(|_| {
        parts += 1;
        Ok(TreeNodeRecursion::Continue)
    });
    counted.map_or(0, |_| parts)
}

const BOUNDED: &str = "give the table an end, or run the query over a bounded one";
