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
    superstep: Option<Superstep>,
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
    in_superstep: bool,
}

impl InputGate {
    /// A gate over a queue; `channels[p]` is the number of producers of port p.
    pub fn new(queue: Arc<InputQueue>, channels: &[usize]) -> Self {
        let channel =
            ChannelState { watermark: i64::MIN, idle: false, ended: false, in_superstep: true };
        InputGate {
            queue,
            ports: channels
                .iter()
                .map(|&n| PortState { channels: vec![channel; n], ended: 0 })
                .collect(),
            watermark: None,
            superstep: None,
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
                state.channels[channel].in_superstep = false;
                self.superstep = Some(superstep);
                self.end_superstep()
            }
            StreamElement::End => {
                state.channels[channel].ended = true;
                state.ended += 1;
                if state.ended == state.channels.len() {
                    return Some(GateEvent::End(port));
                }
                self.end_superstep()
            }
        }
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
