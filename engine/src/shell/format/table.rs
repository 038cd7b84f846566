//! A box with borders.
//!
//! On a terminal: the type below each name, at most 40 rows (the first and the last 20), values cut so that the box
//! fits, and a count below. Elsewhere: every row, nothing cut. Column widths come from the rows at hand when the box
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
    schema: Option<SchemaRef>,
    head: Vec<Row>,
    tail: VecDeque<Row>,
    widths: Vec<usize>,
    begun: bool,
    rows: usize,
}

impl Table {
    pub(super) fn new(width: Option<usize>) -> Self {
        Table {
            width,
            schema: None,
            head: Vec::new(),
            tail: VecDeque::new(),
            widths: Vec::new(),
            begun: false,
            rows: 0,
        }
    }

    fn keep(&mut self, row: Row, out: &mut Vec<u8>) {
        self.rows += 1;
        if self.width.is_some() {
            if self.head.len() < SHOWN_ROWS / 2 {
                self.head.push(row);
                return;
            }
            self.tail.push_back(row);
            if self.tail.len() > SHOWN_ROWS / 2 {
                self.tail.pop_front();
            }
        } else if self.begun {
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
        if let Some(width) = self.width {
            fit(&mut widths, width);
        }
        self.widths = widths;
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
        let place = |cell: String, width: usize, _: usize| {
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
        let place = |cell: String, width: usize, column: usize| {
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            if right(column) { blanks + &cell } else { cell + &blanks }
        };
        self.print(cells, out, place);
    }

    fn print(
        &self,
        cells: &Row,
        out: &mut Vec<u8>,
        place: impl Fn(String, usize, usize) -> String,
    ) {
        for (column, (cell, &width)) in cells.iter().zip(&self.widths).enumerate() {
            out.extend_from_slice("│ ".as_bytes());
            let cell = if self.width.is_some() { cut(cell, width) } else { cell.clone() };
            out.extend_from_slice(place(cell, width, column).as_bytes());
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
        let cells = Cells::new(batch)?;
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

    fn end(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if !self.begun {
            self.begin_box(out);
        }
        let shown = self.rows.min(SHOWN_ROWS);
        let hidden = self.width.is_some() && self.rows > shown;
        if hidden {
            let dots: Row = self.widths.iter().map(|_| "·".to_string()).collect();
            self.print_centred(&dots, out);
        }
        for row in std::mem::take(&mut self.tail) {
            self.print_row(&row, out);
        }
        self.rule(["└", "┴", "┘"], out);
        if self.width.is_some() {
            let plural = if self.rows == 1 { "" } else { "s" };
            let part = if hidden { format!(" ({shown} shown)") } else { String::new() };
            out.extend_from_slice(format!("{} row{plural}{part}\n", self.rows).as_bytes());
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
