//! Queries that run as streams: what each operator does with rows that go on coming.
//!
//! The walk goes from the tables up and notes for each relation how its rows come ([`Flow`]). A grouping by a key that
//! the watermark closes gives each result once; any other gives changes. Two streams are joined with both sides kept.
//! What can only be answered at the end (ORDER BY, a recursive query) gets the rows that are left of a changelog then,
//! if there is an end, and is refused else. A column has a bound only as long as its rows leave before the watermark
//! that they came before: what keeps rows to the end or withdraws them takes the bounds of their columns away.

mod bounds;
mod completion;
mod expiries;
mod flow;
mod implied_keys;
mod keep_last;
mod ranks;
mod row_windows;
mod shared_scans;
mod slices;
mod windows;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use datafusion_common::JoinType;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::Expr;
use thalweg_planner::{Emit, EmitWhen, opened_lists};

use self::bounds::Bounds;
pub use self::completion::{Completion, CompletionUnit, Reach};
use self::expiries::replaced;
pub use self::flow::{Closing, Emission, Expiry, Slices};
pub(crate) use self::flow::{Flow, join_withdraws};
pub(crate) use self::shared_scans::share;
use crate::error::{OptimizerError, Result};
use crate::input::{ColumnBound, OptimizerInput, StreamOf};
use crate::options::{OptimizerOptions, ResultUse};
use crate::physical::{Channel, ColumnId, ColumnTable, PhysicalOp, Side};
use crate::relational::{AggregateSpec, Rel, RelOp, RelQuery};
use crate::search::Search;

/// What was decided about a query.
#[derive(Default)]
pub(crate) struct Prepared {
    /// Whether it runs as a stream: because it is wanted, or because a table has no end.
    pub streaming: bool,
    /// What columns of the result are never below.
    pub bounds: Vec<ColumnBound>,
}

/// Decides how a query runs as a stream, and refuses what cannot.
pub(crate) fn prepare(
    query: &mut RelQuery,
    input: &OptimizerInput,
    options: &OptimizerOptions,
) -> Result<Prepared> {
    let stream_of = &input.stream_of;
    let stream = |rel: &Rel| any_stream(rel, stream_of);
    let streaming = options.streaming
        || stream(&query.root)
        || query.shared.iter().any(|shared| stream(&shared.root));
    if !streaming {
        look_nothing_up(&mut query.root);
        query.shared.iter_mut().for_each(|shared| look_nothing_up(&mut shared.root));
        return Ok(Prepared::default());
    }
    let mut walk = Walk {
        stream_of,
        options,
        columns: &mut query.columns,
        bounds: Bounds::default(),
        shared: BTreeMap::new(),
        emit: input.emit,
        obeyed: false,
    };
    for shared in &mut query.shared {
        let flow = walk.visit(&mut shared.root, false)?;
        if !flow.endless {
            fold(&mut shared.root);
        }
        walk.shared.insert(shared.id, shared.root.flow);
    }
    walk.visit(&mut query.root, false)?;
    walk.complete_rows(&mut query.root);
    let bounds = walk.bounds_of(&query.output);
    let open = query.root.flow.live && !walk.obeyed;
    if input.emit.is_some_and(|emit| open && emit.when != EmitWhen::Update) {
        return Err(refused(
            "EMIT in a query whose groups no watermark closes",
            "declare a WATERMARK for the table and group by windows of its column, or write EMIT ON UPDATE",
        ));
    }
    if query.root.flow.changes && options.result == ResultUse::Rows {
        if query.root.flow.endless {
            return Err(refused(
                "a result that goes on changing",
                "the table has no end, so that no row is final: use --format changelog (.mode changelog) to see the \
                 changes, a materialized view, a table with a PRIMARY KEY to insert into, or group by windows that a \
                 watermark closes",
            ));
        }
        fold(&mut query.root);
    }
    Ok(Prepared { streaming: true, bounds })
}

/// What has an end is all there when it is joined.
fn look_nothing_up(rel: &mut Rel) {
    if let RelOp::Join(spec) = &mut rel.op {
        spec.lookup = false;
    }
    rel.inputs.iter_mut().for_each(look_nothing_up);
}

/// Whether any table below has no end or withdraws rows, whatever is read of it.
fn any_stream(rel: &Rel, stream_of: &StreamOf) -> bool {
    let here = match &rel.op {
        RelOp::Scan { source, .. } => {
            stream_of(source.as_ref()).is_some_and(|stream| stream.unbounded || stream.changes)
        }
        _ => false,
    };
    here || rel.inputs.iter().any(|input| any_stream(input, stream_of))
}

/// Whether rows that leave an operator withdraw others which left before.
pub(crate) fn withdraws(op: &PhysicalOp, inputs: &[Channel], search: &Search<'_>) -> bool {
    let passed = inputs.iter().any(|channel| channel.node.changes);
    match op {
        PhysicalOp::Scan { source, .. } => {
            (search.stream_of)(source.as_ref()).is_some_and(|stream| stream.changes)
        }
        PhysicalOp::SharedScan { shared, .. } => search.changing.contains(shared),
        PhysicalOp::StreamJoin { lookup: Some(side), .. } => match side {
            Side::Left => inputs[1].node.changes,
            Side::Right => inputs[0].node.changes,
        },
        PhysicalOp::StreamJoin { join_type, patient, .. } => {
            passed || (join_withdraws(*join_type) && !patient)
        }
        PhysicalOp::HashAggregate { emission, .. } => emission.withdraws(),
        PhysicalOp::ChangelogWindow { .. } => true,
        PhysicalOp::RowWindows(_) => false,
        PhysicalOp::Filter { .. }
        | PhysicalOp::Project { .. }
        | PhysicalOp::HashJoin { .. }
        | PhysicalOp::NestedLoopJoin { .. }
        | PhysicalOp::Union { .. }
        | PhysicalOp::Unnest { .. }
        | PhysicalOp::Limit { .. } => passed,
        PhysicalOp::Values { .. }
        | PhysicalOp::Empty { .. }
        | PhysicalOp::EventTimeWindow { .. }
        | PhysicalOp::SortMergeJoin { .. }
        | PhysicalOp::SortAggregate { .. }
        | PhysicalOp::Sort { .. }
        | PhysicalOp::TopN { .. }
        | PhysicalOp::Window { .. }
        | PhysicalOp::Fold
        | PhysicalOp::AssertSingleRow
        | PhysicalOp::RecursiveCte { .. }
        | PhysicalOp::WorkTableScan { .. } => false,
    }
}

/// Whether a relation or one below it has no end.
pub(crate) fn has_endless(rel: &Rel) -> bool {
    rel.flow.endless || rel.inputs.iter().any(has_endless)
}

/// Puts the rows that are left at the end in the place of a changelog.
fn fold(rel: &mut Rel) {
    if !rel.flow.live {
        return;
    }
    if rel.flow.changes {
        let changes = take(rel);
        *rel = Rel::new(RelOp::Fold, vec![changes]);
    }
    rel.flow = Flow::default();
}

/// Leaves a relation empty handed, to be put somewhere else.
fn take(rel: &mut Rel) -> Rel {
    let nothing = RelOp::Empty { one_row: false, columns: Vec::new() };
    std::mem::replace(rel, Rel::new(nothing, Vec::new()))
}

/// Whether a join can do without the end of one operand: its rows are looked up in the other one, and each is done with
/// at once.
pub(crate) fn probes_with(side: Side, join_type: JoinType) -> bool {
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

/// Whether both sides of a join are kept, as rows of either may still come. `live` tells which sides are streams.
pub(crate) fn keeps_both(live: [bool; 2], join_type: JoinType) -> bool {
    match live {
        [true, true] => true,
        [true, false] => !probes_with(Side::Left, join_type),
        [false, true] => !probes_with(Side::Right, join_type),
        [false, false] => false,
    }
}

fn refused(what: &str, hint: &str) -> OptimizerError {
    OptimizerError::Unsupported {
        message: format!("{what} is not supported"),
        hint: Some(hint.to_string()),
    }
}

/// Whether EMIT says no more than what holds without it.
fn at_close(emit: &Emit) -> bool {
    emit.when == EmitWhen::WindowClose && emit.allow_lateness_us == 0
}

struct Walk<'a> {
    stream_of: &'a StreamOf,
    options: &'a OptimizerOptions,
    columns: &'a mut ColumnTable,
    bounds: Bounds,
    /// How the rows of shared plans come.
    shared: BTreeMap<u32, Flow>,
    /// When results leave of groups that a watermark closes.
    emit: Option<Emit>,
    /// Whether there are such, or others whose results leave as the query says.
    obeyed: bool,
}

impl Walk<'_> {
    /// Decides about a relation and all below it; `in_join` tells that the operator above is a join.
    fn visit(&mut self, rel: &mut Rel, in_join: bool) -> Result<Flow> {
        let joins = matches!(rel.op, RelOp::Join(_));
        for input in &mut rel.inputs {
            self.visit(input, joins)?;
        }
        let input = rel.inputs.iter().fold(Flow::default(), |flow, input| flow.and(input.flow));
        rel.flow = match &mut rel.op {
            RelOp::Scan { .. } => self.scan(rel),
            RelOp::SharedScan { shared, columns } => {
                for (here, there) in columns.iter() {
                    if let Some(bound) = self.bounds.of(*there).cloned() {
                        self.bounds.set(*here, bound);
                    }
                }
                self.shared.get(shared).copied().unwrap_or_default()
            }
            RelOp::Compute { exprs } => {
                self.bounds.compute(exprs, self.columns);
                input
            }
            RelOp::Unnest { columns, .. } => {
                self.bounds.unnest(columns);
                input
            }
            RelOp::Union { targets, columns } => {
                for (at, target) in targets.iter().enumerate() {
                    let sources: Vec<ColumnId> = columns.iter().map(|input| input[at]).collect();
                    self.bounds.unite(*target, &sources, self.columns);
                }
                input
            }
            RelOp::Aggregate(spec) => {
                spec.emission = match self.closing(spec) {
                    Some(closing) => self.emission(closing),
                    None if input.live => self.changes(),
                    None => Emission::AtEnd,
                };
                let changes = spec.emission.withdraws();
                let spec = spec.clone();
                self.keep_implied(&spec);
                let flow = Flow { changes, ..input };
                if self.options.strategies.sliced_windows && !input.changes {
                    slices::put_together(rel, flow, &self.bounds, self.columns);
                }
                implied_keys::compute_behind(rel, flow, |spec| self.closing(spec));
                flow
            }
            RelOp::Join(_) => self.join(rel, in_join),
            RelOp::Filter { conjuncts } => {
                if let RelOp::Window { functions, keep, .. } = &mut rel.inputs[0].op
                    && input.live
                {
                    *keep = ranks::rows_wanted(conjuncts, functions);
                }
                input
            }
            RelOp::RowWindows(_) if input.live => return self.row_windows(rel),
            RelOp::Window { .. } if input.live => self.window(rel),
            RelOp::Sort { .. } | RelOp::Limit { .. } if input.live => return self.ordered(rel),
            RelOp::AssertSingleRow if input.live && is_one_row(&rel.inputs[0]) => {
                *rel = take(&mut rel.inputs[0]);
                rel.flow
            }
            RelOp::AssertSingleRow | RelOp::RecursiveCte { .. } if input.endless => {
                return Err(refused(
                    "such a subquery over an endless table",
                    "give the table an end, or run the query over a bounded one",
                ));
            }
            RelOp::Window { .. }
            | RelOp::RowWindows(_)
            | RelOp::Sort { .. }
            | RelOp::Limit { .. }
            | RelOp::AssertSingleRow
            | RelOp::Fold
            | RelOp::RecursiveCte { .. } => {
                self.at_end(&mut rel.inputs);
                Flow::default()
            }
            RelOp::WorkTableScan { .. } | RelOp::Values { .. } | RelOp::Empty { .. } => {
                Flow::default()
            }
        };
        Ok(rel.flow)
    }

    /// Takes what a table knows of its columns; a column of its own stands for the watermark of each type.
    fn take_bounds(&mut self, known: &[ColumnBound], columns: &[(ColumnId, usize)]) {
        let mut watermarks: Vec<(&DataType, ColumnId)> = Vec::new();
        for ColumnBound { column, bound, watermark, watermark_type } in known {
            let Some((id, _)) = columns.iter().find(|(_, at)| at == column) else { continue };
            let told = watermarks.iter().find(|(of, _)| *of == watermark_type).map(|(_, id)| *id);
            let told = told.unwrap_or_else(|| {
                let id = self.columns.add("watermark", watermark_type.clone(), true);
                watermarks.push((watermark_type, id));
                id
            });
            self.bounds.set(*id, replaced(bound, *watermark, told));
        }
    }

    /// What is known of the columns of the result.
    fn bounds_of(&self, output: &[(ColumnId, String)]) -> Vec<ColumnBound> {
        let bound = |(column, (id, _)): (usize, &(ColumnId, String))| {
            let (bound, watermark) = self.bounds.of_expr(&id.expr(), self.columns)?;
            let watermark_type = self.columns.get(watermark).data_type.clone();
            Some(ColumnBound { column, bound, watermark, watermark_type })
        };
        output.iter().enumerate().filter_map(bound).collect()
    }

    fn scan(&mut self, rel: &Rel) -> Flow {
        let RelOp::Scan { source, columns, fetch, .. } = &rel.op else { return Flow::default() };
        let wanted = Flow { live: self.options.streaming, ..Flow::default() };
        let Some(stream) = (self.stream_of)(source.as_ref()) else { return wanted };
        let time = columns.iter().find(|(_, at)| Some(*at) == stream.event_time);
        if let Some((id, _)) = time {
            self.bounds.add_event_time(*id);
        }
        self.take_bounds(&stream.bounds, columns);
        let endless = stream.unbounded && fetch.is_none();
        Flow {
            live: wanted.live || stream.unbounded || stream.changes,
            endless,
            changes: stream.changes,
        }
    }

    fn join(&mut self, rel: &mut Rel, in_join: bool) -> Flow {
        let RelOp::Join(spec) = &mut rel.op else { return Flow::default() };
        let [left, right] = [rel.inputs[0].flow, rel.inputs[1].flow];
        let flow = left.and(right);
        spec.lookup &= left.live && right.endless;
        if spec.lookup {
            // What becomes of the right side later changes nothing.
            self.bounds.forget(rel.inputs[1].output.iter().copied());
            return Flow { changes: left.changes, ..flow };
        }
        if !keeps_both([left.live, right.live], spec.join_type) {
            // Rows of the side that ends are kept, or given again with later ones of the stream.
            for input in rel.inputs.iter().filter(|input| flow.live && !input.flow.live) {
                self.bounds.forget(input.output.iter().copied());
            }
            if !flow.live {
                self.forget(&rel.inputs);
            }
            return flow;
        }
        let alone = !in_join && !rel.inputs.iter().any(is_join);
        let sides = [rel.inputs[0].output.as_slice(), rel.inputs[1].output.as_slice()];
        let (expiries, inherited) = match alone {
            true => expiries::of_join(spec, sides, &self.bounds, self.columns),
            false => Default::default(),
        };
        self.forget(&rel.inputs);
        inherited.into_iter().for_each(|(column, bound)| self.bounds.set(column, bound));
        // EMIT ON UPDATE wants to see rows that a later match may replace.
        let at_once = self.emit.is_some_and(|emit| emit.when == EmitWhen::Update);
        spec.patient = expiries.len() == 2 && !flow.changes && !at_once;
        let withdraws = join_withdraws(spec.join_type) && !spec.patient;
        spec.expiry = expiries;
        Flow { changes: flow.changes || withdraws, ..flow }
    }

    /// An operator waits for the end of its inputs.
    fn at_end(&mut self, inputs: &mut [Rel]) {
        self.forget(inputs);
        inputs.iter_mut().for_each(fold);
    }

    /// The rows with the columns of these inputs come later than the watermark lets expect, or again.
    fn forget(&mut self, inputs: &[Rel]) {
        for input in inputs {
            self.bounds.forget(input.output.iter().copied());
        }
    }

    /// A group leaves when its closing key is behind. Keys that follow from that one are not behind before; of others
    /// nothing is known.
    fn keep_implied(&mut self, spec: &AggregateSpec) {
        let closing = spec.emission.done_when_closed().map(|closing| &closing.bound);
        for (output, _) in &spec.group_by {
            let implied = self.bounds.of(*output).zip(closing);
            if !implied.is_some_and(|(bound, closing)| contains(bound, closing)) {
                self.bounds.forget([*output]);
            }
        }
    }

    /// When changes leave of groups that nothing closes.
    fn changes(&mut self) -> Emission {
        match self.emit.map(|emit| emit.when) {
            Some(EmitWhen::Periodic { every_us }) => {
                self.obeyed = true;
                Emission::PeriodicChanges { every_us }
            }
            Some(EmitWhen::WindowClose | EmitWhen::Update) | None => Emission::Changes,
        }
    }

    /// When results leave of groups that a key closes.
    fn emission(&mut self, closing: Closing) -> Emission {
        self.obeyed = true;
        match self.emit.filter(|emit| !at_close(emit)) {
            None => Emission::Closed(closing),
            Some(emit) => Emission::Fired(closing, emit),
        }
    }

    /// Of the keys with bounds the one that closes first, which is at the bottom of others: ends of windows that come
    /// out of a list lie closer together than the starts that such windows share.
    fn closing(&self, spec: &AggregateSpec) -> Option<Closing> {
        match spec.grouping_sets {
            Some(_) => None,
            None => self.first_to_close(spec.group_by.iter().copied()),
        }
    }

    /// Of columns with bounds the one that closes first, by output and input columns.
    fn first_to_close(
        &self,
        columns: impl Iterator<Item = (ColumnId, ColumnId)>,
    ) -> Option<Closing> {
        let bounded = columns.filter_map(|(output, key)| {
            let bound = self.bounds.of(key)?.clone();
            let watermark = *ColumnId::referenced(&bound).iter().next()?;
            Some(Closing { key: output, bound, watermark, slices: None })
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

/// Whether there is one row at any time: an aggregation without keys, or what is computed of it.
fn is_one_row(rel: &Rel) -> bool {
    match &rel.op {
        RelOp::Aggregate(spec) => spec.group_by.is_empty() && spec.grouping_sets.is_none(),
        RelOp::Compute { .. } => is_one_row(&rel.inputs[0]),
        _ => false,
    }
}

fn is_join(rel: &Rel) -> bool {
    match &rel.op {
        RelOp::Join(_) => true,
        RelOp::Filter { .. } => is_join(&rel.inputs[0]),
        _ => false,
    }
}
