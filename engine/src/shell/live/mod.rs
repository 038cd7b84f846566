//! The live result of a continuous query on a terminal: a table whose rows change where they stand, and a line below it
//! that tells how the query is doing.
//!
//! The table is drawn anew a few times a second if something has changed; nothing scrolls away above it. Ctrl-C ends the
//! query and leaves the last rows. Invariant: what is drawn is never higher or wider than the terminal, so that the cursor
//! finds back.

mod rows;

use std::io::Write;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use unicode_width::UnicodeWidthChar;

use self::rows::LiveRows;
use super::format::{Display, FormatName, result_format};
use super::output::{PrintError, to_stdout};
use super::waiting::next_within;
use crate::error::Result;
use crate::session::{Changing, FrameStream, ProgressHandle, QueryStatus};

/// How often the table is drawn at most.
const REDRAW_EVERY: Duration = Duration::from_millis(200);

/// How long nothing may come before it is said why.
const SILENCE: Duration = Duration::from_secs(5);

/// Rows of the table at most, however high the terminal is.
const SHOWN_MAX: usize = 40;

/// Lines around the rows: the box with names and types, the count, the status, and one more for the cursor.
const OTHER_LINES: usize = 8;

/// Shows the changes of a result until the query ends. Gives the warnings of its end.
///
/// # Errors
/// What the query failed with; that it was cancelled is none.
pub(super) fn show(
    mut stream: FrameStream,
    changing: Changing,
    size: (usize, usize),
    zone: Option<String>,
) -> Result<Vec<String>, PrintError> {
    let schema = without_first(stream.schema());
    let mut screen = Screen::new(schema, changing, size, zone);
    let status = stream.progress_handle();
    let mut due = Instant::now();
    let ended = loop {
        match next_within(&mut stream, REDRAW_EVERY) {
            Some(Some(Ok(changes))) => screen.take(&changes)?,
            Some(Some(Err(error))) if error.is_cancelled() => break Ok("stopped"),
            Some(Some(Err(error))) => break Err(error),
            Some(None) => break Ok("ended"),
            None => {}
        }
        if Instant::now() >= due {
            let line = screen.status_line("running", status.as_ref());
            screen.draw(&line)?;
            due = Instant::now() + REDRAW_EVERY;
        }
    };
    let word = ended.as_ref().map_or("failed", |word| word);
    let line = screen.status_line(word, status.as_ref());
    screen.draw(&line)?;
    ended?;
    Ok(stream.left_out())
}

/// The columns behind the one that says what becomes of a row.
fn without_first(schema: &SchemaRef) -> SchemaRef {
    Schema::new(schema.fields().iter().skip(1).cloned().collect::<Vec<_>>()).into()
}

/// What is on the terminal.
struct Screen {
    schema: SchemaRef,
    rows: LiveRows,
    /// Columns and lines of the terminal.
    size: (usize, usize),
    zone: Option<String>,
    /// Lines that were drawn last.
    drawn: usize,
    begun: Instant,
    /// When rows came last.
    came: Option<Instant>,
    speed: Speed,
}

/// How many rows are read a second, measured over a second or more.
struct Speed {
    since: Instant,
    rows: u64,
    per_second: f64,
}

impl Speed {
    /// So many rows have been read in all.
    fn see(&mut self, rows: u64) -> f64 {
        let seconds = self.since.elapsed().as_secs_f64();
        if seconds >= 1.0 {
            self.per_second = rows.saturating_sub(self.rows) as f64 / seconds;
            (self.since, self.rows) = (Instant::now(), rows);
        }
        self.per_second
    }
}

impl Screen {
    fn new(
        schema: SchemaRef,
        changing: Changing,
        size: (usize, usize),
        zone: Option<String>,
    ) -> Self {
        let (rows, begun) = (LiveRows::new(changing), Instant::now());
        let speed = Speed { since: begun, rows: 0, per_second: 0.0 };
        Screen { schema, rows, size, zone, drawn: 0, begun, came: None, speed }
    }

    fn take(&mut self, changes: &RecordBatch) -> Result<()> {
        self.came = Some(Instant::now());
        self.rows.apply(changes)
    }

    /// How the query is doing.
    fn status_line(&mut self, word: &str, query: Option<&ProgressHandle>) -> String {
        let silent = self.came.unwrap_or(self.begun).elapsed() >= SILENCE;
        let seconds = self.begun.elapsed().as_secs_f64();
        let status = query.and_then(ProgressHandle::status);
        let speed = self.speed.see(status.as_ref().map_or(0, |status| status.rows_read));
        let status = status.map(|status| (status, speed));
        status_line(word, (self.rows.count(), self.rows.changes()), seconds, silent, status)
    }

    /// The lines of this moment, each within the terminal's width.
    fn lines(&self, status: &str) -> Result<Vec<String>> {
        let (width, height) = self.size;
        let most = height.saturating_sub(OTHER_LINES).clamp(1, SHOWN_MAX);
        let shown = self.rows.shown(&self.schema, most)?;
        let display = Display {
            width: Some(width),
            insert_table: String::new(),
            zone: self.zone.clone(),
            follows: false,
        };
        let mut format = result_format(FormatName::Table, &display);
        let mut bytes = Vec::new();
        format.begin(&self.schema, &mut bytes)?;
        format.batch(&shown, &mut bytes)?;
        format.end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let table = text.lines().filter(|line| is_of_box(line));
        let lines = table.chain([status]).map(|line| cut(line, width.saturating_sub(1)));
        let lines: Vec<String> = lines.collect();
        let surplus = lines.len().saturating_sub(height.saturating_sub(1).max(2));
        Ok(lines[..lines.len() - 1 - surplus].iter().chain(lines.last()).cloned().collect())
    }

    fn draw(&mut self, status: &str) -> Result<(), PrintError> {
        let lines = self.lines(status)?;
        let bytes = drawing(self.drawn, &lines);
        self.drawn = lines.len();
        to_stdout(|stdout| stdout.write_all(bytes.as_bytes()).and_then(|()| stdout.flush()))
    }
}

/// Whether a line belongs to the box of a table, whose count of rows is in the status instead.
fn is_of_box(line: &str) -> bool {
    line.starts_with(['┌', '├', '│', '└'])
}

/// What moves the cursor to the first of so many lines and writes others in their place.
fn drawing(drawn: usize, lines: &[String]) -> String {
    let mut text = String::new();
    if drawn > 0 {
        text.push_str(&format!("\x1b[{drawn}A\r"));
    }
    for line in lines {
        text.push_str(&format!("\x1b[2K{line}\n"));
    }
    // What the last drawing had more of goes.
    text.push_str("\x1b[J");
    text
}

/// As much of a line as so many columns hold.
fn cut(line: &str, columns: usize) -> String {
    let mut used = 0;
    line.chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= columns
        })
        .collect()
}

fn status_line(
    word: &str,
    (rows, changes): (u64, u64),
    seconds: f64,
    silent: bool,
    status: Option<(QueryStatus, f64)>,
) -> String {
    let count = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut parts = vec![format!("{word} {seconds:.0} s"), count(rows, "row")];
    if changes != rows {
        parts.push(count(changes, "change"));
    }
    let Some((status, speed)) = status else { return parts.join(" · ") };
    parts.push(format!("{speed:.0} rows/s read"));
    if let Some(watermark) = &status.watermark {
        parts.push(format!("watermark {watermark}"));
    }
    if status.late_rows > 0 {
        parts.push(format!("{} late", status.late_rows));
    }
    if let Some(holder) = status.held_back_by.as_ref().filter(|_| silent) {
        parts.push(format!("held back by {holder}"));
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn screen(size: (usize, usize), rows: i64) -> Screen {
        let op: ArrayRef = Arc::new(StringArray::from(vec!["+I"; rows as usize]));
        let k: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let changes = RecordBatch::try_from_iter([("op", op), ("k", k)]).unwrap();
        let mut screen = {
            let changing = Changing { key: Some(vec![0]), order: Vec::new() };
            Screen::new(without_first(&changes.schema()), changing, size, None)
        };
        screen.take(&changes).unwrap();
        screen
    }

    #[test]
    fn what_is_drawn_fits_the_terminal() {
        for size in [(80, 24), (10, 12), (20, 3), (200, 100)] {
            let lines = screen(size, 500).lines(&"status ".repeat(40)).unwrap();
            assert!(lines.len() < size.1.max(3), "{size:?}: {}", lines.len());
            assert!(lines.iter().all(|line| line.width() < size.0), "{size:?}: {lines:?}");
            assert!(lines.last().unwrap().starts_with("status"), "{lines:?}");
        }
        let lines = screen((80, 24), 500).lines("s").unwrap();
        assert!(lines.iter().any(|line| line.contains(" 499 ")), "the newest: {lines:?}");
        let few = screen((80, 24), 2).lines("s").unwrap();
        assert!(few.iter().any(|line| line.contains(" 0 ")), "{few:?}");
    }

    #[test]
    fn a_drawing_takes_the_place_of_the_last_one() {
        let lines = vec!["a".to_string(), "b".to_string()];
        assert_eq!(drawing(0, &lines), "\x1b[2Ka\n\x1b[2Kb\n\x1b[J");
        assert!(drawing(3, &lines).starts_with("\x1b[3A\r"));
    }

    #[test]
    fn the_status_tells_what_holds_results_back_once_nothing_comes() {
        let status = QueryStatus {
            rows_read: 100,
            watermark: Some("2024-01-01 00:00:05".into()),
            late_rows: 2,
            held_back_by: Some("t, a.csv: no row yet".into()),
        };
        let line =
            |silent| status_line("running", (1, 3), 10.0, silent, Some((status.clone(), 10.0)));
        let wanted = "running 10 s · 1 row · 3 changes · 10 rows/s read · watermark 2024-01-01 00:00:05 · 2 late";
        assert_eq!(line(false), wanted);
        assert_eq!(line(true), format!("{wanted} · held back by t, a.csv: no row yet"));
    }
}
