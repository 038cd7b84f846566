//! Splits that are read in their order, one after another.
//!
//! One reader reads all of them, and to those who count event time they are one split: what one of them has said of the
//! time holds in those behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_runtime::Result;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::source::{Source, SourceOutput, SourceReader, SplitEvent, SplitId};

/// The split that all of them are.
const ALL: SplitId = SplitId(0);

/// A source whose splits are handed to a single reader in their order.
pub struct OrderedSource {
    inner: Arc<dyn Source>,
    /// What users know all of them by.
    name: String,
    begun: Arc<AtomicBool>,
}

impl OrderedSource {
    /// The source before another one, which hands out its splits in their order.
    pub fn over(inner: Arc<dyn Source>, name: String) -> Arc<dyn Source> {
        Arc::new(OrderedSource { inner, name, begun: Arc::default() })
    }
}

impl Source for OrderedSource {
    fn reader(&self, subtask: usize) -> Result<Box<dyn SourceReader>> {
        Ok(match subtask {
            0 => Box::new(OrderedReader {
                inner: self.inner.reader(0)?,
                said: false,
                ended: false,
                begun: self.begun.clone(),
            }),
            _ => Box::new(NoReader),
        })
    }

    fn progress(&self) -> Option<(u64, u64)> {
        self.inner.progress()
    }

    fn split_name(&self, _split: SplitId) -> Option<String> {
        Some(self.name.clone())
    }

    fn pending_from_us(&self) -> Option<i64> {
        (!self.begun.load(Ordering::Acquire)).then_some(i64::MIN)
    }
}

/// Reads all splits.
struct OrderedReader {
    inner: Box<dyn SourceReader>,
    /// Whether it has said that rows come, and that no more do.
    said: bool,
    ended: bool,
    begun: Arc<AtomicBool>,
}

impl SourceReader for OrderedReader {
    fn step(&mut self, cx: &mut OperatorContext<'_>) -> Result<SourceOutput> {
        if !std::mem::replace(&mut self.said, true) {
            return Ok(SourceOutput::Split(SplitEvent::Reading(ALL)));
        }
        self.begun.store(true, Ordering::Release);
        if self.ended {
            return Ok(SourceOutput::Finished);
        }
        Ok(match self.inner.step(cx)? {
            SourceOutput::Split(_) => SourceOutput::Continue,
            SourceOutput::Finished => {
                self.ended = true;
                SourceOutput::Split(SplitEvent::Ended(ALL))
            }
            other => other,
        })
    }

    fn is_at_cut(&self) -> bool {
        self.inner.is_at_cut()
    }

    fn snapshot(&mut self) -> Result<Vec<u8>> {
        self.inner.snapshot()
    }

    fn restore(&mut self, position: &[u8]) -> Result<()> {
        self.inner.restore(position)
    }
}

/// A subtask that reads nothing.
struct NoReader;

impl SourceReader for NoReader {
    fn step(&mut self, _cx: &mut OperatorContext<'_>) -> Result<SourceOutput> {
        Ok(SourceOutput::Finished)
    }

    fn is_at_cut(&self) -> bool {
        false
    }

    fn snapshot(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn restore(&mut self, _position: &[u8]) -> Result<()> {
        Ok(())
    }
}
