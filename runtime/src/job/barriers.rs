//! The barriers of a job: which one its scans are asked for, and how far its sinks are.
//!
//! Invariant: at most one barrier is under way, so that every gate aligns by one number. It is complete when every sink
//! subtask has committed it or has ended well. Nobody here waits: who does registers a waker.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use crate::element::CheckpointId;
use crate::graph::{JobGraph, VertexId};
use crate::operators::OperatorSpec;

/// What a sink subtask that has ended is said to have reached.
const ENDED: u64 = u64::MAX;

/// See the module.
#[derive(Debug)]
pub struct Barriers {
    asked: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last barrier that each sink subtask has committed.
    sinks: HashMap<(VertexId, usize), u64>,
    completed: u64,
    wakers: Vec<Waker>,
}

impl Barriers {
    /// Nothing was asked for yet; the sinks are the chains of the graph that end in one.
    pub fn new(graph: &JobGraph) -> Self {
        let vertices = graph.vertices.iter().enumerate();
        let sinks = vertices
            .filter(|(_, vertex)| {
                matches!(vertex.chain.last().map(|link| &link.spec), Some(OperatorSpec::Sink(_)))
            })
            .flat_map(|(v, vertex)| (0..vertex.parallelism).map(move |s| (VertexId(v as u32), s)))
            .map(|place| (place, 0))
            .collect();
        let state = State { sinks, completed: 0, wakers: Vec::new() };
        Barriers { asked: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// The last barrier that scans are to send; 0 before the first.
    pub fn asked(&self) -> CheckpointId {
        CheckpointId(self.asked.load(Ordering::Acquire))
    }

    /// Asks for a barrier; while one is under way it is that one.
    pub fn ask(&self) -> CheckpointId {
        let state = self.state.lock();
        let asked = self.asked.load(Ordering::Acquire);
        if asked > state.completed {
            return CheckpointId(asked);
        }
        self.asked.store(asked + 1, Ordering::Release);
        CheckpointId(asked + 1)
    }

    /// The barrier that was asked for and is not complete.
    pub fn under_way(&self) -> Option<CheckpointId> {
        let state = self.state.lock();
        let asked = self.asked.load(Ordering::Acquire);
        (asked > state.completed).then_some(CheckpointId(asked))
    }

    /// A sink subtask has committed a barrier.
    pub fn committed(&self, vertex: VertexId, subtask: usize, id: CheckpointId) {
        self.reach((vertex, subtask), id.0);
    }

    /// A sink subtask has made everything visible and takes no more.
    pub fn ended(&self, vertex: VertexId, subtask: usize) {
        self.reach((vertex, subtask), ENDED);
    }

    fn reach(&self, sink: (VertexId, usize), id: u64) {
        let mut state = self.state.lock();
        let Some(reached) = state.sinks.get_mut(&sink) else { return };
        *reached = (*reached).max(id);
        let asked = self.asked.load(Ordering::Acquire);
        let all = state.sinks.values().copied().min().unwrap_or(ENDED).min(asked);
        if all <= state.completed {
            return;
        }
        state.completed = all;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether a barrier is complete; if not, the waker is woken when another one is.
    pub fn poll_complete(&self, id: CheckpointId, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        if state.completed >= id.0 || state.sinks.values().all(|&reached| reached == ENDED) {
            return true;
        }
        if !state.wakers.iter().any(|known| known.will_wake(waker)) {
            state.wakers.push(waker.clone());
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{ChainedOperator, JobVertex};
    use crate::operators::sink::SinkSpec;

    #[test]
    fn a_barrier_is_complete_when_all_sinks_have_it_or_have_ended() {
        let spec = SinkSpec { sink: "s".into(), options: serde_json::Value::Null };
        let link = ChainedOperator {
            operator_id: 0,
            plan_node: 0,
            spec: OperatorSpec::Sink(spec),
            inputs: Vec::new(),
        };
        let mut graph = JobGraph::default();
        let sink = graph.add_vertex(JobVertex {
            name: "sink".into(),
            parallelism: 3,
            chain: vec![link],
            buffer_timeout: None,
        });
        let barriers = Barriers::new(&graph);
        let id = barriers.ask();
        assert_eq!((id, barriers.ask()), (CheckpointId(1), CheckpointId(1)), "one at a time");
        barriers.committed(sink, 0, id);
        barriers.committed(sink, 1, id);
        assert!(!barriers.poll_complete(id, Waker::noop()));
        assert_eq!(barriers.under_way(), Some(id));
        barriers.ended(sink, 2);
        assert!(barriers.poll_complete(id, Waker::noop()));
        let next = barriers.ask();
        assert_eq!(next, CheckpointId(2));
        barriers.committed(sink, 0, next);
        barriers.committed(sink, 1, next);
        assert_eq!(barriers.under_way(), None);
    }
}
