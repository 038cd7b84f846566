//! Random text, much of it malformed, against records that are read one at a time and byte by byte.
//!
//! A failing test prints the round; a round's text follows from its number alone.

use arrow::array::AsArray;
use arrow::datatypes::DataType;

use super::error::{ragged, unclosed_quote};
use super::records::{Column, CsvRecords, Origin};
use crate::connectors::rejects::{BadRecords, Rejects};
use crate::connectors::testing::Random;
use crate::connectors::text::{
    Block, Decoded, Quoting, RecordEnd, RecordIndex, Structure, Summary, first_record,
};

/// Rows, each with its values; records left out; and the error that ended it, if any.
#[derive(Debug, Default, PartialEq)]
struct Read {
    rows: Vec<Vec<Option<String>>>,
    skipped: usize,
    error: Option<String>,
}

struct Case {
    structure: Structure,
    width: usize,
    ignore_errors: bool,
    text: Vec<u8>,
}

impl Case {
    fn new(round: u64) -> Self {
        let mut random = Random(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let width = 1 + random.below(5);
        let delimiter = [b',', b';', b'\t', 0xa7][random.below(4)];
        let quote = [Some(b'"'), Some(b'"'), Some(b'\''), None][random.below(4)];
        let structure = Structure { delimiter, quote, empty_lines: width == 1 };
        let (faults, ignore_errors) = (random.below(4), random.below(2) == 0);
        let mut case = Case { structure, width, ignore_errors, text: Vec::new() };
        let line_end: &[u8] = if random.below(3) == 0 { b"\r\n" } else { b"\n" };
        for _ in 0..random.below(60) {
            case.add_record(&mut random, line_end, faults);
        }
        if faults == 3 {
            for _ in 0..random.below(4) {
                let at = random.below(case.text.len() + 1);
                let bytes = [delimiter, quote.unwrap_or(b'"'), b'\n', b'\r', b'x', b' '];
                case.text.insert(at, bytes[random.below(bytes.len())]);
            }
        }
        case
    }

    fn add_record(&mut self, random: &mut Random, line_end: &[u8], faults: usize) {
        let fault = |random: &mut Random| faults > 0 && random.below(30) == 0;
        let fields = if fault(random) { random.below(self.width + 3) } else { self.width };
        for field in 0..fields {
            if field > 0 {
                self.text.push(self.structure.delimiter);
            }
            self.add_field(random, faults);
        }
        match fault(random) {
            true => {
                self.text.extend_from_slice([b"\r" as &[u8], b"\n\n", b"\r\r\n"][random.below(3)])
            }
            false => self.text.extend_from_slice(line_end),
        }
    }

    fn add_field(&mut self, random: &mut Random, faults: usize) {
        let length = [0, 1, 3, 12, 13, 40, 130][random.below(7)];
        let quoted = self.structure.quote.filter(|_| random.below(3) == 0);
        let Some(quote) = quoted else {
            self.text.extend((0..length).map(|i| b'a' + (i % 26) as u8));
            if faults > 1 && random.below(40) == 0 {
                self.text.push(self.structure.quote.unwrap_or(b'"'));
            }
            return;
        };
        self.text.push(quote);
        for _ in 0..length {
            match random.below(12) {
                0 => self.text.extend([quote, quote]),
                1 => self.text.extend_from_slice([b"\n" as &[u8], b"\r\n", b"\r"][random.below(3)]),
                2 => self.text.push(self.structure.delimiter),
                _ => self.text.push(b'z'),
            }
        }
        self.text.push(quote);
        if faults > 1 && random.below(40) == 0 {
            self.text.push(b'!');
        }
    }

    fn is_utf8(&self) -> bool {
        self.structure.delimiter.is_ascii()
    }

    fn records(&self) -> CsvRecords {
        let columns = (0..self.width).map(|i| Column {
            origin: Origin::Field(i),
            name: format!("c{i}"),
            data_type: if self.is_utf8() { DataType::Utf8View } else { DataType::BinaryView },
        });
        CsvRecords {
            structure: self.structure,
            null: None,
            rejects: Rejects::new(BadRecords::of(None, self.ignore_errors)),
            header: false,
            check_names: false,
            guessed: false,
            names: (0..self.width).map(|i| format!("c{i}")).collect(),
            columns: columns.collect(),
            batch_rows: 7,
            found: RecordIndex::new(self.width),
            chosen: None,
        }
    }

    /// What comes out when each record is read byte by byte.
    fn one_by_one(&self) -> Read {
        let (mut read, mut at, bytes) = (Read::default(), 0, &self.text[..]);
        let line = |at: usize| 1 + bytes[..at].iter().filter(|b| **b == b'\n').count() as u64;
        loop {
            let mut fields = Vec::new();
            let RecordEnd::At(next) = self.structure.record(bytes, at, true, &mut fields) else {
                return read;
            };
            at = next;
            let last = fields[fields.len() - 1];
            let error = if last.unclosed {
                Some(unclosed_quote("t", line(last.start)))
            } else if fields.len() != self.width {
                Some(ragged("t", line(fields[0].start), fields.len(), self.width))
            } else {
                None
            };
            match error {
                Some(_) if self.ignore_errors => read.skipped += 1,
                Some(error) => {
                    read.error = Some(error.to_string());
                    return read;
                }
                None => read.rows.push(
                    fields
                        .iter()
                        .map(|f| {
                            let raw = &bytes[f.start..f.end];
                            let mut value = raw.to_vec();
                            if f.escaped {
                                self.structure.unescape(raw, &mut value);
                            }
                            let absent = !f.quoted && raw.is_empty();
                            (!absent).then(|| String::from_utf8_lossy(&value).into_owned())
                        })
                        .collect(),
                ),
            }
        }
    }

    /// Adds what a block gives; false once it has failed.
    fn decode(&self, records: &mut CsvRecords, block: &mut Block, read: &mut Read) -> bool {
        loop {
            let decoded = records.decode(block, "t");
            read.skipped += records.rejects.take_left_out();
            match decoded {
                Ok(Decoded::Rows(columns, rows)) => read.rows.extend((0..rows).map(|row| {
                    let value = |column: &arrow::array::ArrayRef| {
                        let value = match self.is_utf8() {
                            true => column.as_string_view().value(row).to_string(),
                            false => {
                                let bytes = column.as_binary_view().value(row);
                                String::from_utf8_lossy(bytes).into_owned()
                            }
                        };
                        column.is_valid(row).then_some(value)
                    };
                    columns.iter().map(value).collect()
                })),
                Ok(Decoded::NeedsMore | Decoded::Finished) => return true,
                Ok(Decoded::Changes(..)) => unreachable!("delimited text has no changes"),
                Err(error) => {
                    read.error = Some(error.to_string());
                    return false;
                }
            }
        }
    }
}

#[test]
fn text_that_comes_in_pieces_is_read_as_record_by_record() {
    for round in 0..3_000 {
        let case = Case::new(round);
        let mut random = Random(round);
        let (mut records, mut block) = (case.records(), Block::unread());
        let (mut read, mut rest, mut going) = (Read::default(), &case.text[..], true);
        let sizes = [3, 70, 600, 10_000][random.below(4)];
        while going && !rest.is_empty() {
            let (now, later) = rest.split_at((1 + random.below(sizes)).min(rest.len()));
            rest = later;
            block.move_on(now, "t").unwrap();
            going = case.decode(&mut records, &mut block, &mut read);
        }
        if going {
            block.move_on(b"", "t").unwrap();
            case.decode(&mut records, &mut block, &mut read);
        }
        let shown = String::from_utf8_lossy(&case.text);
        let mut expected = case.one_by_one();
        // The rows of a batch that an error stops are not handed on.
        if expected.error.is_some() {
            expected.rows.truncate(read.rows.len());
        }
        assert_eq!(read, expected, "round {round}: {shown}");
    }
}

#[test]
fn a_file_that_is_cut_anywhere_is_read_as_a_whole() {
    for round in 0..80 {
        let mut case = Case { ignore_errors: true, ..Case::new(round) };
        case.text.truncate(400);
        let expected = case.one_by_one();
        for cut in 1..case.text.len() {
            let mut read = Read::default();
            let mut block = Block::of_piece(&case.text, 0, cut);
            case.decode(&mut case.records(), &mut block, &mut read);
            let quoting =
                Summary::of(&case.structure, &case.text[..cut]).after(Quoting::FieldStart);
            let tail = &case.text[cut - 1..];
            let at = first_record(&case.structure, tail, quoting).unwrap_or(tail.len());
            let mut block = Block::of_piece(tail, at, tail.len());
            case.decode(&mut case.records(), &mut block, &mut read);
            let shown = String::from_utf8_lossy(&case.text);
            assert_eq!(read, expected, "round {round}, cut at {cut}: {shown}");
        }
    }
}
