//! Why a window does not close: which split of which table holds the watermark of an operator back.
//!
//! The watermark of an operator is the least of the splits before it that are not idle; when all are idle it is where the
//! furthest of them left it.

use std::collections::{BTreeSet, HashMap};

use arrow::array::TimestampMicrosecondArray;
use arrow::util::display::array_value_to_string;
use thalweg_optimizer::PhysicalPlan;
use thalweg_optimizer::physical::{PhysicalNode, PhysicalOp};
use thalweg_runtime::graph::VertexId;
use thalweg_runtime::job::{JobHandle, SplitReport};

/// How far a job's splits are at a moment.
pub(super) struct Splits {
    reports: Vec<SplitReport>,
    /// The table that a scan's vertex reads.
    tables: HashMap<VertexId, String>,
}

/// What holds a watermark back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    /// The table.
    pub(super) table: String,
    /// The split, as its source calls it.
    pub(super) split: String,
    /// How far the split is, in microseconds; `None` before its first row.
    pub(super) watermark_us: Option<i64>,
    /// Whether it is idle, and so are all others.
    pub(super) idle: bool,
}

impl Splits {
    /// Of a job that runs a plan.
    pub(super) fn of(handle: &JobHandle, plan: &PhysicalPlan) -> Self {
        let mut names = HashMap::new();
        let shared = plan.shared.iter().map(|shared| &shared.root);
        shared.chain([&plan.root]).for_each(|root| name_tables(root, &mut names));
        let tables = handle.operators().into_iter().filter_map(|report| {
            let name = names.get(&report.plan_node)?;
            Some((report.vertex, name.clone()))
        });
        Splits { tables: tables.collect(), reports: handle.split_times() }
    }

    /// How far the splits of a scan are that are not idle, if there are such and all of them have told it.
    pub(super) fn watermark_of(&self, scan: VertexId) -> Option<i64> {
        let own = self.reports.iter().filter(|split| split.vertex == scan && !split.time.idle);
        let told = own.map(|split| split.time.watermark_us);
        told.min_by_key(|at| at.unwrap_or(i64::MIN)).flatten()
    }

    /// What holds back the watermark of an operator that is behind these vertices; `None` when nothing does.
    pub(super) fn holder(&self, upstream: &BTreeSet<VertexId>) -> Option<Holder> {
        let all = || self.reports.iter().filter(|split| upstream.contains(&split.vertex));
        let reached = |split: &&SplitReport| split.time.watermark_us.unwrap_or(i64::MIN);
        let speaking = all().filter(|split| !split.time.idle).min_by_key(reached);
        let split = speaking.or_else(|| all().max_by_key(reached))?;
        Some(Holder {
            table: self.tables.get(&split.vertex).cloned().unwrap_or_default(),
            split: split.name.clone(),
            watermark_us: split.time.watermark_us,
            idle: split.time.idle,
        })
    }
}

fn name_tables(node: &PhysicalNode, names: &mut HashMap<u32, String>) {
    if let PhysicalOp::Scan { table, .. } = &node.op {
        names.insert(node.id, table.clone());
    }
    node.inputs.iter().for_each(|input| name_tables(&input.node, names));
}

/// One line for a person.
pub(super) fn text(holder: &Holder) -> String {
    let Holder { table, split, watermark_us, idle } = holder;
    let at = match watermark_us {
        Some(at) => format!("at {}", instant(*at)),
        None => "no row yet".to_string(),
    };
    match idle {
        true => format!("{table}, {split}: {at}, idle as all others are"),
        false => format!("{table}, {split}: {at}"),
    }
}

/// A point in event time as text.
pub(super) fn instant(micros: i64) -> String {
    let array = TimestampMicrosecondArray::from(vec![micros]);
    match array_value_to_string(&array, 0) {
        Ok(text) => text.replacen('T', " ", 1),
        Err(_) => format!("{micros} µs"),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_runtime::job::SplitTime;

    use super::*;

    fn splits(reports: &[(u32, &str, Option<i64>, bool)]) -> Splits {
        let report = |&(vertex, name, watermark_us, idle): &(u32, &str, Option<i64>, bool)| {
            let time = SplitTime { watermark_us, idle };
            SplitReport { vertex: VertexId(vertex), name: name.to_string(), time }
        };
        Splits {
            reports: reports.iter().map(report).collect(),
            tables: HashMap::from([(VertexId(0), "a".into()), (VertexId(1), "b".into())]),
        }
    }

    fn told(splits: &Splits) -> Option<String> {
        splits.holder(&BTreeSet::from([VertexId(0), VertexId(1)])).map(|holder| text(&holder))
    }

    #[test]
    fn the_slowest_split_that_speaks_is_named() {
        let some = splits(&[(0, "x.csv", Some(5_000_000), false), (1, "y.csv", Some(9), true)]);
        assert_eq!(told(&some).as_deref(), Some("a, x.csv: at 1970-01-01 00:00:05"));
        let none_yet = splits(&[(0, "x.csv", Some(5), false), (1, "y.csv", None, false)]);
        assert_eq!(told(&none_yet).as_deref(), Some("b, y.csv: no row yet"));
        assert_eq!(none_yet.watermark_of(VertexId(1)), None);
        let idle = splits(&[(0, "x.csv", Some(0), true), (1, "y.csv", Some(1_500_000), true)]);
        let wanted = "b, y.csv: at 1970-01-01 00:00:01.500, idle as all others are";
        assert_eq!(told(&idle).as_deref(), Some(wanted));
        assert_eq!(told(&splits(&[])), None);
    }
}
