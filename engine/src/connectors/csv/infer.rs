//! Finding out how a text file is built: delimiter, header, columns and their types.
//!
//! Types are those that every value of the sample has. A column whose values are all quoted is text, and so is a
//! quoted name in the header, unless the file quotes everything: then quotes say nothing. Numbers with leading zeros
//! are codes and stay text. The sample is the beginning of the first file, some places further on in it, and the
//! beginnings of other files.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ArrowField, Schema, SchemaRef};
use thalweg_runtime::{Error, Result};

use super::columns::{ColumnGuesses, Quotes, column_names, header_name};
use crate::connectors::files::{
    Compression, CsvOptions, FoundFile, common_type, delimiter_by_name, must_share_a_column,
    unpacking_reader,
};
use crate::connectors::text::{DELIMITERS, Field, Kinds, RecordEnd, Structure};

/// Bytes of the first file's beginning that are looked at; of a smaller file all are.
const SAMPLE_BYTES: u64 = 8 << 20;
/// Places further on in a larger file, and bytes at each.
const PROBES: u64 = 8;
const PROBE_BYTES: u64 = 128 << 10;
/// Other files whose beginnings are looked at, and bytes of each.
const OTHER_FILES_MAX: usize = 64;
const OTHER_BYTES: u64 = 64 << 10;
/// Records by which delimiters are judged.
const DIALECT_RECORDS: usize = 200;

/// What was found out.
#[derive(Debug, Clone)]
pub struct Dialect {
    /// The options with nothing left open.
    pub csv: CsvOptions,
    /// Whether files begin with a header.
    pub header: bool,
    /// The columns.
    pub schema: SchemaRef,
    /// Bytes of a record, on average over the sample.
    pub record_bytes: f64,
    /// Bytes of a file's header.
    pub header_bytes: f64,
    /// For each file its own columns, where they are not those of the table in the table's order.
    pub file_columns: Vec<Option<Vec<String>>>,
    /// Whether a header must name the table's columns; otherwise columns go by position.
    pub by_name: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Dialect {
            csv: CsvOptions::default(),
            header: false,
            schema: Arc::new(Schema::empty()),
            record_bytes: 1.0,
            header_bytes: 0.0,
            file_columns: Vec::new(),
            by_name: false,
        }
    }
}

/// Looks at files. With declared columns only the dialect is found out.
pub fn infer_files(
    files: &[FoundFile],
    compression: Compression,
    options: &CsvOptions,
    declared: Option<&SchemaRef>,
) -> Result<Dialect> {
    let sampled = files.iter().find(|f| f.size > 0).unwrap_or(&files[0]);
    let (text, whole) = beginning(sampled, compression, SAMPLE_BYTES)?;
    let delimiter = options
        .delimiter
        .or_else(|| delimiter_by_name(&sampled.name))
        .unwrap_or_else(|| guess_delimiter(&text, whole, options.quote));
    let csv = CsvOptions { delimiter: Some(delimiter), ..options.clone() };
    let structure = structure(&csv, usize::MAX);
    let sample = Sample::new(structure, &text, whole);
    if sample.records == 0 {
        return empty(sampled, csv, declared);
    }
    let null = options.null.as_deref().map(str::as_bytes);
    let mut columns = ColumnGuesses::new(sample.width(0), null);
    (1..sample.records).for_each(|r| columns.add(&sample, r));
    if !whole || files.len() > OTHER_FILES_MAX {
        columns.leave_open();
    }
    if compression == Compression::None {
        probe(sampled, structure, &mut columns)?;
    }
    let (header, quotes) = match csv.header {
        Some(header) => (header, Quotes::of(&sample)),
        None => columns.header_above(&sample),
    };
    if !header {
        columns.add(&sample, 0);
    }
    let names = column_names(header.then(|| sample.names(0)), columns.len());
    let mut tables = vec![(names, columns)];
    let mut file_tables = vec![0; files.len()];
    let others = files.iter().enumerate().filter(|(_, f)| f.path != sampled.path && f.size > 0);
    for (i, file) in others.take(OTHER_FILES_MAX) {
        let (text, whole) = beginning(file, compression, OTHER_BYTES)?;
        let other = Sample::new(structure, &text, whole);
        let known = tables.len();
        let table = add_file(&mut tables, &other, header);
        if declared.is_none() && table == known {
            let earlier = tables[..known].iter().flat_map(|(names, _)| names);
            must_share_a_column(&sampled.name, earlier, &file.name, &tables[table].0)?;
        }
        if !whole {
            tables[table].1.leave_open();
        }
        file_tables[i] = table;
    }
    let (header_bytes, record_bytes) = sample.bytes(header);
    let dialect = Dialect { csv, header, record_bytes, header_bytes, ..Dialect::default() };
    Ok(settle(dialect, tables, file_tables, declared, quotes))
}

/// Columns of files that share their names, and what is known of their values.
type Tables<'a> = Vec<(Vec<String>, ColumnGuesses<'a>)>;

/// Adds a file's records to the columns of the same names; the answer is which those are.
fn add_file(tables: &mut Tables<'_>, sample: &Sample<'_>, header: bool) -> usize {
    let names = match header && sample.records > 0 {
        true => column_names(Some(sample.names(0)), sample.width(0)),
        false => tables[0].0.clone(),
    };
    let index = match tables.iter().position(|(known, _)| *known == names) {
        Some(index) => index,
        None => {
            let columns = ColumnGuesses::new(names.len(), tables[0].1.null);
            tables.push((names, columns));
            tables.len() - 1
        }
    };
    (usize::from(header)..sample.records).for_each(|r| tables[index].1.add(sample, r));
    index
}

/// One set of columns for all files, and how each file's own columns relate to it.
fn settle(
    dialect: Dialect,
    tables: Tables<'_>,
    file_tables: Vec<usize>,
    declared: Option<&SchemaRef>,
    quotes: Quotes,
) -> Dialect {
    let schema = match declared {
        Some(declared) => declared.clone(),
        None => union_of(&tables, quotes),
    };
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    let by_name = match declared {
        None => true,
        Some(_) => dialect.header && names.iter().all(|n| tables[0].0.iter().any(|t| t == n)),
    };
    let own = |table: usize| {
        let columns = &tables[table].0;
        (by_name && *columns != names).then(|| columns.clone())
    };
    let file_columns = file_tables.into_iter().map(own).collect();
    Dialect { schema, by_name, file_columns, ..dialect }
}

fn union_of(tables: &Tables<'_>, quotes: Quotes) -> SchemaRef {
    let mut fields: Vec<ArrowField> = Vec::new();
    for (names, columns) in tables {
        for (i, name) in names.iter().enumerate() {
            let found = columns.data_type(i, quotes);
            match fields.iter_mut().find(|f| f.name() == name) {
                None => fields.push(ArrowField::new(name, found, true)),
                Some(known) => {
                    // Whatever two files write, it can be read as text.
                    let common =
                        common_type(known.data_type(), &found).unwrap_or(DataType::Utf8View);
                    *known = ArrowField::new(name, common, true);
                }
            }
        }
    }
    Arc::new(Schema::new(fields))
}

/// The structure of a dialect for tables of this many columns.
pub fn structure(csv: &CsvOptions, columns: usize) -> Structure {
    Structure {
        delimiter: csv.delimiter.unwrap_or(b','),
        quote: csv.quote,
        empty_lines: columns == 1,
    }
}

fn empty(file: &FoundFile, csv: CsvOptions, declared: Option<&SchemaRef>) -> Result<Dialect> {
    match declared {
        Some(schema) => {
            Ok(Dialect { csv, schema: schema.clone(), record_bytes: 1.0, ..Dialect::default() })
        }
        None => Err(Error::User {
            message: format!("the file \"{}\" is empty", file.name),
            detail: None,
            hint: Some(file.declaration("csv")),
        }),
    }
}

/// The first bytes of a file, unpacked and without a byte order mark, and whether they are all.
fn beginning(
    file: &FoundFile,
    compression: Compression,
    bytes_max: u64,
) -> Result<(Vec<u8>, bool)> {
    let read = || -> std::io::Result<Vec<u8>> {
        let source = unpacking_reader(File::open(&file.path)?, compression)?;
        let mut text = Vec::new();
        source.take(bytes_max + 1).read_to_end(&mut text)?;
        Ok(text)
    };
    let mut text = read().map_err(|e| Error::io(format!("cannot read \"{}\"", file.name), &e))?;
    if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") {
        let name = &file.name;
        return Err(Error::Unsupported(format!(
            "text in UTF-16 (\"{name}\"): convert it to UTF-8"
        )));
    }
    let whole = text.len() as u64 <= bytes_max;
    if text.starts_with(b"\xef\xbb\xbf") {
        text.drain(..3);
    }
    Ok((text, whole))
}

/// Records of a sample; the last one is left out if it may have been cut off.
pub struct Sample<'a> {
    /// The bytes that structure the text.
    pub structure: Structure,
    /// How many records there are.
    pub records: usize,
    text: &'a [u8],
    fields: Vec<Field>,
    /// For each record its first field; one more at the end.
    starts: Vec<usize>,
    /// Where the first record ends, and where all of them do.
    first_end: usize,
    end: usize,
}

impl<'a> Sample<'a> {
    fn new(structure: Structure, text: &'a [u8], whole: bool) -> Self {
        Sample::of_records(structure, text, whole, usize::MAX)
    }

    fn of_records(structure: Structure, text: &'a [u8], whole: bool, records_max: usize) -> Self {
        let (mut fields, mut starts, mut at, mut first_end) = (Vec::new(), vec![0], 0, 0);
        while starts.len() <= records_max {
            match structure.record(text, at, whole, &mut fields) {
                RecordEnd::At(next) => {
                    at = next;
                    starts.push(fields.len());
                    if starts.len() == 2 {
                        first_end = at;
                    }
                }
                RecordEnd::NeedsMore | RecordEnd::Finished => break,
            }
        }
        Sample { structure, text, records: starts.len() - 1, fields, starts, first_end, end: at }
    }

    /// Fields of a record.
    pub fn width(&self, record: usize) -> usize {
        self.starts[record + 1] - self.starts[record]
    }

    /// The fields of a record.
    pub fn fields(&self, record: usize) -> &[Field] {
        &self.fields[self.starts[record]..self.starts[record + 1]]
    }

    /// The value of a field, quotes resolved.
    pub fn value(&self, field: &Field) -> Vec<u8> {
        let raw = &self.text[field.start..field.end];
        let mut out = raw.to_vec();
        if field.escaped {
            self.structure.unescape(raw, &mut out);
        }
        out
    }

    /// Whether there is one record, written as a row is: the writer lets an empty line follow a header that could be
    /// taken for a row, or leaves its line open where an empty line is a row.
    pub fn is_one_row(&self) -> bool {
        self.records == 1
            && self.first_end == self.text.len()
            && (self.width(0) > 1 || self.closes())
    }

    fn closes(&self) -> bool {
        self.text.ends_with(b"\n") || self.text.ends_with(b"\r")
    }

    /// The record as names of columns.
    fn names(&self, record: usize) -> Vec<String> {
        self.fields(record).iter().map(|f| header_name(&self.value(f), f.quoted)).collect()
    }

    /// Bytes of the header, and of a record below it on average.
    fn bytes(&self, header: bool) -> (f64, f64) {
        match header {
            false => (0.0, self.end as f64 / self.records.max(1) as f64),
            true => {
                let rows = self.records.saturating_sub(1).max(1);
                (self.first_end as f64, (self.end - self.first_end) as f64 / rows as f64)
            }
        }
    }
}

/// What speaks for a delimiter, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
struct Fitness {
    /// Behind every closing quote the field ends.
    closes: bool,
    /// Every record has the same number of fields.
    agrees: bool,
    /// All values below the first record look like numbers or other types.
    typed: bool,
    /// How many records have the same number of fields, and how many fields.
    score: f64,
    /// How many of the values below the first record do.
    typed_share: f64,
}

/// The delimiter that gives most records the same number of fields, more than one, the first record among them. One at
/// which quoted fields do not end is taken only if they end at none.
fn guess_delimiter(text: &[u8], whole: bool, quote: Option<u8>) -> u8 {
    let mut best: Option<(Fitness, u8)> = None;
    for delimiter in DELIMITERS {
        let structure = Structure { delimiter, quote, empty_lines: false };
        let sample = Sample::of_records(structure, text, whole, DIALECT_RECORDS);
        // Of two that are equally fit it is the likelier one.
        if let Some(fitness) = fitness(&sample)
            && best.is_none_or(|(known, _)| fitness > known)
        {
            best = Some((fitness, delimiter));
        }
    }
    best.map_or_else(|| only_column(text, whole, quote), |(_, delimiter)| delimiter)
}

/// A delimiter for a file whose first record has one field at all of them: one that no record has, if there is any.
fn only_column(text: &[u8], whole: bool, quote: Option<u8>) -> u8 {
    let one_field = |records_max: usize| {
        move |delimiter: &u8| {
            let structure = Structure { delimiter: *delimiter, quote, empty_lines: false };
            let sample = Sample::of_records(structure, text, whole, records_max);
            (0..sample.records).all(|r| sample.width(r) == 1)
        }
    };
    match DELIMITERS.iter().all(one_field(1)) {
        true => DELIMITERS.into_iter().find(one_field(DIALECT_RECORDS)).unwrap_or(DELIMITERS[0]),
        false => DELIMITERS[0],
    }
}

/// How well a sample goes with its delimiter; `None` if the first record has but one field, or another number of them than
/// most.
fn fitness(sample: &Sample<'_>) -> Option<Fitness> {
    let mut widths: Vec<usize> = (0..sample.records).map(|r| sample.width(r)).collect();
    let first = *widths.first()?;
    widths.sort_unstable();
    let most = widths.chunk_by(|a, b| a == b).max_by_key(|g| (g.len(), g[0]))?;
    if first < 2 || most[0] != first {
        return None;
    }
    let agreeing = most.len() as f64 / widths.len() as f64;
    let typed_share = typed_share(sample);
    Some(Fitness {
        closes: !sample.fields.iter().any(|field| field.trailing),
        agrees: most.len() == widths.len(),
        typed: typed_share >= 1.0,
        score: agreeing * agreeing * (1.0 + (first as f64).ln() / 10.0),
        typed_share,
    })
}

/// How many of the values are no wording, those of the first record left out if there are others.
fn typed_share(sample: &Sample<'_>) -> f64 {
    let from = usize::from(sample.records > 1);
    let fields = (from..sample.records).flat_map(|record| sample.fields(record));
    let typed = fields.map(|field| !Kinds::of(&sample.value(field)).is_wording());
    let (typed, all) = typed.fold((0, 0), |(n, all), typed| (n + u32::from(typed), all + 1_u32));
    f64::from(typed) / f64::from(all.max(1))
}

/// Looks at places further on in a large file. Records are taken where they have the right number of fields.
fn probe(file: &FoundFile, structure: Structure, columns: &mut ColumnGuesses<'_>) -> Result<()> {
    if file.size <= SAMPLE_BYTES + PROBES * PROBE_BYTES {
        return Ok(());
    }
    let read = |from: u64| -> std::io::Result<Vec<u8>> {
        let mut source = File::open(&file.path)?;
        source.seek(SeekFrom::Start(from))?;
        let mut text = Vec::new();
        source.take(PROBE_BYTES).read_to_end(&mut text)?;
        Ok(text)
    };
    let span = file.size - SAMPLE_BYTES - PROBE_BYTES;
    for i in 1..=PROBES {
        let text = read(SAMPLE_BYTES + span * i / PROBES)
            .map_err(|e| Error::io(format!("cannot read \"{}\"", file.name), &e))?;
        let Some(first) = memchr::memchr(b'\n', &text) else { continue };
        let sample = Sample::new(structure, &text[first + 1..], false);
        let width = columns.len();
        (0..sample.records)
            .filter(|&r| sample.width(r) == width)
            .for_each(|r| columns.add(&sample, r));
    }
    Ok(())
}
