//! Finding out how a text file is built: delimiter, header, columns and their types.
//!
//! Types are those that every value of the sample has, quoted or not; numbers with leading zeros are codes and stay
//! text. The sample is the beginning of the first file, some places
//! further on in it, and the beginnings of other files.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ArrowField, Schema, SchemaRef, TimeUnit};
use thalweg_runtime::{Error, Result};

use crate::connectors::files::{
    Compression, CsvOptions, FoundFile, common_type, delimiter_by_name, unpacking_reader,
};
use crate::connectors::text::{Field, RecordEnd, Structure, value};

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
/// Delimiters that are tried, the likeliest first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

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
    let mut columns = ColumnGuesses::new(sample.width(0));
    let null = csv.null.as_deref().map(str::as_bytes);
    (1..sample.records).for_each(|r| columns.add(&sample, r, null));
    if compression == Compression::None {
        probe(sampled, structure, &mut columns, null)?;
    }
    let header = csv.header.unwrap_or_else(|| columns.header_above(&sample, null));
    if !header {
        columns.add(&sample, 0, null);
    }
    let names = column_names(header.then(|| sample.texts(0)), columns.kinds.len());
    let mut tables = vec![(names, columns)];
    let mut file_tables = vec![0; files.len()];
    let others = files.iter().enumerate().filter(|(_, f)| f.path != sampled.path && f.size > 0);
    for (i, file) in others.take(OTHER_FILES_MAX) {
        let (text, whole) = beginning(file, compression, OTHER_BYTES)?;
        let other = Sample::new(structure, &text, whole);
        file_tables[i] = add_file(&mut tables, &other, header, null);
    }
    let record_bytes = text.len() as f64 / sample.records as f64;
    Ok(settle(
        Dialect { csv, header, record_bytes, ..Dialect::default() },
        tables,
        file_tables,
        declared,
    ))
}

/// Columns of files that share their names, and what is known of their values.
type Tables = Vec<(Vec<String>, ColumnGuesses)>;

/// Adds a file's records to the columns of the same names; the answer is which those are.
fn add_file(tables: &mut Tables, sample: &Sample<'_>, header: bool, null: Option<&[u8]>) -> usize {
    let names = match header && sample.records > 0 {
        true => column_names(Some(sample.texts(0)), sample.width(0)),
        false => tables[0].0.clone(),
    };
    let index = match tables.iter().position(|(known, _)| *known == names) {
        Some(index) => index,
        None => {
            let columns = ColumnGuesses::new(names.len());
            tables.push((names, columns));
            tables.len() - 1
        }
    };
    (usize::from(header)..sample.records).for_each(|r| tables[index].1.add(sample, r, null));
    index
}

/// One set of columns for all files, and how each file's own columns relate to it.
fn settle(
    dialect: Dialect,
    tables: Tables,
    file_tables: Vec<usize>,
    declared: Option<&SchemaRef>,
) -> Dialect {
    let schema = match declared {
        Some(declared) => declared.clone(),
        None => union_of(&tables),
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

fn union_of(tables: &Tables) -> SchemaRef {
    let mut fields: Vec<ArrowField> = Vec::new();
    for (names, columns) in tables {
        for (i, name) in names.iter().enumerate() {
            let found = columns.data_type(i);
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
            hint: Some("declare the columns with CREATE TABLE".into()),
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
struct Sample<'a> {
    structure: Structure,
    text: &'a [u8],
    fields: Vec<Field>,
    starts: Vec<usize>,
    records: usize,
}

impl<'a> Sample<'a> {
    fn new(structure: Structure, text: &'a [u8], whole: bool) -> Self {
        Sample::of_records(structure, text, whole, usize::MAX)
    }

    fn of_records(structure: Structure, text: &'a [u8], whole: bool, records_max: usize) -> Self {
        let (mut fields, mut starts, mut at) = (Vec::new(), vec![0], 0);
        while starts.len() <= records_max {
            match structure.record(text, at, whole, &mut fields) {
                RecordEnd::At(next) => {
                    at = next;
                    starts.push(fields.len());
                }
                RecordEnd::NeedsMore | RecordEnd::Finished => break,
            }
        }
        Sample { structure, text, records: starts.len() - 1, fields, starts }
    }

    fn width(&self, record: usize) -> usize {
        self.starts[record + 1] - self.starts[record]
    }

    fn fields(&self, record: usize) -> &[Field] {
        &self.fields[self.starts[record]..self.starts[record + 1]]
    }

    fn value(&self, field: &Field) -> Vec<u8> {
        let raw = &self.text[field.start..field.end];
        let mut out = raw.to_vec();
        if field.escaped {
            self.structure.unescape(raw, &mut out);
        }
        out
    }

    fn texts(&self, record: usize) -> Vec<String> {
        let fields = self.fields(record).iter();
        fields.map(|f| String::from_utf8_lossy(&self.value(f)).trim().to_string()).collect()
    }
}

/// The delimiter that gives most records the same number of fields, more than one.
fn guess_delimiter(text: &[u8], whole: bool, quote: Option<u8>) -> u8 {
    let mut best = (0.0, b',');
    for delimiter in DELIMITERS {
        let structure = Structure { delimiter, quote, empty_lines: false };
        let sample = Sample::of_records(structure, text, whole, DIALECT_RECORDS);
        let mut widths: Vec<usize> = (0..sample.records).map(|r| sample.width(r)).collect();
        widths.sort_unstable();
        let groups = widths.chunk_by(|a, b| a == b);
        let Some(most) = groups.max_by_key(|g| (g.len(), g[0])) else { continue };
        if most[0] < 2 {
            continue;
        }
        // A delimiter that agrees everywhere beats one that gives more fields here and there.
        let agreeing = most.len() as f64 / widths.len() as f64;
        let score = agreeing * agreeing * (1.0 + (most[0] as f64).ln() / 10.0);
        if score > best.0 + 1e-9 {
            best = (score, delimiter);
        }
    }
    best.1
}

/// Looks at places further on in a large file. Records are taken where they have the right number of fields.
fn probe(
    file: &FoundFile,
    structure: Structure,
    columns: &mut ColumnGuesses,
    null: Option<&[u8]>,
) -> Result<()> {
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
        let width = columns.kinds.len();
        (0..sample.records)
            .filter(|&r| sample.width(r) == width)
            .for_each(|r| columns.add(&sample, r, null));
    }
    Ok(())
}

/// What the values of a column may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kinds(u8);

impl Kinds {
    const BOOLEAN: u8 = 1;
    const INTEGER: u8 = 2;
    const DOUBLE: u8 = 4;
    const DATE: u8 = 8;
    const TIMESTAMP: u8 = 16;
    const ZONED: u8 = 32;
    const ANY: Kinds = Kinds(63);

    fn of(text: &[u8]) -> Self {
        let text = text.trim_ascii();
        let Some(first) = text.first() else { return Kinds::ANY };
        let mut kinds = 0;
        if matches!(first, b'0'..=b'9' | b'-' | b'+' | b'.') {
            if has_leading_zeros(text) {
                // A code such as 007.
            } else if value::integer(text).is_some() {
                kinds |= Kinds::INTEGER | Kinds::DOUBLE;
            } else if is_double(text) {
                kinds |= Kinds::DOUBLE;
            } else if value::date(text).is_some() {
                kinds |= Kinds::DATE | Kinds::TIMESTAMP;
            } else if let Some(time) = value::timestamp(text) {
                kinds |= if time.zoned { Kinds::ZONED } else { Kinds::TIMESTAMP };
            }
        } else if text.eq_ignore_ascii_case(b"true") || text.eq_ignore_ascii_case(b"false") {
            kinds |= Kinds::BOOLEAN;
        } else if matches!(text, b"NaN" | b"Infinity" | b"inf" | b"nan") {
            kinds |= Kinds::DOUBLE;
        }
        if matches!(text, b"-Infinity" | b"-inf") {
            kinds |= Kinds::DOUBLE;
        }
        Kinds(kinds)
    }

    fn data_type(self, seen: bool) -> DataType {
        let has = |kind| self.0 & kind != 0;
        let zone =
            |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Arc::from));
        if !seen || self.0 == 0 {
            DataType::Utf8View
        } else if has(Kinds::BOOLEAN) {
            DataType::Boolean
        } else if has(Kinds::INTEGER) {
            DataType::Int64
        } else if has(Kinds::DOUBLE) {
            DataType::Float64
        } else if has(Kinds::DATE) {
            DataType::Date32
        } else if has(Kinds::TIMESTAMP) {
            zone(None)
        } else {
            zone(Some("+00:00"))
        }
    }
}

/// Digits alone that begin with a needless zero.
fn has_leading_zeros(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    digits.len() > 1 && digits[0] == b'0' && digits.iter().all(u8::is_ascii_digit)
}

/// A number with a point or an exponent; integers too long for 64 bits stay text, so that no digit is lost.
fn is_double(text: &[u8]) -> bool {
    let only_digits = text.iter().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+'));
    !only_digits && value::double(text).is_some()
}

/// The guesses for all columns.
struct ColumnGuesses {
    kinds: Vec<Kinds>,
    seen: Vec<bool>,
}

impl ColumnGuesses {
    fn new(columns: usize) -> Self {
        ColumnGuesses { kinds: vec![Kinds::ANY; columns], seen: vec![false; columns] }
    }

    fn add(&mut self, sample: &Sample<'_>, record: usize, null: Option<&[u8]>) {
        for (i, field) in sample.fields(record).iter().enumerate().take(self.kinds.len()) {
            let text = sample.value(field);
            let is_null = !field.quoted && null == Some(&text[..]);
            if text.trim_ascii().is_empty() {
                // An empty text that was written with quotes keeps its column text.
                if field.quoted {
                    (self.kinds[i], self.seen[i]) = (Kinds(0), true);
                }
            } else if !is_null {
                self.kinds[i] = Kinds(self.kinds[i].0 & Kinds::of(&text).0);
                self.seen[i] = true;
            }
        }
    }

    /// Whether the first record names the columns: it is text where values below are not, or all of it is text.
    fn header_above(&self, sample: &Sample<'_>, null: Option<&[u8]>) -> bool {
        let mut first = ColumnGuesses::new(sample.width(0));
        first.add(sample, 0, null);
        let is_text =
            |g: &ColumnGuesses, i: usize| g.data_type(i) == DataType::Utf8View && g.seen[i];
        let differs = (0..self.kinds.len())
            .any(|i| is_text(&first, i) && self.seen[i] && self.data_type(i) != DataType::Utf8View);
        let some_text = (0..self.kinds.len()).any(|i| is_text(&first, i));
        let all_text = (0..self.kinds.len()).all(|i| is_text(&first, i) || !first.seen[i]);
        differs || (some_text && all_text)
    }

    fn data_type(&self, column: usize) -> DataType {
        self.kinds[column].data_type(self.seen[column])
    }
}

/// Names for columns: those of the header, made unique, and `column_1` … where there is none.
pub fn column_names(header: Option<Vec<String>>, columns: usize) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(columns);
    let header = header.unwrap_or_default();
    for i in 0..columns {
        let name = header.get(i).filter(|n| !n.is_empty());
        let base = name.cloned().unwrap_or_else(|| format!("column_{}", i + 1));
        let mut unique = base.clone();
        let mut n = 1;
        while names.contains(&unique) {
            unique = format!("{base}_{n}");
            n += 1;
        }
        names.push(unique);
    }
    names
}
