//! Thalweg inside a program: rows of its own, a query read as a stream, and the same query by calls.
//!
//!     cargo run --release --locked -p thalweg --example embed

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow::util::pretty::pretty_format_batches;
use futures::StreamExt;
use futures::executor::block_on;
use thalweg::Session;
use thalweg::api::aggregates::{count, max};
use thalweg::api::col;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let session = Session::builder().threads(2).set("batch_size", "1024").build()?;
    session.register_batches("readings", vec![readings()?])?;
    session.sql("CREATE VIEW high AS SELECT * FROM readings WHERE level > 1.5").await?;

    // A stream gives batches as they are ready; dropping it, or its token, cancels the query.
    let frame = session.sql("SELECT station, level FROM high ORDER BY level DESC").await?;
    let token = frame.cancellation_token();
    let mut stream = frame.stream()?;
    while let Some(batch) = stream.next().await {
        println!("{}", pretty_format_batches(&[batch?])?);
    }
    token.cancel();

    // The Table API builds the plan that SQL would.
    let peaks = session
        .table("readings")
        .group_by([col("station")])
        .agg([count(col("level")).alias("readings"), max(col("level")).alias("peak")])
        .order_by([col("station").sort(true, false)]);
    println!("{}", peaks.clone().frame()?.explain(false));
    println!("{}", pretty_format_batches(&peaks.collect().await?)?);
    Ok(())
}

fn readings() -> Result<RecordBatch, arrow::error::ArrowError> {
    let stations: ArrayRef = Arc::new(StringArray::from(vec!["ALD", "BRK", "ALD", "DEL"]));
    let levels: ArrayRef = Arc::new(Float64Array::from(vec![1.2, 1.7, 2.1, 1.9]));
    RecordBatch::try_from_iter([("station", stations), ("level", levels)])
}
