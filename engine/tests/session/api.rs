//! The Rust API: sessions, frames, streams, the Table API.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use futures::StreamExt;
use futures::executor::block_on;
use thalweg::api::aggregates::sum;
use thalweg::api::{JoinType, col, lit};
use thalweg::connectors::external::{RowBatches, RowSource, SourceError};
use thalweg::{Error, Session};

fn numbers(session: &Session, sql: &str) -> Vec<i64> {
    let batches =
        block_on(async { session.sql(sql).await?.collect().await }).expect("the query runs");
    batches.iter().flat_map(first_column).collect()
}

fn first_column(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

fn batch(name: &str, values: Vec<i64>) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(values));
    RecordBatch::try_from_iter([(name, column)]).expect("one column makes a batch")
}

#[test]
fn one_statement_gives_one_frame() {
    let session = Session::builder().threads(2).set("batch_size", "100").build().unwrap();
    assert_eq!(numbers(&session, "SELECT 41 + 1 AS a"), [42]);
    let frame = block_on(session.sql("CREATE TABLE t AS SELECT 1 AS a")).unwrap();
    assert_eq!((frame.rows_written(), frame.has_result()), (Some(1), false));
    assert!(Session::builder().set("batch_size", "-1").build().is_err());
}

#[test]
fn several_statements_are_refused_before_any_has_run() {
    let session = Session::new();
    let error = block_on(session.sql("CREATE TABLE t (a BIGINT); SELECT 1")).unwrap_err();
    assert!(error.to_string().contains("2 statements"), "{error}");
    assert_eq!(session.table_names(), [""; 0]);
    assert!(block_on(session.sql("-- nothing")).is_err());
}

#[test]
fn scripts_give_their_frames_one_by_one() {
    let session = Session::new();
    let mut script =
        session.execute("CREATE TABLE t AS SELECT 7 AS a; SELECT nope; SELECT a FROM t; SELECT (");
    assert!(block_on(script.next_frame()).unwrap().is_some());
    assert!(block_on(script.next_frame()).is_err());
    let frame = block_on(script.next_frame()).unwrap().unwrap();
    assert_eq!(block_on(frame.collect()).unwrap().len(), 1);
    assert!(block_on(script.next_frame()).is_err(), "the text cannot be read to its end");
    assert!(block_on(script.next_frame()).unwrap().is_none());
}

#[test]
fn streams_are_read_batch_by_batch_and_cancelled_by_dropping() {
    let session = Session::new();
    let frame =
        block_on(session.sql("SELECT value FROM generate_series(1, 1000000000000)")).unwrap();
    let mut stream = frame.stream().unwrap();
    let first = block_on(stream.next()).unwrap().unwrap();
    assert!(first.num_rows() > 0);
    drop(stream);
    assert_eq!(numbers(&session, "SELECT 1 AS a"), [1], "the threads are free again");
}

#[test]
fn a_token_cancels_before_and_during_the_run() {
    let session = Session::new();
    let endless = "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 7 = 8";
    let frame = block_on(session.sql(endless)).unwrap();
    frame.cancel();
    assert_eq!(block_on(frame.collect()).unwrap_err(), Error::Cancelled);

    let frame = block_on(session.sql(endless)).unwrap();
    let token = frame.cancellation_token();
    let mut stream = frame.stream().unwrap();
    let canceller = std::thread::spawn(move || token.cancel());
    assert_eq!(block_on(stream.next()).unwrap().unwrap_err(), Error::Cancelled);
    assert!(block_on(stream.next()).is_none());
    canceller.join().unwrap();

    let frame = block_on(session.sql(endless)).unwrap();
    let mut stream = frame.stream().unwrap();
    session.cancel_all();
    assert_eq!(block_on(stream.next()).unwrap().unwrap_err(), Error::Cancelled);
}

#[test]
fn registered_rows_and_files_are_tables() {
    let session = Session::new();
    session.register_batches("t", vec![batch("a", vec![1, 2]), batch("a", vec![3])]).unwrap();
    assert_eq!(numbers(&session, "SELECT a FROM t ORDER BY a"), [1, 2, 3]);
    assert!(session.register_batches("t", Vec::new()).is_err());
    assert!(session.register_batches("t", vec![batch("a", vec![1]), batch("b", vec![1])]).is_err());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.csv");
    std::fs::write(&path, "x\n5\n6\n").unwrap();
    session.register_file("u", &path).unwrap();
    assert_eq!(numbers(&session, "SELECT sum(x)::BIGINT FROM u"), [11]);
}

#[test]
fn a_running_query_keeps_the_table_it_reads() {
    let session = Session::new();
    session.register_batches("t", vec![batch("a", vec![1, 2])]).unwrap();
    let frame = block_on(session.sql("SELECT a FROM t")).unwrap();
    block_on(session.sql("DROP TABLE t")).unwrap();
    let batches = block_on(frame.collect()).unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    assert!(block_on(session.sql("SELECT a FROM t")).is_err());
}

#[test]
fn the_table_api_runs() {
    let session = Session::new();
    session.register_batches("t", vec![batch("k", vec![1, 1, 2])]).unwrap();
    session.register_batches("u", vec![batch("k", vec![1, 2, 3])]).unwrap();
    let relation = session
        .table("t")
        .join(session.table("u"), JoinType::Inner, [("t.k", "u.k")])
        .filter(col("u.k").lt(lit(3_i64)))
        .group_by([col("u.k")])
        .agg([sum(col("t.k")).alias("s")])
        .order_by([col("s").sort(true, false)])
        .limit(10);
    let batches = block_on(relation.collect()).unwrap();
    let rows: Vec<i64> = batches.iter().flat_map(first_column).collect();
    assert_eq!(rows.len(), 2);
}

/// Numbers from 0 in parts of seven; part 3 fails if `broken`, and delivers text if `lying`.
#[derive(Debug)]
struct Sevens {
    broken: bool,
    lying: bool,
}

impl RowSource for Sevens {
    fn schema(&self) -> SchemaRef {
        let field = |name| Field::new(name, DataType::Int64, false);
        Arc::new(Schema::new(vec![field("n"), field("twice")]))
    }

    fn parts(&self) -> usize {
        10
    }

    fn read(&self, part: usize, columns: &[usize]) -> Result<RowBatches, SourceError> {
        if self.broken && part == 3 {
            return Ok(Box::new(std::iter::once(Err("part 3 is out of reach".into()))));
        }
        let numbers =
            || (0..7).map(move |i| i64::try_from(part).expect("there are ten parts") * 7 + i);
        let arrays = columns.iter().map(|column| -> ArrayRef {
            match column {
                0 if self.lying => Arc::new(StringArray::from(vec!["x"; 7])),
                0 => Arc::new(Int64Array::from_iter_values(numbers())),
                _ => Arc::new(Int64Array::from_iter_values(numbers().map(|n| 2 * n))),
            }
        });
        let names = columns.iter().map(|c| ["n", "twice"][*c]);
        Ok(Box::new(std::iter::once(Ok(RecordBatch::try_from_iter(names.zip(arrays))?))))
    }
}

#[test]
fn a_program_may_bring_rows_of_its_own() {
    let session = Session::builder().threads(2).set("batch_size", "3").build().unwrap();
    let source = |broken, lying| Arc::new(Sevens { broken, lying });
    session.register_source("s", source(false, false)).unwrap();
    assert_eq!(numbers(&session, "SELECT count(n) FROM s"), [70]);
    assert_eq!(numbers(&session, "SELECT n FROM s WHERE twice = 84"), [42]);
    assert_eq!(numbers(&session, "SELECT sum(a.n) FROM s a JOIN s b ON a.twice = b.n"), [595]);
    session.register_source("broken", source(true, false)).unwrap();
    session.register_source("lying", source(false, true)).unwrap();
    let error = |sql: &str| {
        block_on(async { session.sql(sql).await?.collect().await }).unwrap_err().to_string()
    };
    assert!(error("SELECT sum(n) FROM broken").contains("part 3 is out of reach"));
    assert!(error("SELECT sum(n) FROM lying").contains("other columns than it was asked for"));
}
