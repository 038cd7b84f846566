//! The rows that came too late for a query's operators, as a table.
//!
//! The rows of all operators that can drop some are in one table: who dropped them, the watermark that had passed them
//! and why that made them late, and then the columns of the operators' inputs, those of one name and type once. Of a job
//! that runs, or has run, they are read as they are; a query runs when its late rows are read, and tells them as they
//! come. Invariant: a row is told exactly once, or counted as forgotten.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::task::Context;

use arrow::array::{ArrayRef, StringViewArray, TimestampMicrosecondArray, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion_common::Constraints;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use thalweg_optimizer::TableStatistics;
use thalweg_optimizer::physical::Provenance;
use thalweg_runtime::graph::VertexId;
use thalweg_runtime::job::{JobContext, JobHandle, LateBatch};
use thalweg_runtime::operators::{OperatorContext, PortId};
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};
use thalweg_runtime::{Error, Result};

use super::scan::ReadLayout;
use super::streaming::{StreamFormat, StreamProgress, StreamSource, StreamSplit};
use crate::catalog::Table;

/// The connector's registered name.
pub const CONNECTOR: &str = "late_rows";

/// The living tables by number.
static TABLES: LazyLock<Mutex<HashMap<u64, Weak<LateTable>>>> = LazyLock::new(Mutex::default);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The columns before those of the operators.
const OWN_COLUMNS: [&str; 3] = ["operator", "watermark", "reason"];

/// An input: which of the job's graphs, the operator's vertex there, its place in the chain and the port.
pub(crate) type InputPlace = (usize, VertexId, usize, PortId);

/// An input of an operator whose rows may be late.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LateInput {
    /// Where it is.
    pub(crate) place: InputPlace,
    /// The operator as it is shown.
    pub(crate) operator: String,
    /// The columns; none where a column is not told.
    pub(crate) fields: Vec<Option<Field>>,
}

/// Where the rows are.
pub(crate) enum LateFrom {
    /// With jobs that have begun, and keep some.
    Jobs(Vec<Arc<JobHandle>>),
    /// With a job that is begun to read them.
    Query(Box<dyn Fn() -> Result<Arc<JobHandle>> + Send + Sync>),
}

/// See the module.
pub(crate) struct LateTable {
    id: u64,
    layout: LateLayout,
    from: LateFrom,
    unbounded: bool,
}

impl LateTable {
    /// The late rows of these inputs; whether they may come for ever.
    pub(crate) fn new(inputs: &[LateInput], from: LateFrom, unbounded: bool) -> Arc<Self> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let table = Arc::new(LateTable { id, layout: LateLayout::new(inputs), from, unbounded });
        TABLES.lock().insert(id, Arc::downgrade(&table));
        table
    }
}

impl Drop for LateTable {
    fn drop(&mut self) {
        TABLES.lock().remove(&self.id);
    }
}

impl fmt::Debug for LateTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateTable").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Table for LateTable {
    fn schema(&self) -> SchemaRef {
        self.layout.schema.clone()
    }

    fn connector(&self) -> &str {
        CONNECTOR
    }

    fn options(&self) -> Value {
        serde_json::json!({ "table": self.id })
    }

    fn statistics(&self) -> TableStatistics {
        let provenance = Provenance::Default;
        TableStatistics { rows: None, provenance, bytes: None, columns: Vec::new() }
    }

    fn is_unbounded(&self) -> bool {
        self.unbounded
    }

    fn constraints(&self) -> Option<&Constraints> {
        None
    }
}

/// Which column of the table a column of an input is.
struct LateLayout {
    schema: SchemaRef,
    /// By place: how the operator is shown, and the position of each input column.
    inputs: HashMap<InputPlace, (String, Vec<Option<usize>>)>,
}

impl LateLayout {
    fn new(inputs: &[LateInput]) -> Self {
        let mut columns: Vec<(Field, usize)> = Vec::new();
        let places = inputs.iter().map(|input| {
            let mut before: HashMap<&str, usize> = HashMap::new();
            let positions = input.fields.iter().map(|field| {
                // The second column of a name in one input is another one.
                let field = field.as_ref()?;
                let nth = before.entry(field.name()).or_default();
                let same = |(known, n): &(Field, usize)| known == field && n == nth;
                let position = columns.iter().position(same).unwrap_or_else(|| {
                    columns.push((field.clone(), *nth));
                    columns.len() - 1
                });
                *nth += 1;
                Some(position + OWN_COLUMNS.len())
            });
            (input.place, (input.operator.clone(), positions.collect()))
        });
        let places = places.collect();
        let names = names(columns.iter().map(|(field, _)| field.name().as_str()));
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        let types = [DataType::Utf8View, micros, DataType::Utf8View];
        let types =
            types.into_iter().chain(columns.into_iter().map(|(f, _)| f.data_type().clone()));
        let fields = names.into_iter().zip(types).map(|(name, of)| Field::new(name, of, true));
        LateLayout { schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())), inputs: places }
    }

    /// The rows with the wanted columns of the table.
    fn columns(&self, run: usize, late: &LateBatch, wanted: &[usize]) -> Result<Vec<ArrayRef>> {
        let place = (run, late.vertex, late.position, late.port);
        let (operator, positions) = self
            .inputs
            .get(&place)
            .ok_or_else(|| Error::Internal(format!("late rows of an unknown input {place:?}")))?;
        let rows = late.rows.num_rows();
        let column = |&at: &usize| -> ArrayRef {
            match at {
                0 => Arc::new(StringViewArray::from_iter_values(vec![operator; rows])),
                1 => Arc::new(TimestampMicrosecondArray::from(vec![late.watermark_us; rows])),
                2 => Arc::new(StringViewArray::from_iter_values(vec![REASON; rows])),
                _ => match positions.iter().position(|known| *known == Some(at)) {
                    Some(own) => late.rows.column(own).clone(),
                    None => new_null_array(self.schema.field(at).data_type(), rows),
                },
            }
        };
        Ok(wanted.iter().map(column).collect())
    }
}

/// Why rows are late.
const REASON: &str = "the watermark had passed everything that the row belongs to";

/// Names that are all different: the table's own first, then those of columns, with numbers where they would be alike.
fn names<'a>(columns: impl Iterator<Item = &'a str>) -> Vec<String> {
    let columns: Vec<&str> = columns.collect();
    // A user's column keeps its name.
    let own = OWN_COLUMNS.iter().map(|name| match columns.contains(name) {
        true => format!("late_{name}"),
        false => name.to_string(),
    });
    let mut names: Vec<String> = own.collect();
    for column in columns {
        let numbered = (1..).map(|n| format!("{column}_{n}"));
        let mut candidates = std::iter::once(column.to_string()).chain(numbered);
        names.extend(candidates.find(|name| !names.contains(name)));
    }
    names
}

/// Reads late rows.
#[derive(Debug, Default)]
pub struct LateRowsConnector;

impl SourceConnector for LateRowsConnector {
    fn open(&self, spec: &SourceSpec, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        let id = spec.options.get("table").and_then(Value::as_u64);
        let table = id.and_then(|id| TABLES.lock().get(&id).and_then(Weak::upgrade));
        let table = table.ok_or_else(|| Error::Internal("late rows of no table".into()))?;
        Ok(StreamSource::open(spec, Box::new(LateFormat { table }), job))
    }
}

struct LateFormat {
    table: Arc<LateTable>,
}

impl StreamFormat for LateFormat {
    fn splits(&self) -> u64 {
        1
    }

    fn open(
        &self,
        _split: u64,
        position: Option<&Value>,
        layout: &ReadLayout,
        job: &Arc<JobContext>,
    ) -> Result<Box<dyn StreamSplit>> {
        if position.is_some() {
            return Err(Error::Unsupported("late rows from a place in the middle".into()));
        }
        let rows = match &self.table.from {
            LateFrom::Jobs(handles) => {
                let all = handles.iter().enumerate().flat_map(|(run, handle)| {
                    let (late, forgotten) = handle.kept_late_rows();
                    job.forgotten_rows.fetch_add(forgotten, Ordering::Relaxed);
                    late.into_iter().map(move |late| (run, late))
                });
                Rows::Kept(all.collect::<Vec<_>>().into_iter())
            }
            LateFrom::Query(begin) => {
                let handle = begin()?;
                let ended = handle.ended().boxed();
                Rows::Coming { handle, ended }
            }
        };
        let (table, wanted) = (self.table.clone(), layout.columns.clone());
        Ok(Box::new(LateSplit { table, wanted, rows, told: 0 }))
    }

    fn rows(&self) -> Option<u64> {
        None
    }
}

enum Rows {
    Kept(std::vec::IntoIter<(usize, LateBatch)>),
    Coming {
        handle: Arc<JobHandle>,
        /// Wakes the reader when the job has ended.
        ended: BoxFuture<'static, Result<()>>,
    },
}

struct LateSplit {
    table: Arc<LateTable>,
    /// The columns of the table to be delivered.
    wanted: Vec<usize>,
    rows: Rows,
    told: u64,
}

impl LateSplit {
    fn next(&mut self, cx: &OperatorContext<'_>) -> Result<Option<(usize, LateBatch)>> {
        match &mut self.rows {
            Rows::Kept(rows) => Ok(rows.next()),
            Rows::Coming { handle, .. } => {
                Ok(handle.late_store().take(cx.waker).map(|late| (0, late)))
            }
        }
    }

    /// Whether nothing more comes; otherwise the task is woken when it is so.
    fn has_ended(&mut self, cx: &OperatorContext<'_>) -> Result<bool> {
        let Rows::Coming { handle, ended } = &mut self.rows else { return Ok(true) };
        match handle.result() {
            Some(result) => result.map(|()| true),
            None => {
                // A future that is ready is polled no more, as the result is there then.
                let ready = ended.poll_unpin(&mut Context::from_waker(cx.waker)).is_ready();
                if ready {
                    cx.waker.wake_by_ref();
                }
                Ok(false)
            }
        }
    }
}

impl StreamSplit for LateSplit {
    fn step(&mut self, cx: &OperatorContext<'_>) -> Result<StreamProgress> {
        // Rows that came before the job ended are taken after it has.
        let ended = self.has_ended(cx)?;
        match self.next(cx)? {
            Some((run, late)) => {
                self.told += late.rows.num_rows() as u64;
                let columns = self.table.layout.columns(run, &late, &self.wanted)?;
                Ok(StreamProgress::Rows(columns, late.rows.num_rows()))
            }
            None if ended => Ok(StreamProgress::Finished),
            None => Ok(StreamProgress::Wait { caught_up: true }),
        }
    }

    fn position(&self) -> Value {
        Value::from(self.told)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, Int64Array};

    use super::*;

    fn input(vertex: u32, names: &[&str]) -> LateInput {
        LateInput {
            place: (0, VertexId(vertex), 0, PortId(0)),
            operator: "HashAggregate".into(),
            fields: names
                .iter()
                .map(|name| Some(Field::new(*name, DataType::Int64, true)))
                .collect(),
        }
    }

    #[test]
    fn inputs_share_columns_of_one_name_and_all_names_differ() {
        let layout = LateLayout::new(&[input(1, &["a", "b", "a"]), input(2, &["b", "reason"])]);
        let schema = &layout.schema;
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let wanted = ["operator", "watermark", "late_reason", "a", "b", "a_1", "reason"];
        assert_eq!(names, wanted);
        let late = LateBatch {
            vertex: VertexId(2),
            position: 0,
            port: PortId(0),
            watermark_us: None,
            rows: thalweg_runtime::Batch::new(
                vec![Arc::new(Int64Array::from(vec![5])), Arc::new(Int64Array::from(vec![6]))],
                1,
            ),
        };
        let columns = layout.columns(0, &late, &[4, 3, 6]).unwrap();
        let nulls: Vec<usize> = columns.iter().map(|column| column.null_count()).collect();
        assert_eq!(nulls, [0, 1, 0]);
        assert!(layout.columns(1, &late, &[0]).is_err(), "another graph's");
    }
}
