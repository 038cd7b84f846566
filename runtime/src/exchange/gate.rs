//! The consumer's end: aligns control events of several channels into one event for each port.
//!
//! The watermark of a port is the minimum over its channels that are not idle; a superstep or an end counts
//! once all channels have sent it. Data passes as it comes.

use std::sync::Arc;
use std::task::Waker;

use super::queue::{Arrival, InputQueue};
use crate::element::{StreamElement, Superstep, Watermark};
use crate::operators::{PortId, PortSet};

/// What a gate hands to the task.
#[derive(Debug)]
pub enum GateEvent {
    /// `Batch` or `Pages` of a port.
    Data(PortId, StreamElement),
    /// The minimum watermark over all ports rose.
    Watermark(Watermark),
    /// All channels of all ports ended this superstep.
    Superstep(Superstep),
    /// All channels of a port have ended.
    End(PortId),
}

/// One subtask's inputs.
pub struct InputGate {
    queue: Arc<InputQueue>,
    ports: Vec<PortState>,
    watermark: Option<Watermark>,
    superstep_arrivals: usize,
}

struct PortState {
    channels: Vec<ChannelState>,
    ended: usize,
}

#[derive(Clone, Copy)]
struct ChannelState {
    watermark: i64,
    idle: bool,
    ended: bool,
}

impl InputGate {
    /// A gate over a queue; `channels[p]` is the number of producers of port p.
    pub fn new(queue: Arc<InputQueue>, channels: &[usize]) -> Self {
        let channel = ChannelState { watermark: i64::MIN, idle: false, ended: false };
        InputGate {
            queue,
            ports: channels
                .iter()
                .map(|&n| PortState { channels: vec![channel; n], ended: 0 })
                .collect(),
            watermark: None,
            superstep_arrivals: 0,
        }
    }

    /// The next event that concerns these ports; `None` registers the waker.
    pub fn poll(&mut self, wanted: PortSet, waker: &Waker) -> Option<GateEvent> {
        loop {
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
                self.rise()
            }
            StreamElement::Idle => {
                state.channels[channel].idle = true;
                self.rise()
            }
            StreamElement::Active => {
                state.channels[channel].idle = false;
                None
            }
            StreamElement::Barrier(_) => None,
            StreamElement::Superstep(superstep) => {
                self.superstep_arrivals += 1;
                let all: usize = self.ports.iter().map(|p| p.channels.len() - p.ended).sum();
                (self.superstep_arrivals >= all).then(|| {
                    self.superstep_arrivals = 0;
                    GateEvent::Superstep(superstep)
                })
            }
            StreamElement::End => {
                state.channels[channel].ended = true;
                state.ended += 1;
                (state.ended == state.channels.len()).then_some(GateEvent::End(port))
            }
        }
    }

    fn rise(&mut self) -> Option<GateEvent> {
        let speaking = self.ports.iter().flat_map(|p| &p.channels).filter(|c| !c.idle && !c.ended);
        let lowest = Watermark(speaking.map(|c| c.watermark).min()?);
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
