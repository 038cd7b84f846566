//! The jobs that are measured, and what a run of one gives.
//!
//! Both search lines for a pattern behind an exchange: one with a subtask on each side, to which lines go as they come,
//! and one with two subtasks on each side, to which lines go by the hash of their keys.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::ScalarValue;
use parking_lot::Mutex;
use thalweg_runtime::Result;
use thalweg_runtime::env::System;
use thalweg_runtime::expr::{Expr, FunctionRegistry};
use thalweg_runtime::graph::{
    ChainedOperator, EdgeRole, ExchangeMode, JobEdge, JobGraph, JobVertex, ShipStrategy,
};
use thalweg_runtime::job::{BufferTimeout, JobManager, JobOptions, Services, TaskManager};
use thalweg_runtime::memory::MemoryManager;
use thalweg_runtime::operators::filter::FilterSpec;
use thalweg_runtime::operators::sink::SinkSpec;
use thalweg_runtime::operators::source_scan::SourceScanSpec;
use thalweg_runtime::operators::{OperatorSpec, PortId};
use thalweg_runtime::source::SourceSpec;

use crate::connectors::{BATCH_ROWS, Connector, Run};
use crate::cpu;
use crate::histogram::Histogram;
use crate::lines::{LINE_BYTES, Lines, PATTERN, Tally};

/// The name of the source and of the sink.
const CONNECTOR: &str = "lines";

/// Which job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// One subtask on each side.
    Grep,
    /// Two subtasks on each side, by key.
    Keyed,
}

impl Variant {
    /// Both.
    pub const ALL: [Variant; 2] = [Variant::Grep, Variant::Keyed];

    /// Subtasks on each side.
    fn subtasks(self) -> usize {
        match self {
            Variant::Grep => 1,
            Variant::Keyed => 2,
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Variant::Grep => "grep",
            Variant::Keyed => "keyed",
        })
    }
}

/// How a job is run.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Lines a second; 0 is as many as possible.
    pub events_per_second: u64,
    /// How long, in nanoseconds.
    pub length_ns: u64,
    /// The part at the beginning that is not measured.
    pub warm_up_ns: u64,
    /// When incomplete buffers leave.
    pub buffer_timeout: BufferTimeout,
    /// The latency that timeouts are steered towards, in microseconds; 0 is none.
    pub latency_target_us: u64,
}

/// What a run gave.
#[derive(Debug, Clone)]
pub struct Measured {
    /// From the time that a line was due to its arrival at the sink.
    pub latency: Histogram,
    /// Lines that were sent.
    pub sent: u64,
    /// Matches that the sink took; it was checked that they are all there.
    pub tally: Tally,
    /// From the start of the job to its end, in seconds.
    pub seconds: f64,
    /// CPU time of the process meanwhile, in seconds.
    pub cpu_seconds: f64,
}

impl Measured {
    /// Lines a second.
    pub fn throughput(&self) -> f64 {
        self.sent as f64 / self.seconds
    }

    /// Lines a second of CPU time.
    pub fn throughput_a_core(&self) -> f64 {
        self.sent as f64 / self.cpu_seconds
    }

    /// Cores that were busy on average.
    pub fn cores(&self) -> f64 {
        self.cpu_seconds / self.seconds
    }
}

/// Runs a job.
///
/// # Errors
/// Those of the job, or that lines were lost or changed.
pub fn measure(lines: &Arc<Lines>, variant: Variant, load: Load) -> Result<Measured> {
    let run = Arc::new(Run {
        lines: lines.clone(),
        events_per_second: load.events_per_second,
        length_ns: load.length_ns,
        warm_up_ns: load.warm_up_ns,
        senders: variant.subtasks(),
        start_ns: OnceLock::new(),
        sent: Mutex::default(),
        expected: Mutex::default(),
        arrived: Mutex::default(),
    });
    let connector = Connector(run.clone());
    let mut services = Services {
        env: System::new(),
        memory: MemoryManager::unlimited(),
        functions: FunctionRegistry::built_in(),
        sources: Default::default(),
        sinks: Default::default(),
        windowings: Default::default(),
    };
    services.sources.insert(CONNECTOR.to_string(), Arc::new(connector.clone()));
    services.sinks.insert(CONNECTOR.to_string(), Arc::new(connector));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let manager = JobManager::new(Arc::new(TaskManager::new(threads, services)?));
    let options = JobOptions {
        batch_rows: BATCH_ROWS as usize,
        buffer_timeout: load.buffer_timeout,
        latency_target_us: load.latency_target_us,
        continuous: true,
        ..JobOptions::default()
    };
    let (started, cpu_before) = (std::time::Instant::now(), cpu::seconds());
    manager.submit(graph(variant), options)?.wait()?;
    let (seconds, cpu_after) = (started.elapsed().as_secs_f64(), cpu::seconds());
    let (tally, latency) = std::mem::take(&mut *run.arrived.lock());
    let (sent, expected) = (*run.sent.lock(), *run.expected.lock());
    if tally != expected {
        let message = format!("the sink took {tally:?}, and should have taken {expected:?}");
        return Err(thalweg_runtime::Error::Internal(message));
    }
    Ok(Measured { latency, sent, tally, seconds, cpu_seconds: cpu_after - cpu_before })
}

/// Bytes that a line takes in an exchange: the line, its offset, its key, and the time it was due.
pub const EXCHANGE_BYTES: usize = LINE_BYTES + 4 + 8 + 8;

fn columns() -> Vec<Field> {
    vec![
        Field::new("due", DataType::Int64, false),
        Field::new("key", DataType::Int64, false),
        Field::new("line", DataType::Utf8, false),
    ]
}

fn graph(variant: Variant) -> JobGraph {
    let types: Vec<DataType> = columns().iter().map(|f| f.data_type().clone()).collect();
    let scan = OperatorSpec::SourceScan(SourceScanSpec {
        source: SourceSpec {
            metadata: Vec::new(),
            connector: CONNECTOR.to_string(),
            options: serde_json::Value::Null,
            schema: Schema::new(columns()),
            projection: vec![0, 1, 2],
            filters: vec![],
            runtime_filters: vec![],
            fetch: None,
            batch_rows: BATCH_ROWS as usize,
            event_time: None,
        },
    });
    let pattern = ScalarValue::Utf8(Some(format!("%{PATTERN}%")));
    let search = OperatorSpec::Filter(FilterSpec {
        input: types.clone(),
        predicate: Expr::Like {
            negated: false,
            case_insensitive: false,
            expr: Box::new(Expr::Column(2)),
            pattern: Box::new(Expr::literal(pattern)),
        },
        output: vec![0, 2],
    });
    let sink = OperatorSpec::Sink(SinkSpec {
        sink: CONNECTOR.to_string(),
        options: serde_json::Value::Null,
    });
    let mut graph = JobGraph::default();
    let source = graph.add_vertex(vertex("lines", variant, vec![scan]));
    let target = graph.add_vertex(vertex("search", variant, vec![search, sink]));
    graph.edges.push(JobEdge {
        source,
        target,
        port: PortId(0),
        ship: match variant {
            Variant::Grep => ShipStrategy::Rebalance,
            Variant::Keyed => ShipStrategy::Hash { keys: vec![Expr::Column(1)], types },
        },
        mode: ExchangeMode::Pipelined,
        role: EdgeRole::Data,
    });
    graph
}

fn vertex(name: &str, variant: Variant, specs: Vec<OperatorSpec>) -> JobVertex {
    let chain = specs.into_iter().enumerate().map(|(i, spec)| ChainedOperator {
        operator_id: i as u64,
        plan_node: 0,
        spec,
        inputs: Vec::new(),
    });
    JobVertex {
        name: name.to_string(),
        parallelism: variant.subtasks(),
        chain: chain.collect(),
        buffer_timeout: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_arrives_whatever_the_timeout() {
        let lines = Arc::new(Lines::of(10_000));
        for variant in Variant::ALL {
            for buffer_timeout in [-1, 0, 1_000].map(BufferTimeout::of_micros) {
                let load = Load {
                    events_per_second: 20_000,
                    length_ns: 200_000_000,
                    warm_up_ns: 0,
                    buffer_timeout,
                    latency_target_us: 0,
                };
                let measured = measure(&lines, variant, load).unwrap();
                assert_eq!(measured.sent, 4_000, "{variant} {buffer_timeout:?}");
                assert!(measured.tally.count > 800, "{:?}", measured.tally);
            }
        }
    }
}
