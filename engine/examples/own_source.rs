//! A table of a program's own: rows that are made as a query reads them.
//!
//!     cargo run --release --locked -p thalweg --example own_source

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::pretty::pretty_format_batches;
use futures::executor::block_on;
use thalweg::Session;
use thalweg::connectors::external::{RowBatches, RowSource, SourceError};

/// The squares of the numbers below a bound, in parts of ten thousand.
#[derive(Debug)]
struct Squares {
    bound: u32,
}

const PART: u32 = 10_000;

impl RowSource for Squares {
    fn schema(&self) -> SchemaRef {
        let field = |name| Field::new(name, DataType::Int64, false);
        Arc::new(Schema::new(vec![field("number"), field("square")]))
    }

    fn parts(&self) -> usize {
        self.bound.div_ceil(PART) as usize
    }

    fn read(&self, part: usize, columns: &[usize]) -> Result<RowBatches, SourceError> {
        let first = u32::try_from(part)? * PART;
        let numbers = i64::from(first)..i64::from(first.saturating_add(PART).min(self.bound));
        let arrays = columns.iter().map(|column| -> ArrayRef {
            let value = |n: i64| if *column == 0 { n } else { n * n };
            Arc::new(Int64Array::from_iter_values(numbers.clone().map(value)))
        });
        let schema = Arc::new(self.schema().project(columns)?);
        let rows = RecordBatchOptions::new().with_row_count(Some(numbers.clone().count()));
        let batch = RecordBatch::try_new_with_options(schema, arrays.collect(), &rows)?;
        Ok(Box::new(std::iter::once(Ok(batch))))
    }

    fn rows(&self) -> Option<u64> {
        Some(self.bound.into())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let session = Session::new();
    session.register_source("squares", Arc::new(Squares { bound: 100_000 }))?;
    let sql =
        "SELECT square % 10 AS last_digit, count(*) AS numbers FROM squares GROUP BY 1 ORDER BY 1";
    let batches = block_on(async { session.sql(sql).await?.collect().await })?;
    println!("{}", pretty_format_batches(&batches)?);
    Ok(())
}
