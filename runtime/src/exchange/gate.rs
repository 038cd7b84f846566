//! The consumer's end: aligns control events of several channels into one event for each port.
//!
//! The watermark is the minimum over the channels that have not ended and are not idle; when all are idle, so is the
//! gate. A channel holds time back until it tells it or says that it is idle: one that has not been heard of may bring
//! rows of any time. Of the subtasks of a scan it is enough to hear one, since it does not go on without the splits of the
//! others; so whether rows of one split are late does not depend on how many subtasks there are. A superstep or an end counts once all channels have sent it, and
//! so does a barrier: what a channel brings behind its barrier stays in the queue until the others have sent theirs or
//! have ended. Other data passes as it comes.

use std::sync::Arc;
use std::task::Waker;

use super::queue::{Arrival, InputQueue, PortSpec};
use crate::element::{CheckpointId, StreamElement, Superstep, Watermark};
use crate::graph::VertexId;
use crate::operators::{PortId, PortSet};

/// What a gate hands to the task.
#[derive(Debug)]
pub enum GateEvent {
    /// `Batch` or `Pages` of a port.
    Data(PortId, StreamElement),
    /// The minimum watermark over all ports rose.
    Watermark(Watermark),
    /// All channels that have not ended are idle.
    Idle,
    /// One of them speaks again.
    Active,
    /// All channels of all ports ended this superstep.
    Superstep(Superstep),
    /// All channels that have not ended have sent this barrier.
    Barrier(CheckpointId),
    /// All channels of a port have ended.
    End(PortId),
}

/// One subtask's inputs.
pub struct InputGate {
    queue: Arc<InputQueue>,
    ports: Vec<PortState>,
    watermark: Option<Watermark>,
    superstep: Option<Superstep>,
    idle: bool,
    /// Some channel has sent a barrier that others have not.
    aligning: bool,
    /// A channel ended or spoke: the minimum may have changed.
    changed: bool,
}

struct PortState {
    channels: Vec<ChannelState>,
    ended: usize,
}

#[derive(Clone, Copy)]
struct ChannelState {
    watermark: i64,
    idle: bool,
    /// Whether it has said whether it is idle, or what time it is.
    told: bool,
    /// The scan it is a subtask of.
    scan: Option<VertexId>,
    ended: bool,
    in_superstep: bool,
    /// The barrier behind which its elements wait.
    barrier: Option<CheckpointId>,
}

impl InputGate {
    /// A gate over a queue with these ports.
    pub fn new(queue: Arc<InputQueue>, ports: &[PortSpec]) -> Self {
        let channel = |scan: &Option<VertexId>| ChannelState {
            watermark: i64::MIN,
            idle: false,
            told: false,
            scan: *scan,
            ended: false,
            in_superstep: true,
            barrier: None,
        };
        InputGate {
            queue,
            ports: ports
                .iter()
                .map(|port| PortState {
                    channels: port.scans.iter().map(channel).collect(),
                    ended: 0,
                })
                .collect(),
            watermark: None,
            superstep: None,
            idle: false,
            aligning: false,
            changed: false,
        }
    }

    /// The next event that concerns these ports; `None` registers the waker.
    pub fn poll(&mut self, wanted: PortSet, waker: &Waker) -> Option<GateEvent> {
        loop {
            // The end of a port may have been the last thing a superstep waited for.
            if self.superstep.is_some()
                && let Some(event) = self.end_superstep()
            {
                return Some(event);
            }
            if self.aligning
                && let Some(event) = self.align()
            {
                return Some(event);
            }
            if std::mem::take(&mut self.changed)
                && let Some(event) = self.rise()
            {
                return Some(event);
            }
            let arrival = self.queue.poll(wanted, waker)?;
            if let Some(event) = self.take(arrival) {
                return Some(event);
            }
        }
    }

    fn take(&mut self, arrival: Arrival) -> Option<GateEvent> {
        let Arrival { port, channel, element } = arrival;
        let state = &mut self.ports[port.0 as usize];
        match element {
            StreamElement::Batch(_) | StreamElement::Pages(_) => {
                Some(GateEvent::Data(port, element))
            }
            StreamElement::Watermark(Watermark(at)) => {
                let known = &mut state.channels[channel];
                known.watermark = known.watermark.max(at);
                known.told = true;
                self.rise()
            }
            StreamElement::Idle => {
                let known = &mut state.channels[channel];
                (known.idle, known.told) = (true, true);
                self.rise()
            }
            StreamElement::Active => {
                let known = &mut state.channels[channel];
                (known.idle, known.told) = (false, true);
                std::mem::take(&mut self.idle).then_some(GateEvent::Active)
            }
            StreamElement::Barrier(id) => {
                state.channels[channel].barrier = Some(id);
                self.aligning = true;
                self.align()
            }
            StreamElement::Superstep(superstep) => {
                state.channels[channel].in_superstep = false;
                self.superstep = Some(superstep);
                self.end_superstep()
            }
            StreamElement::End => {
                state.channels[channel].ended = true;
                state.ended += 1;
                self.changed = true;
                if state.ended == state.channels.len() {
                    return Some(GateEvent::End(port));
                }
                self.end_superstep()
            }
        }
    }

    /// Whether time does not go beyond what a channel has told. A subtask that has been heard of speaks for others of its
    /// scan until it ends.
    fn waits_for(&self, channel: &ChannelState) -> bool {
        let speaks_for =
            |other: &ChannelState| other.told && !other.ended && other.scan == channel.scan;
        let mut all = self.ports.iter().flat_map(|port| &port.channels);
        !channel.idle && (channel.told || channel.scan.is_none() || !all.any(speaks_for))
    }

    /// The barrier is there when every channel that has not ended has sent one; the others go on behind theirs.
    fn align(&mut self) -> Option<GateEvent> {
        let all = || self.ports.iter().flat_map(|port| &port.channels);
        if all().any(|channel| channel.barrier.is_none() && !channel.ended) {
            return None;
        }
        let Some(id) = all().filter_map(|channel| channel.barrier).min() else {
            self.aligning = false;
            return None;
        };
        for (port, state) in self.ports.iter_mut().enumerate() {
            for (at, channel) in state.channels.iter_mut().enumerate() {
                if channel.barrier == Some(id) {
                    channel.barrier = None;
                    self.queue.release(PortId(port as u16), at);
                }
            }
        }
        Some(GateEvent::Barrier(id))
    }

    /// The superstep ends when every channel that has not ended is through with it.
    fn end_superstep(&mut self) -> Option<GateEvent> {
        let superstep = self.superstep?;
        let mut channels = self.ports.iter().flat_map(|p| &p.channels);
        if channels.any(|c| c.in_superstep && !c.ended) {
            return None;
        }
        self.superstep = None;
        for channel in self.ports.iter_mut().flat_map(|p| &mut p.channels) {
            channel.in_superstep = true;
        }
        Some(GateEvent::Superstep(superstep))
    }

    fn rise(&mut self) -> Option<GateEvent> {
        let living = || self.ports.iter().flat_map(|p| &p.channels).filter(|c| !c.ended);
        let Some(lowest) = living().filter(|c| self.waits_for(c)).map(|c| c.watermark).min() else {
            let furthest = living().map(|c| c.watermark).max()?;
            if self.watermark.is_none_or(|w| w.0 < furthest) && furthest > i64::MIN {
                // Those behind it are silent: time is where the last one left it.
                self.changed = true;
                self.watermark = Some(Watermark(furthest));
                return Some(GateEvent::Watermark(Watermark(furthest)));
            }
            return (!std::mem::replace(&mut self.idle, true)).then_some(GateEvent::Idle);
        };
        let lowest = Watermark(lowest);
        if lowest.0 == i64::MIN || self.watermark.is_some_and(|w| w >= lowest) {
            return None;
        }
        self.watermark = Some(lowest);
        Some(GateEvent::Watermark(lowest))
    }

    /// Nothing more is wanted.
    pub fn close(&self) {
        self.queue.close();
    }

    /// The queue, for the wait graph.
    pub fn queue(&self) -> &Arc<InputQueue> {
        &self.queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::queue::PortKind;
    use crate::memory::MemoryManager;

    /// A gate of one port with two channels of operators, after these elements came.
    fn events(elements: &[(usize, StreamElement)]) -> Vec<String> {
        events_of(vec![None, None], elements)
    }

    fn events_of(scans: Vec<Option<VertexId>>, elements: &[(usize, StreamElement)]) -> Vec<String> {
        let ports = [PortSpec { channels: scans.len(), kind: PortKind::Pipelined, scans }];
        let queue = InputQueue::new(&ports, 1 << 20, &MemoryManager::unlimited());
        let waker = Waker::noop();
        for (channel, element) in elements {
            queue.offer(PortId(0), *channel, element.clone(), waker).unwrap();
        }
        let mut gate = InputGate::new(queue, &ports);
        let all = std::iter::from_fn(|| gate.poll(PortSet::Any, waker));
        all.map(|event| format!("{event:?}")).collect()
    }

    fn watermark(at: i64) -> StreamElement {
        StreamElement::Watermark(Watermark(at))
    }

    #[test]
    fn the_slowest_channel_that_speaks_counts() {
        let (idle, active) = (StreamElement::Idle, StreamElement::Active);
        let both = [(0, active.clone()), (1, active.clone()), (0, watermark(9)), (1, watermark(5))];
        let got = events(&[&both[..], &[(1, idle)]].concat());
        assert_eq!(got, ["Watermark(Watermark(5))", "Watermark(Watermark(9))"]);
        let got = events(&[&both[..3], &[(1, StreamElement::End)]].concat());
        assert_eq!(got, ["Watermark(Watermark(9))"]);
    }

    #[test]
    fn a_channel_holds_time_back_until_it_tells_it() {
        let one = [(0, StreamElement::Active), (0, watermark(9))];
        assert!(events(&one).is_empty());
        for (told, wanted) in [(watermark(7), 7), (StreamElement::Idle, 9), (StreamElement::End, 9)]
        {
            let both = [&one[..], &[(1, told)]].concat();
            assert_eq!(events(&both), [format!("Watermark(Watermark({wanted}))")]);
        }
        // The first row of a table that was slow to begin is not late.
        let slow = [&one[..], &[(1, StreamElement::Active), (1, watermark(3))]].concat();
        assert_eq!(events(&slow), ["Watermark(Watermark(3))"]);
    }

    #[test]
    fn one_subtask_of_a_scan_speaks_for_those_that_have_not_spoken() {
        let one = [(0, StreamElement::Active), (0, watermark(9))];
        let scan = |id| Some(VertexId(id));
        assert_eq!(events_of(vec![scan(3), scan(3)], &one), ["Watermark(Watermark(9))"]);
        assert!(events_of(vec![scan(3), scan(4)], &one).is_empty(), "another table");
        // The end of one says nothing of the others.
        let ended = [(1, StreamElement::End), (0, StreamElement::Idle)];
        assert!(events_of(vec![scan(3), scan(3)], &ended[..1]).is_empty());
        assert_eq!(events_of(vec![scan(3), scan(3)], &ended), ["Idle"]);
        let other =
            [&one[..], &[(1, StreamElement::Active), (0, watermark(12)), (1, watermark(10))]];
        let wanted = ["Watermark(Watermark(9))", "Watermark(Watermark(10))"];
        assert_eq!(events_of(vec![scan(3), scan(3)], &other.concat()), wanted);
        // One that ends speaks for nobody any more: the split of another may not have begun.
        let tables = || vec![scan(3), scan(3), scan(4)];
        let gone = [(0, StreamElement::Active), (0, StreamElement::End), (2, watermark(9))];
        assert!(events_of(tables(), &gone).is_empty());
        let begun = [&gone[..], &[(1, StreamElement::Active), (1, watermark(4))]].concat();
        assert_eq!(events_of(tables(), &begun), ["Watermark(Watermark(4))"]);
    }

    #[test]
    fn all_idle_is_idle_where_the_furthest_channel_was() {
        let (idle, active) = (StreamElement::Idle, StreamElement::Active);
        let got = events(&[
            (0, active.clone()),
            (1, active.clone()),
            (0, watermark(9)),
            (0, idle.clone()),
            (1, watermark(5)),
            (1, idle),
            (1, active),
        ]);
        assert_eq!(got, ["Watermark(Watermark(5))", "Watermark(Watermark(9))", "Idle", "Active"]);
    }

    fn batch(rows: usize) -> StreamElement {
        let column = arrow::array::Int64Array::from(vec![7; rows]);
        StreamElement::Batch(crate::batch::Batch::new(vec![Arc::new(column)], rows))
    }

    fn barrier(id: u64) -> StreamElement {
        StreamElement::Barrier(CheckpointId(id))
    }

    /// The kinds of events, and of how many rows data is.
    fn words(gate: &mut InputGate) -> Vec<String> {
        let all = std::iter::from_fn(|| gate.poll(PortSet::Any, Waker::noop()));
        let word = |event| match event {
            GateEvent::Data(port, StreamElement::Batch(batch)) => {
                format!("{}:{}", port.0, batch.num_rows())
            }
            GateEvent::Barrier(CheckpointId(id)) => format!("B{id}"),
            GateEvent::End(port) => format!("End{}", port.0),
            other => format!("{other:?}"),
        };
        all.map(word).collect()
    }

    /// A gate of two ports with two channels each, and its queue.
    fn two_ports() -> (InputGate, Arc<InputQueue>) {
        let port = PortSpec::of_operators(2, PortKind::Pipelined);
        let ports = [port.clone(), port];
        let queue = InputQueue::new(&ports, 64, &MemoryManager::unlimited());
        (InputGate::new(queue.clone(), &ports), queue)
    }

    #[test]
    fn a_port_that_always_has_rows_lets_others_have_their_turn() {
        let port = PortSpec::of_operators(1, PortKind::Pipelined);
        let ports = [port.clone(), port];
        let queue = InputQueue::new(&ports, 1 << 20, &MemoryManager::unlimited());
        let mut gate = InputGate::new(queue.clone(), &ports);
        queue.offer(PortId(1), 0, batch(1), Waker::noop()).unwrap();
        for _ in 0..100 {
            queue.offer(PortId(0), 0, batch(2), Waker::noop()).unwrap();
        }
        let words = words(&mut gate);
        assert_eq!(words.len(), 101);
        let slow = words.iter().position(|word| word == "1:1");
        assert!(slow.is_some_and(|at| at < 50), "{slow:?}");
    }

    #[test]
    fn rows_behind_a_barrier_wait_for_the_others() {
        let (mut gate, queue) = two_ports();
        let offer = |port: u16, channel, element| {
            let offered = queue.offer(PortId(port), channel, element, Waker::noop()).unwrap();
            assert!(matches!(offered, crate::exchange::queue::Offer::Taken));
        };
        offer(0, 0, batch(1));
        offer(0, 0, barrier(1));
        offer(0, 0, batch(2));
        offer(0, 1, batch(3));
        offer(1, 0, barrier(1));
        offer(1, 1, StreamElement::End);
        assert_eq!(words(&mut gate), ["0:1", "0:3"]);
        offer(1, 0, batch(4));
        assert!(words(&mut gate).is_empty());
        offer(0, 1, barrier(1));
        assert_eq!(words(&mut gate), ["B1", "0:2", "1:4"]);
        // The end of the last channel that was waited for completes a barrier.
        offer(0, 0, barrier(2));
        offer(1, 0, barrier(2));
        offer(0, 1, StreamElement::End);
        assert_eq!(words(&mut gate), ["B2"]);
        offer(0, 0, barrier(3));
        offer(0, 0, StreamElement::End);
        offer(1, 0, StreamElement::End);
        assert_eq!(words(&mut gate), ["End1", "B3", "End0"]);
    }

    #[test]
    fn held_rows_leave_room_for_the_barriers_that_are_waited_for() {
        let (mut gate, queue) = two_ports();
        let offer = |channel, element| {
            let offered = queue.offer(PortId(0), channel, element, Waker::noop()).unwrap();
            matches!(offered, crate::exchange::queue::Offer::Taken)
        };
        assert!(offer(0, barrier(1)) && offer(0, batch(20)));
        assert!(words(&mut gate).is_empty());
        assert!(!offer(0, batch(1)), "the held channel is full");
        assert!(offer(1, batch(20)), "and the other is not");
        assert!(!offer(1, batch(1)));
        assert_eq!(words(&mut gate), ["0:20"]);
        assert!(offer(1, batch(1)) && offer(1, barrier(1)));
        assert_eq!(words(&mut gate), ["0:1"]);
    }
}
