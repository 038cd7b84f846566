//! Whole jobs: deployment, exchanges, early ends, failures and cancellation.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion_common::ScalarValue;
use parking_lot::Mutex;
use thalweg_runtime::env::System;
use thalweg_runtime::expr::{BinaryOperator, Expr, FunctionRegistry};
use thalweg_runtime::graph::{
    ChainedOperator, EdgeRole, ExchangeMode, JobEdge, JobGraph, JobVertex, ShipStrategy, VertexId,
};
use thalweg_runtime::job::{JobContext, JobHandle, JobManager, JobOptions, Services, TaskManager};
use thalweg_runtime::memory::MemoryManager;
use thalweg_runtime::operators::filter::FilterSpec;
use thalweg_runtime::operators::hash_join::HashJoinProbeSpec;
use thalweg_runtime::operators::join_kind::{JoinColumn, JoinKind};
use thalweg_runtime::operators::limit::LimitSpec;
use thalweg_runtime::operators::sink::SinkSpec;
use thalweg_runtime::operators::source_scan::SourceScanSpec;
use thalweg_runtime::operators::union::UnionSpec;
use thalweg_runtime::operators::{OperatorContext, OperatorSpec, PortId, WaitReason};
use thalweg_runtime::sink::{SinkConnector, SinkPoll, SinkWriter};
use thalweg_runtime::source::{Source, SourceConnector, SourceOutput, SourceReader, SourceSpec};
use thalweg_runtime::{Batch, Error, Result};

/// Counts up: a number of values from 0 for each subtask, or for ever.
struct Counting;

impl SourceConnector for Counting {
    fn open(&self, spec: &SourceSpec, _job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(CountingSource { rows: spec.options.as_i64() }))
    }
}

struct CountingSource {
    rows: Option<i64>,
}

impl Source for CountingSource {
    fn reader(&self, _subtask: usize) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(CountingReader { next: 0, rows: self.rows }))
    }
    fn progress(&self) -> Option<(u64, u64)> {
        None
    }
    fn pending_from_us(&self) -> Option<i64> {
        None
    }
}

struct CountingReader {
    next: i64,
    rows: Option<i64>,
}

impl SourceReader for CountingReader {
    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<SourceOutput> {
        let end = (self.next + 100).min(self.rows.unwrap_or(i64::MAX));
        if self.next == end {
            return Ok(SourceOutput::Finished);
        }
        let values = Int64Array::from_iter_values(self.next..end);
        self.next = end;
        let rows = arrow::array::Array::len(&values);
        Ok(SourceOutput::Batch(Batch::new(vec![Arc::new(values)], rows)))
    }
    fn is_at_cut(&self) -> bool {
        self.rows.is_none()
    }
    fn snapshot(&mut self) -> Result<Vec<u8>> {
        Ok(self.next.to_le_bytes().to_vec())
    }
    fn restore(&mut self, _position: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// A source that never has anything and never wakes anybody.
struct Silent;

impl SourceConnector for Silent {
    fn open(&self, _spec: &SourceSpec, _job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(Silent))
    }
}

impl Source for Silent {
    fn reader(&self, _subtask: usize) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(Silent))
    }
    fn progress(&self) -> Option<(u64, u64)> {
        None
    }
    fn pending_from_us(&self) -> Option<i64> {
        None
    }
}

impl SourceReader for Silent {
    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<SourceOutput> {
        Ok(SourceOutput::Wait(WaitReason::Io))
    }
    fn is_at_cut(&self) -> bool {
        true
    }
    fn snapshot(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
    fn restore(&mut self, _position: &[u8]) -> Result<()> {
        Ok(())
    }
}

#[derive(Default)]
struct Collected {
    values: Mutex<Vec<i64>>,
}

#[derive(Clone)]
struct Collecting(Arc<Collected>);

impl SinkConnector for Collecting {
    fn writer(
        &self,
        _options: &serde_json::Value,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(self.clone()))
    }
}

impl SinkWriter for Collecting {
    fn write(&mut self, batch: Batch, _cx: &mut OperatorContext<'_>) -> Result<SinkPoll> {
        let values = batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        self.0.values.lock().extend(values);
        Ok(SinkPoll::Ready)
    }
    fn finish(&mut self, _cx: &mut OperatorContext<'_>) -> Result<bool> {
        Ok(true)
    }
}

struct Fixture {
    manager: JobManager,
    collected: Arc<Collected>,
}

fn fixture(threads: usize) -> Fixture {
    let collected = Arc::new(Collected::default());
    let mut services = Services {
        env: System::new(),
        memory: MemoryManager::unlimited(),
        functions: FunctionRegistry::built_in(),
        sources: Default::default(),
        sinks: Default::default(),
        windowings: Default::default(),
    };
    services.sources.insert("counting".into(), Arc::new(Counting));
    services.sources.insert("silent".into(), Arc::new(Silent));
    services.sinks.insert("collect".into(), Arc::new(Collecting(collected.clone())));
    let tasks = Arc::new(TaskManager::new(threads, services).expect("the fixture works"));
    Fixture { manager: JobManager::new(tasks), collected }
}

impl Fixture {
    fn submit(&self, graph: &JobGraph) -> JobHandle {
        // What is sent must survive being sent.
        let text = serde_json::to_string(graph).expect("the fixture works");
        let back: JobGraph = serde_json::from_str(&text).expect("the fixture works");
        assert_eq!(&back, graph);
        let options = JobOptions { exchange_bytes_max: 4096, ..JobOptions::default() };
        self.manager.submit(back, options).expect("the fixture works")
    }
}

fn vertex(name: &str, parallelism: usize, specs: Vec<OperatorSpec>) -> JobVertex {
    let chain = specs
        .into_iter()
        .enumerate()
        .map(|(i, spec)| ChainedOperator {
            operator_id: i as u64,
            plan_node: 0,
            spec,
            inputs: Vec::new(),
        })
        .collect();
    JobVertex { name: name.into(), parallelism, chain, buffer_timeout: None }
}

fn scan(connector: &str, rows: Option<i64>) -> OperatorSpec {
    OperatorSpec::SourceScan(SourceScanSpec {
        source: SourceSpec {
            metadata: Vec::new(),
            connector: connector.into(),
            options: rows.map_or(serde_json::Value::Null, Into::into),
            schema: Schema::new(vec![Field::new("v", DataType::Int64, false)]),
            projection: vec![0],
            filters: vec![],
            runtime_filters: vec![],
            fetch: None,
            batch_rows: 100,
            event_time: None,
        },
    })
}

fn int(value: i64) -> Box<Expr> {
    Box::new(Expr::literal(ScalarValue::Int64(Some(value))))
}

/// Keeps the rows where `v op operand = 0`.
fn is_zero(op: BinaryOperator, operand: i64) -> OperatorSpec {
    let left = Box::new(Expr::Binary { op, left: Box::new(Expr::Column(0)), right: int(operand) });
    OperatorSpec::Filter(FilterSpec {
        input: vec![DataType::Int64],
        predicate: Expr::Binary { op: BinaryOperator::Eq, left, right: int(0) },
        output: vec![0],
    })
}

fn sink() -> OperatorSpec {
    OperatorSpec::Sink(SinkSpec { sink: "collect".into(), options: serde_json::Value::Null })
}

fn edge(
    source: VertexId,
    target: VertexId,
    port: u16,
    ship: ShipStrategy,
    mode: ExchangeMode,
) -> JobEdge {
    JobEdge { source, target, port: PortId(port), ship, mode, role: EdgeRole::Data }
}

fn by_value() -> ShipStrategy {
    ShipStrategy::Hash { keys: vec![Expr::Column(0)], types: vec![DataType::Int64] }
}

fn union(inputs: usize) -> OperatorSpec {
    OperatorSpec::Union(UnionSpec { inputs })
}

#[test]
fn every_ship_strategy_and_mode_delivers_every_row_once() {
    let strategies: [(usize, usize, ShipStrategy); 5] = [
        (3, 3, ShipStrategy::Forward),
        (3, 2, by_value()),
        (2, 3, ShipStrategy::Rebalance),
        (3, 1, ShipStrategy::Singleton),
        (1, 1, by_value()),
    ];
    for threads in [1, 2, 4] {
        for mode in [ExchangeMode::Pipelined, ExchangeMode::Blocking] {
            for (producers, consumers, ship) in strategies.clone() {
                let fixture = fixture(threads);
                let mut graph = JobGraph::default();
                let chain = vec![scan("counting", Some(1000)), is_zero(BinaryOperator::Modulo, 2)];
                let source = graph.add_vertex(vertex("scan", producers, chain));
                let target = graph.add_vertex(vertex("sink", consumers, vec![union(1), sink()]));
                graph.edges.push(edge(source, target, 0, ship.clone(), mode));
                fixture.submit(&graph).wait().unwrap();
                let mut values = fixture.collected.values.lock().clone();
                values.sort_unstable();
                let wanted: Vec<i64> =
                    (0..1000).step_by(2).flat_map(|v| vec![v; producers]).collect();
                assert_eq!(values, wanted, "{ship:?} {mode:?} on {threads} threads");
            }
        }
    }
}

#[test]
fn a_limit_ends_an_endless_source() {
    let fixture = fixture(2);
    let mut graph = JobGraph::default();
    let source = graph.add_vertex(vertex("scan", 2, vec![scan("counting", None)]));
    let limit = OperatorSpec::Limit(LimitSpec { skip: 5, fetch: Some(250) });
    let target = graph.add_vertex(vertex("limit", 1, vec![limit, sink()]));
    graph.edges.push(edge(source, target, 0, ShipStrategy::Singleton, ExchangeMode::Pipelined));
    fixture.submit(&graph).wait().unwrap();
    assert_eq!(fixture.collected.values.lock().len(), 250);
}

#[test]
fn the_first_failure_ends_the_job_and_is_its_error() {
    let fixture = fixture(2);
    let mut graph = JobGraph::default();
    let source = graph.add_vertex(vertex("scan", 2, vec![scan("counting", None)]));
    let chain = vec![is_zero(BinaryOperator::Divide, 0), sink()];
    let target = graph.add_vertex(vertex("sink", 2, chain));
    graph.edges.push(edge(source, target, 0, by_value(), ExchangeMode::Pipelined));
    let error = fixture.submit(&graph).wait().unwrap_err();
    assert!(error.to_string().to_lowercase().contains("zero"), "{error}");
}

#[test]
fn cancelling_ends_a_job_that_waits_for_its_source() {
    let fixture = fixture(1);
    let mut graph = JobGraph::default();
    graph.add_vertex(vertex("scan", 3, vec![scan("silent", None), sink()]));
    let handle = fixture.submit(&graph);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(handle.result(), None);
    handle.cancel();
    assert_eq!(handle.wait(), Err(Error::Cancelled));
}

#[test]
fn a_blocking_source_of_two_consumers_feeds_both() {
    let fixture = fixture(2);
    let mut graph = JobGraph::default();
    let source = graph.add_vertex(vertex("scan", 2, vec![scan("counting", Some(300))]));
    let target = graph.add_vertex(vertex("both", 2, vec![union(2), sink()]));
    for port in 0..2 {
        graph.edges.push(edge(source, target, port, ShipStrategy::Forward, ExchangeMode::Blocking));
    }
    fixture.submit(&graph).wait().unwrap();
    assert_eq!(fixture.collected.values.lock().len(), 1200);
}

#[test]
fn a_job_in_which_nothing_can_move_ends_with_its_wait_graph() {
    let fixture = fixture(2);
    let mut graph = JobGraph::default();
    // A probe of a build that nobody fills.
    let probe = OperatorSpec::HashJoinProbe(HashJoinProbeSpec {
        shared: 7,
        partitioned: false,
        kind: JoinKind::Inner,
        input: vec![DataType::Int64],
        build: vec![DataType::Int64],
        keys: vec![Expr::Column(0)],
        filter: None,
        output: vec![JoinColumn::Probe(0)],
        null_equal: false,
        null_aware: false,
    });
    graph.add_vertex(vertex("stuck", 2, vec![scan("counting", Some(10)), probe, sink()]));
    let error = fixture.submit(&graph).wait().unwrap_err().to_string();
    assert!(error.contains("the wait graph is"), "{error}");
    assert!(error.contains("stuck[1] waits for"), "{error}");
}
