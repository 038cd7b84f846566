//! Event time of a scan: from the rows of its splits to watermarks between its batches.
//!
//! The watermark is the least of the splits in hand, and never above what a pending split may hold. Invariant: a row
//! that comes behind its own split's watermark is preceded by that watermark, so that lateness does not depend on how
//! rows are cut into batches. A split that is caught up is left out until it is read again; with none left the scan
//! is idle. It says that it speaks before it is asked for the first row of a split, and that it is idle when it finds no
//! split to read: until it has said one or the other, nobody behind it goes on without it.

use std::collections::VecDeque;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::TimestampMicrosecondType;
use arrow::util::display::array_value_to_string;
use arrow_schema::{DataType, TimeUnit};

use super::progress::{Progress, Told};
use crate::batch::Batch;
use crate::element::StreamElement;
use crate::error::{Error, Result};
use crate::expr::{CompiledExpr, Expr, compile, positional_schema};
use crate::job::{JobContext, ScanTimes, SplitTime, Standing};
use crate::operators::StateSnapshot;
use crate::operators::contract::restore_batches;
use crate::rows::take_array;
use crate::source::{EventTimeSpec, NullTime, SplitEvent, SplitId};

/// See the module.
pub(super) struct EventTime {
    time: Option<CompiledExpr>,
    watermark: Option<CompiledExpr>,
    types: Vec<DataType>,
    name: String,
    null_time: NullTime,
    tells_time: bool,
    /// How long watermarks lie apart, the clock, and when the last one left.
    emit_interval_ns: u64,
    now_ns: u64,
    emitted_ns: Option<u64>,
    progress: Progress,
}

impl EventTime {
    /// Compiles the expressions.
    pub(super) fn new(spec: &EventTimeSpec, job: &JobContext) -> Result<Self> {
        let schema = positional_schema(&spec.types);
        let compiled = |expr: &Option<Expr>| {
            expr.as_ref().map(|expr| compile(expr, &schema, &job.functions)).transpose()
        };
        Ok(EventTime {
            time: compiled(&spec.time)?,
            watermark: compiled(&spec.watermark)?,
            types: spec.types[..spec.delivered].to_vec(),
            name: spec.name.clone(),
            null_time: spec.null_time,
            tells_time: spec.tells_time,
            emit_interval_ns: spec.emit_interval_ns,
            now_ns: 0,
            emitted_ns: None,
            progress: Progress::default(),
        })
    }

    /// Lets the clock go on, for watermarks that leave from time to time.
    pub(super) fn at(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// When the next watermark may leave, if one has left.
    pub(super) fn due_ns(&self) -> u64 {
        self.emitted_ns.map_or(0, |at| at.saturating_add(self.emit_interval_ns))
    }

    /// Whether a later watermark waits for its time.
    pub(super) fn is_held(&self, pending_us: Option<i64>) -> bool {
        self.tells_time && self.now_ns < self.due_ns() && self.progress.has_risen(pending_us)
    }

    /// A watermark, if there is a later one and it may leave now.
    fn rise_in_time(&mut self, pending_us: Option<i64>) -> Option<StreamElement> {
        if self.now_ns < self.due_ns() {
            return None;
        }
        let risen = self.progress.rise(pending_us)?;
        self.emitted_ns = Some(self.now_ns);
        Some(risen)
    }

    /// Takes a batch of the split in hand; it goes to `out`, cut where a watermark has to stand between its rows. Gives how
    /// many rows were left out as they have no time.
    pub(super) fn take(
        &mut self,
        batch: Batch,
        pending_us: Option<i64>,
        out: &mut VecDeque<StreamElement>,
    ) -> Result<usize> {
        let mut batch = batch.compact()?;
        let Some(time) = &self.time else {
            self.progress.wake(out);
            out.push_back(StreamElement::Batch(batch));
            return Ok(0);
        };
        let mut times = microseconds(&time.evaluate(&batch)?)?;
        let mut dropped = 0;
        if times.null_count() > 0 && self.null_time != NullTime::SkipWatermark {
            let timed = self.timed(&batch, &times)?;
            dropped = batch.num_rows() - timed.len();
            if timed.is_empty() {
                return Ok(dropped);
            }
            batch = batch.with_selection(timed.into()).compact()?;
            times = microseconds(&time.evaluate(&batch)?)?;
        }
        let Some(watermark) = self.watermark.as_ref().filter(|_| self.tells_time) else {
            if self.tells_time {
                self.progress.wake(out);
            }
            let columns = batch.columns()[..self.types.len()].to_vec();
            out.push_back(StreamElement::Batch(batch.with_columns(columns)));
            return Ok(dropped);
        };
        let declared = watermark.evaluate(&batch)?;
        let unit = unit_us(declared.data_type());
        let declared = microseconds(&declared)?;
        let columns = batch.columns()[..self.types.len()].to_vec();
        let batch = batch.with_columns(columns);
        self.progress.wake(out);
        let mut reached = self.progress.reached();
        let mut start = 0;
        for row in 0..batch.num_rows() {
            if times.is_valid(row) && times.value(row) < reached {
                self.progress.reach(reached);
                if let Some(watermark) = self.progress.rise(pending_us) {
                    if row > start {
                        out.push_back(StreamElement::Batch(batch.slice(start, row - start)));
                    }
                    out.push_back(watermark);
                    start = row;
                }
            }
            if declared.is_valid(row) {
                reached = reached.max(declared.value(row).saturating_add(unit));
            }
        }
        if start == 0 {
            out.push_back(StreamElement::Batch(batch));
        } else {
            out.push_back(StreamElement::Batch(batch.slice(start, batch.num_rows() - start)));
        }
        self.progress.reach(reached);
        out.extend(self.rise_in_time(pending_us));
        Ok(dropped)
    }

    /// The rows that have a time; if the others are errors, there must be none.
    fn timed(
        &self,
        batch: &Batch,
        times: &PrimitiveArray<TimestampMicrosecondType>,
    ) -> Result<Vec<u32>> {
        let Some(nulls) = times.nulls().filter(|_| self.null_time == NullTime::Fail) else {
            return Ok((0..times.len())
                .filter(|&row| times.is_valid(row))
                .map(|r| r as u32)
                .collect());
        };
        let row = (0..nulls.len()).find(|&row| nulls.is_null(row)).unwrap_or_default();
        let value = |column: &ArrayRef| match column.is_null(row) {
            true => "NULL".to_string(),
            false => array_value_to_string(column, row).unwrap_or_default(),
        };
        let values: Vec<String> = batch.columns().iter().map(value).collect();
        Err(Error::User {
            message: format!("the event time \"{}\" of a row is NULL", self.name),
            detail: Some(format!("The columns of the row that are read are ({}).", values.join(", "))),
            hint: Some(
                "The table's option 'scan.watermark.null-handling' = 'drop' leaves such rows out and counts them, \
                 'skip-watermark' keeps them."
                    .into(),
            ),
        })
    }

    /// Takes what the reader says of its splits.
    pub(super) fn hear(
        &mut self,
        event: SplitEvent,
        pending_us: Option<i64>,
        out: &mut VecDeque<StreamElement>,
    ) {
        if !self.tells_time {
            return;
        }
        // Behind the end of a split comes another one, a wait, or the end of all: to be idle meanwhile would let time pass the
        // results that operators give when this scan ends.
        let ended = matches!(event, SplitEvent::Ended(_));
        self.progress.hear(event, out);
        out.extend(self.rise_in_time(pending_us));
        if !ended && !self.progress.has_risen(pending_us) {
            out.extend(self.progress.fall_idle(pending_us));
        }
    }

    /// The split whose rows come.
    pub(super) fn current(&self) -> SplitId {
        self.progress.current()
    }

    /// Tells how far a split is, if it has not ended.
    pub(super) fn tell(&self, split: SplitId, told: &ScanTimes) {
        let speaking = self.progress.speaking.get(&split);
        let Some(&reached) = speaking.or_else(|| self.progress.caught_up.get(&split)) else {
            return;
        };
        let watermark_us = Some(reached).filter(|&at| at != i64::MIN);
        told.note(split, SplitTime { watermark_us, idle: speaking.is_none() });
    }

    /// How far event time is for those who wait for this scan.
    pub(super) fn standing(&self) -> Standing {
        match self.progress.speaking.values().min() {
            Some(lowest) => Standing::At(*lowest),
            None => Standing::Aside,
        }
    }

    /// The reader waits: a watermark that was held back may leave, and that there is nothing to read may be said.
    pub(super) fn wait(&mut self, pending_us: Option<i64>) -> Option<StreamElement> {
        if !self.tells_time {
            return None;
        }
        if let Some(risen) = self.rise_in_time(pending_us) {
            return Some(risen);
        }
        // What has not been told yet comes before the word that nothing is to be told.
        match self.progress.has_risen(pending_us) {
            true => None,
            false => self.progress.fall_idle(pending_us),
        }
    }

    /// How far the splits are, and the rows that were read and have not left.
    pub(super) fn write_to(
        &self,
        ready: &VecDeque<StreamElement>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let progress = serde_json::to_vec(&self.progress)
            .map_err(|e| Error::Internal(format!("the watermarks of a scan: {e}")))?;
        bytes.extend((progress.len() as u64).to_le_bytes());
        bytes.extend(progress);
        let batch = |element: &StreamElement| {
            let StreamElement::Batch(batch) = element else { return None };
            Some(batch.clone())
        };
        let batches: Vec<Batch> = ready.iter().filter_map(batch).collect();
        bytes.extend(StateSnapshot::of_batches(&batches, &self.types)?.bytes);
        Ok(())
    }

    /// Goes on where a snapshot was taken. Watermarks are sent again: nobody behind the scan remembers them.
    pub(super) fn read_from(
        &mut self,
        bytes: &[u8],
        ready: &mut VecDeque<StreamElement>,
    ) -> Result<()> {
        let (progress, batches) = take_part(bytes)?;
        self.progress = serde_json::from_slice(progress)
            .map_err(|e| Error::Internal(format!("the watermarks of a scan: {e}")))?;
        (self.progress.sent, self.progress.told) = (None, Told::Nothing);
        let batches = restore_batches(&StateSnapshot { bytes: batches.to_vec() })?;
        ready.extend(batches.into_iter().map(StreamElement::Batch));
        Ok(())
    }
}

/// Splits off a part that its length stands before.
pub(super) fn take_part(mut bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let length = u64::from_le_bytes(take_array(&mut bytes)?) as usize;
    bytes
        .split_at_checked(length)
        .ok_or_else(|| Error::Internal("a snapshot of another scan".into()))
}

/// Timestamps of any unit as microseconds, rounded down.
fn microseconds(array: &ArrayRef) -> Result<PrimitiveArray<TimestampMicrosecondType>> {
    if !matches!(array.data_type(), DataType::Timestamp(..)) {
        let other = array.data_type();
        return Err(Error::Internal(format!("an event time of the type {other}")));
    }
    let plain = match array.data_type() {
        DataType::Timestamp(unit, Some(_)) => cast(array, &DataType::Timestamp(*unit, None))?,
        _ => array.clone(),
    };
    let micros = cast(&plain, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
    Ok(micros.as_primitive::<TimestampMicrosecondType>().clone())
}

/// One unit of a timestamp type in microseconds; finer types count as microseconds.
fn unit_us(data_type: &DataType) -> i64 {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, TimestampMicrosecondArray};

    use super::*;
    use crate::element::Watermark;
    use crate::operators::harness::context;

    const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

    /// A scan of (id, time, declared) that delivers the id.
    fn event_time() -> EventTime {
        with_null_times(NullTime::Fail)
    }

    fn with_null_times(null_time: NullTime) -> EventTime {
        let spec = EventTimeSpec {
            time: Some(Expr::Column(1)),
            watermark: Some(Expr::Column(2)),
            types: vec![DataType::Int64, MICROS, MICROS],
            delivered: 1,
            name: "ts".into(),
            null_time,
            tells_time: true,
            emit_interval_ns: 0,
            idle_timeout_ns: 0,
            alignment: None,
        };
        EventTime::new(&spec, &context(8192)).unwrap()
    }

    /// Rows by time; each declares what is `delay` before it.
    fn rows(times: &[i64], delay: i64) -> Batch {
        let ids = Int64Array::from(times.to_vec());
        let declared = TimestampMicrosecondArray::from_iter_values(times.iter().map(|t| t - delay));
        let array = TimestampMicrosecondArray::from(times.to_vec());
        Batch::new(vec![Arc::new(ids), Arc::new(array), Arc::new(declared)], times.len())
    }

    /// What came out: ids of batches, `W` with watermarks, and the rest by name.
    fn text(out: &mut VecDeque<StreamElement>) -> String {
        let words = out.drain(..).map(|element| match element {
            StreamElement::Batch(batch) => {
                assert_eq!(batch.columns().len(), 1);
                let ids = batch.column(0).as_primitive::<arrow::datatypes::Int64Type>();
                format!("{:?}", ids.values().to_vec())
            }
            StreamElement::Watermark(Watermark(at)) => format!("W{at}"),
            other => format!("{other:?}"),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_watermark_follows_the_rows_that_declare_it() {
        let (mut time, mut out) = (event_time(), VecDeque::new());
        time.take(rows(&[10, 20], 5), None, &mut out).unwrap();
        time.take(rows(&[18], 5), None, &mut out).unwrap();
        assert_eq!(text(&mut out), "Active [10, 20] W16 [18]");
    }

    #[test]
    fn a_row_behind_its_split_is_preceded_by_the_watermark() {
        let (mut time, mut out) = (event_time(), VecDeque::new());
        time.take(rows(&[10, 30, 12, 29, 40, 1], 5), None, &mut out).unwrap();
        assert_eq!(text(&mut out), "Active [10, 30] W26 [12, 29, 40] W36 [1]");
        // The same rows, one a batch.
        let mut time = event_time();
        for at in [10, 30, 12, 29, 40, 1] {
            time.take(rows(&[at], 5), None, &mut out).unwrap();
        }
        assert_eq!(text(&mut out), "Active [10] W6 [30] W26 [12] [29] [40] W36 [1]");
    }

    #[test]
    fn rows_without_a_time_are_errors_or_left_out_or_silent() {
        let batch = || {
            let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
            let times: ArrayRef =
                Arc::new(TimestampMicrosecondArray::from(vec![Some(10), None, Some(30)]));
            Batch::new(vec![ids, times.clone(), times], 3)
        };
        let mut out = VecDeque::new();
        let error = event_time().take(batch(), None, &mut out).unwrap_err();
        let Error::User { message, detail, hint } = error else { panic!("{error}") };
        assert!(
            message.contains("\"ts\"") && detail.is_some_and(|d| d.contains("(2, NULL, NULL)"))
        );
        assert!(hint.is_some_and(|hint| hint.contains("scan.watermark.null-handling")));
        out.clear();
        let dropped = with_null_times(NullTime::Drop).take(batch(), None, &mut out).unwrap();
        assert_eq!((dropped, text(&mut out).as_str()), (1, "Active [1, 3] W31"));
        let mut kept = with_null_times(NullTime::SkipWatermark);
        assert_eq!(kept.take(batch(), None, &mut out).unwrap(), 0);
        assert_eq!(text(&mut out), "Active [1, 2, 3] W31");
    }

    #[test]
    fn the_slowest_split_counts_and_a_pending_one_holds() {
        let (mut time, mut out) = (event_time(), VecDeque::new());
        let (a, b) = (SplitId(1), SplitId(2));
        time.hear(SplitEvent::Reading(a), Some(i64::MIN), &mut out);
        time.take(rows(&[50], 0), Some(i64::MIN), &mut out).unwrap();
        assert_eq!(text(&mut out), "Active [50]");
        time.hear(SplitEvent::Reading(b), None, &mut out);
        time.take(rows(&[7], 0), None, &mut out).unwrap();
        assert_eq!(text(&mut out), "[7] W8");
        time.hear(SplitEvent::Ended(b), None, &mut out);
        assert_eq!(text(&mut out), "W51");
    }

    #[test]
    fn idle_is_what_the_reader_knows() {
        let (mut time, mut out) = (event_time(), VecDeque::new());
        let a = SplitId(1);
        time.hear(SplitEvent::Reading(a), None, &mut out);
        time.take(rows(&[50], 0), None, &mut out).unwrap();
        assert_eq!(text(&mut out), "Active [50] W51");
        time.hear(SplitEvent::CaughtUp(a), None, &mut out);
        assert_eq!(text(&mut out), "Idle");
        time.take(rows(&[60], 0), None, &mut out).unwrap();
        assert_eq!(text(&mut out), "Active [60] W61");
    }

    #[test]
    fn a_reader_may_tell_the_time_itself() {
        let batch = || {
            let (ids, times) =
                (Int64Array::from(vec![9]), TimestampMicrosecondArray::from(vec![9]));
            Batch::new(vec![Arc::new(ids), Arc::new(times)], 1)
        };
        let spec = |time: Option<Expr>, types: Vec<DataType>| EventTimeSpec {
            time,
            watermark: None,
            delivered: 1,
            types,
            name: "ts".into(),
            null_time: NullTime::SkipWatermark,
            tells_time: true,
            emit_interval_ns: 0,
            idle_timeout_ns: 0,
            alignment: None,
        };
        let timed = spec(Some(Expr::Column(1)), vec![DataType::Int64, MICROS]);
        let mut out = VecDeque::new();
        let mut time = EventTime::new(&timed, &context(8192)).unwrap();
        let split = SplitId(0);
        time.hear(SplitEvent::Reading(split), None, &mut out);
        time.take(batch(), None, &mut out).unwrap();
        time.hear(SplitEvent::Reached(split, 7), None, &mut out);
        time.hear(SplitEvent::Reached(split, 5), None, &mut out);
        time.take(batch(), None, &mut out).unwrap();
        assert_eq!(text(&mut out), "Active [9] W7 [9]");
        let mut time = EventTime::new(&spec(None, vec![DataType::Int64]), &context(8192)).unwrap();
        let ids = Batch::new(vec![Arc::new(Int64Array::from(vec![9]))], 1);
        time.take(ids, None, &mut out).unwrap();
        time.hear(SplitEvent::Reached(split, 7), None, &mut out);
        assert_eq!(text(&mut out), "Active [9] W7");
    }

    #[test]
    fn watermarks_may_leave_from_time_to_time() {
        let (mut time, mut out) = (event_time(), VecDeque::new());
        time.emit_interval_ns = 200;
        time.at(1_000);
        time.take(rows(&[10], 5), None, &mut out).unwrap();
        time.at(1_100);
        time.take(rows(&[20], 5), None, &mut out).unwrap();
        // Whether a row is late does not depend on the clock.
        time.take(rows(&[30, 12], 5), None, &mut out).unwrap();
        assert_eq!(text(&mut out), "Active [10] W6 [20] [30] W26 [12]");
        time.take(rows(&[40], 5), None, &mut out).unwrap();
        assert!(time.wait(None).is_none());
        time.at(time.due_ns());
        assert!(matches!(time.wait(None), Some(StreamElement::Watermark(Watermark(36)))));
        assert_eq!(text(&mut out), "[40]");
    }

    #[test]
    fn a_snapshot_keeps_how_far_splits_are_and_what_has_not_left() {
        let (mut time, mut out) = (event_time(), VecDeque::new());
        time.take(rows(&[50], 0), None, &mut out).unwrap();
        let mut bytes = Vec::new();
        time.write_to(&out, &mut bytes).unwrap();
        let (mut other, mut out) = (event_time(), VecDeque::new());
        other.read_from(&bytes, &mut out).unwrap();
        other.take(rows(&[20], 0), None, &mut out).unwrap();
        assert_eq!(text(&mut out), "[50] Active W51 [20]");
    }

    #[test]
    fn a_scan_without_a_split_says_so_once_none_is_pending() {
        let mut time = event_time();
        assert!(time.wait(Some(i64::MIN)).is_none());
        assert!(matches!(time.wait(None), Some(StreamElement::Idle)));
        assert!(time.wait(None).is_none());
        let mut out = VecDeque::new();
        time.take(rows(&[50], 0), None, &mut out).unwrap();
        assert_eq!(text(&mut out), "Active [50] W51");
    }
}
