//! A box with borders.
//!
//! On a terminal: the type below each name, at most 40 rows (the first and the last 20), values cut so that the box
//! fits, columns in the middle left out where that is not enough, and a count below. Elsewhere: every row, nothing cut. Column widths come from the rows at hand when the box
//! is begun; on long results a later and longer value pushes its row's borders to the right.

use std::collections::VecDeque;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::cell::{Cells, is_right_aligned};
use super::*;
use crate::catalog::sql_type_name;

/// Rows shown on a terminal, half of them from the end.
const SHOWN_ROWS: usize = 40;

/// Rows from which column widths are taken where all rows are printed.
const WIDTH_ROWS: usize = 10_000;

/// Columns of the terminal that a cut value keeps at least.
const MIN_WIDTH: usize = 8;

/// Characters of a value that a terminal is shown at most.
const MAX_SHOWN_CHARS: usize = 500;

type Row = Vec<String>;

/// See the module.
pub(super) struct Table {
    width: Option<usize>,
    zone: Option<String>,
    schema: Option<SchemaRef>,
    head: Vec<Row>,
    tail: VecDeque<Row>,
    /// The columns that are shown; `None` stands for those that are left out.
    columns: Vec<Option<usize>>,
    /// One for each of them.
    widths: Vec<usize>,
    begun: bool,
    /// Rows are shown as they come, and none is left out.
    live: bool,
    rows: usize,
}

impl Table {
    pub(super) fn new(display: &Display) -> Self {
        Table {
            width: display.width,
            zone: display.zone.clone(),
            schema: None,
            head: Vec::new(),
            tail: VecDeque::new(),
            columns: Vec::new(),
            widths: Vec::new(),
            begun: false,
            live: false,
            rows: 0,
        }
    }

    fn keep(&mut self, row: Row, out: &mut Vec<u8>) {
        self.rows += 1;
        if self.width.is_some() && !self.live {
            if self.head.len() < SHOWN_ROWS / 2 {
                self.head.push(row);
                return;
            }
            self.tail.push_back(row);
            if self.tail.len() > SHOWN_ROWS / 2 {
                self.tail.pop_front();
            }
        } else if self.begun || self.live {
            self.print_row(&row, out);
        } else {
            self.head.push(row);
            if self.head.len() == WIDTH_ROWS {
                self.begin_box(out);
            }
        }
    }

    /// Settles the widths and prints the top and the rows at hand.
    fn begin_box(&mut self, out: &mut Vec<u8>) {
        self.begun = true;
        let Some(schema) = self.schema.clone() else { return };
        let names: Row = schema.fields().iter().map(|f| shown(f.name())).collect();
        let types: Row = schema.fields().iter().map(|f| sql_type_name(f.data_type())).collect();
        let mut widths: Vec<usize> = names.iter().map(|n| n.width()).collect();
        let all_rows = self.head.iter().chain(&self.tail).chain(self.width.map(|_| &types));
        for row in all_rows {
            widths
                .iter_mut()
                .zip(row)
                .for_each(|(width, cell)| *width = (*width).max(cell.width()));
        }
        (self.columns, self.widths) = match self.width {
            Some(width) => fitting(&widths, width),
            None => ((0..widths.len()).map(Some).collect(), widths),
        };
        self.rule(["┌", "┬", "┐"], out);
        self.print_centred(&names, out);
        if self.width.is_some() {
            self.print_centred(&types, out);
        }
        self.rule(["├", "┼", "┤"], out);
        for row in std::mem::take(&mut self.head) {
            self.print_row(&row, out);
        }
    }

    fn rule(&self, [left, middle, right]: [&str; 3], out: &mut Vec<u8>) {
        let bars: Vec<String> = self.widths.iter().map(|width| "─".repeat(width + 2)).collect();
        out.extend_from_slice(format!("{left}{}{right}\n", bars.join(middle)).as_bytes());
    }

    fn print_centred(&self, cells: &Row, out: &mut Vec<u8>) {
        let place = |cell: String, width: usize, _: Option<usize>| {
            let blanks = width.saturating_sub(cell.width());
            format!("{}{cell}{}", " ".repeat(blanks / 2), " ".repeat(blanks - blanks / 2))
        };
        self.print(cells, out, place);
    }

    fn print_row(&self, cells: &Row, out: &mut Vec<u8>) {
        let right = |column: usize| {
            self.schema
                .as_ref()
                .is_some_and(|schema| is_right_aligned(schema.field(column).data_type()))
        };
        let place = |cell: String, width: usize, column: Option<usize>| {
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            if column.is_some_and(right) { blanks + &cell } else { cell + &blanks }
        };
        self.print(cells, out, place);
    }

    fn print(
        &self,
        cells: &Row,
        out: &mut Vec<u8>,
        place: impl Fn(String, usize, Option<usize>) -> String,
    ) {
        for (column, &width) in self.columns.iter().zip(&self.widths) {
            out.extend_from_slice("│ ".as_bytes());
            let cell = column.and_then(|column| cells.get(column)).map_or(LEFT_OUT, String::as_str);
            let cell = if self.width.is_some() { cut(cell, width) } else { cell.to_string() };
            out.extend_from_slice(place(cell, width, *column).as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice("│\n".as_bytes());
    }
}

impl ResultFormat for Table {
    fn begin(&mut self, schema: &SchemaRef, _out: &mut Vec<u8>) -> Result<()> {
        self.schema = Some(schema.clone());
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let cells = Cells::new(batch, self.zone.as_deref())?;
        let (rows, limit) = (batch.num_rows(), SHOWN_ROWS / 2);
        let mut row = 0;
        while row < rows {
            // Rows between the first and the last shown ones need no text.
            if self.width.is_some() && self.head.len() == limit && rows - row > limit {
                self.rows += rows - limit - row;
                row = rows - limit;
            }
            let texts: Row =
                (0..batch.num_columns()).map(|column| self.cell(&cells, row, column)).collect();
            self.keep(texts, out);
            row += 1;
        }
        Ok(())
    }

    fn pause(&mut self, out: &mut Vec<u8>) {
        if self.rows == 0 {
            // Widths come from rows.
            return;
        }
        if !self.begun {
            self.begin_box(out);
        }
        for row in std::mem::take(&mut self.tail) {
            self.print_row(&row, out);
        }
        self.live = true;
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if !self.begun {
            self.begin_box(out);
        }
        let shown = if self.live { self.rows } else { self.rows.min(SHOWN_ROWS) };
        let hidden = self.width.is_some() && self.rows > shown;
        if hidden {
            let fields = self.schema.as_ref().map_or(0, |schema| schema.fields().len());
            let dots: Row = vec!["·".to_string(); fields];
            self.print_centred(&dots, out);
        }
        for row in std::mem::take(&mut self.tail) {
            self.print_row(&row, out);
        }
        self.rule(["└", "┴", "┘"], out);
        if self.width.is_some() {
            let rows = counted(self.rows, if hidden { shown } else { self.rows }, "row");
            out.extend_from_slice(rows.as_bytes());
            let fields = self.schema.as_ref().map_or(0, |schema| schema.fields().len());
            let shown = self.columns.iter().flatten().count();
            if shown < fields {
                out.extend_from_slice(format!(", {}", counted(fields, shown, "column")).as_bytes());
            }
            out.push(b'\n');
        }
        Ok(())
    }
}

impl Table {
    fn cell(&self, cells: &Cells, row: usize, column: usize) -> String {
        let mut bytes = Vec::new();
        let Some(text) = cells.text(row, column, &mut bytes) else { return "NULL".to_string() };
        let mut text = String::from_utf8_lossy(text).into_owned();
        if self.width.is_some()
            && let Some((at, _)) = text.char_indices().nth(MAX_SHOWN_CHARS)
        {
            text.truncate(at);
            text.push('…');
        }
        shown(&text)
    }
}

/// Text on one line.
fn shown(text: &str) -> String {
    if !text.contains(|c: char| c.is_control()) {
        return text.to_string();
    }
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// The text within so many columns of the terminal.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// How many there are, and how many of them are shown.
fn counted(all: usize, shown: usize, what: &str) -> String {
    let plural = if all == 1 { "" } else { "s" };
    let part = if shown < all { format!(" ({shown} shown)") } else { String::new() };
    format!("{all} {what}{plural}{part}")
}

/// What stands for the columns that are left out.
const LEFT_OUT: &str = "…";

/// Columns that fit the terminal, with their widths: all of them, or as many of the first and the last ones as fit when
/// they are as narrow as they may be. The first and the last are there in any case.
fn fitting(widths: &[usize], terminal: usize) -> (Vec<Option<usize>>, Vec<usize>) {
    let least = |width: &usize| (*width).min(MIN_WIDTH) + 3;
    let all: Vec<Option<usize>> = (0..widths.len()).map(Some).collect();
    let mut shown = all.clone();
    if widths.iter().map(least).sum::<usize>() + 1 > terminal {
        // The borders at the end, and the column that stands for the rest.
        let mut room = terminal.saturating_sub(1 + 1 + 3);
        let (mut first, mut last) = (0, widths.len());
        while first < last {
            let column = if first <= widths.len() - last { first } else { last - 1 };
            let forced = first == 0 || last == widths.len();
            match room.checked_sub(least(&widths[column])) {
                Some(rest) => room = rest,
                None if forced => room = 0,
                None => break,
            }
            if column == first { first += 1 } else { last -= 1 }
        }
        if first < last {
            shown = [&all[..first], &[None], &all[last..]].concat();
        }
    }
    let mut narrowed: Vec<usize> =
        shown.iter().map(|column| column.map_or(1, |column| widths[column])).collect();
    fit(&mut narrowed, terminal);
    (shown, narrowed)
}

/// Narrows the widest columns until the box fits the terminal, or none can give more.
fn fit(widths: &mut [usize], terminal: usize) {
    let borders = 3 * widths.len() + 1;
    loop {
        let total: usize = widths.iter().sum::<usize>() + borders;
        let Some(widest) = widths.iter_mut().max() else { return };
        if total <= terminal || *widest <= MIN_WIDTH {
            return;
        }
        *widest -= 1;
    }
}
