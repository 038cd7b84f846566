//! How far the splits of a scan are in event time, and what was said of it.
//!
//! Invariant: no watermark is sent twice, and none before the one that was sent last.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::element::{StreamElement, Watermark};
use crate::source::{SplitEvent, SplitId};

/// How far the splits are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// The watermark of each split that is not caught up.
    pub(super) speaking: BTreeMap<SplitId, i64>,
    /// Those that are.
    pub(super) caught_up: BTreeMap<SplitId, i64>,
    /// The split whose rows come.
    pub(super) current: Option<SplitId>,
    /// The last watermark that was sent.
    pub(super) sent: Option<i64>,
    pub(super) told: Told,
}

/// What was last said of the scan as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) enum Told {
    #[default]
    Nothing,
    Active,
    Idle,
}

impl Progress {
    /// The split that has no name has number 0.
    pub(super) fn current(&self) -> SplitId {
        self.current.unwrap_or(SplitId(0))
    }

    /// The watermark of the split in hand.
    pub(super) fn reached(&self) -> i64 {
        self.speaking.get(&self.current()).copied().unwrap_or(i64::MIN)
    }

    pub(super) fn reach(&mut self, watermark: i64) {
        self.speaking.insert(self.current(), watermark);
    }

    /// Rows come of the split in hand.
    pub(super) fn wake(&mut self, out: &mut VecDeque<StreamElement>) {
        let current = self.current();
        let before = self.caught_up.remove(&current).unwrap_or(i64::MIN);
        let known = self.speaking.entry(current).or_insert(before);
        *known = before.max(*known);
        self.speak(out);
    }

    pub(super) fn speak(&mut self, out: &mut VecDeque<StreamElement>) {
        if std::mem::replace(&mut self.told, Told::Active) != Told::Active {
            out.push_back(StreamElement::Active);
        }
    }

    pub(super) fn hear(&mut self, event: SplitEvent, out: &mut VecDeque<StreamElement>) {
        match event {
            SplitEvent::Reading(split) => {
                self.current = Some(split);
                let before = self.caught_up.remove(&split).unwrap_or(i64::MIN);
                self.speaking.entry(split).or_insert(before);
                self.speak(out);
            }
            SplitEvent::Ended(split) => {
                self.speaking.remove(&split);
                self.caught_up.remove(&split);
            }
            SplitEvent::CaughtUp(split) => {
                let reached = self.speaking.remove(&split).unwrap_or(i64::MIN);
                self.caught_up.insert(split, reached);
            }
            SplitEvent::Reached(split, time_us) => {
                let known = match self.caught_up.get_mut(&split) {
                    Some(known) => known,
                    None => self.speaking.entry(split).or_insert(i64::MIN),
                };
                *known = time_us.max(*known);
            }
        }
    }

    /// A watermark, if it is a later one than was sent.
    pub(super) fn rise(&mut self, pending_us: Option<i64>) -> Option<StreamElement> {
        let risen = self.risen(pending_us)?;
        self.sent = Some(risen);
        Some(StreamElement::Watermark(Watermark(risen)))
    }

    /// Whether there is a later watermark than was sent.
    pub(super) fn has_risen(&self, pending_us: Option<i64>) -> bool {
        self.risen(pending_us).is_some()
    }

    /// How far time is, if that is later than was sent. A split without rows yet holds it back.
    pub(super) fn risen(&self, pending_us: Option<i64>) -> Option<i64> {
        // When all are caught up, the furthest of them says how far time has come.
        let lowest = match self.speaking.values().min() {
            Some(lowest) => *lowest,
            None => *self.caught_up.values().max()?,
        };
        let lowest = pending_us.map_or(lowest, |pending| lowest.min(pending));
        let later = lowest > i64::MIN && self.sent.is_none_or(|sent| sent < lowest);
        later.then_some(lowest)
    }

    pub(super) fn fall_idle(&mut self, pending_us: Option<i64>) -> Option<StreamElement> {
        if self.told == Told::Idle || !self.speaking.is_empty() || pending_us.is_some() {
            return None;
        }
        self.told = Told::Idle;
        Some(StreamElement::Idle)
    }
}
