//! Where the fields of many records are.
//!
//! Records whose quotes are where they should be, whose lines end in LF or CRLF and that have as many fields as they should
//! are found 64 bytes at a time ([`RecordIndex::scan`]); it stops before any other record, and whoever scans reads that one
//! byte by byte ([`Structure::record`]) and goes on behind it. Invariant: an index holds whole records of `width` fields
//! each, and what the fast way finds is what the slow one would find. Positions are 32 bits wide: a block is shorter than
//! 4 GB, as a record has at most 512 MB.

use thalweg_runtime::memory::{LANES, bit_places, byte_places};

use super::record::{Field, Structure};

/// Numbers of [`LANES`] bytes that are looked through at once: at first, and once all of them were regular.
const AT_ONCE_MIN: usize = 8;
const AT_ONCE_MAX: usize = 64;

/// The fields of the records of a block, in order.
#[derive(Debug, Default)]
pub struct RecordIndex {
    width: usize,
    /// Where each record begins.
    starts: Vec<u32>,
    /// Behind the last byte of each field; longer than what is in use.
    ends: Vec<u32>,
    /// Where delimiters, line feeds, carriage returns and quotes are in what is being looked through.
    places: Vec<[u64; 4]>,
}

/// What a scan goes through.
#[derive(Debug, Clone, Copy)]
pub struct Stretch<'a> {
    /// The block.
    pub bytes: &'a [u8],
    /// A record begins here.
    pub from: usize,
    /// Records that begin here or later are not wanted.
    pub until: usize,
    /// Records of the index at most.
    pub records_max: usize,
}

impl RecordIndex {
    /// An index of records of so many fields.
    pub fn new(width: usize) -> Self {
        RecordIndex { width, ..RecordIndex::default() }
    }

    /// Lets go of all records.
    pub fn clear(&mut self) {
        self.starts.clear();
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Where a field begins and ends, its quotes included.
    #[inline(always)]
    pub fn field(&self, record: usize, column: usize) -> (usize, usize) {
        let at = record * self.width + column;
        let start = if column == 0 { self.starts[record] } else { self.ends[at - 1] + 1 };
        (start as usize, self.ends[at] as usize)
    }

    /// Where a record begins and ends, its line end left out.
    pub fn place(&self, record: usize) -> (usize, usize) {
        let end = match self.width {
            0 => self.starts[record],
            width => self.ends[record * width + width - 1],
        };
        (self.starts[record] as usize, end as usize)
    }

    /// Adds a record that was read byte by byte; it must have as many fields as all.
    pub fn push(&mut self, fields: &[Field]) {
        debug_assert_eq!(fields.len(), self.width);
        let filled = self.starts.len() * self.width;
        self.make_room(filled, 0);
        self.starts.push(fields.first().map_or(0, |field| field.raw().start as u32));
        for (end, field) in self.ends[filled..].iter_mut().zip(fields) {
            *end = field.raw().end as u32;
        }
    }

    /// Adds records as long as they are regular; the answer is where the next one begins.
    pub fn scan(&mut self, structure: &Structure, stretch: Stretch<'_>) -> usize {
        let Some(wanted) = wanted(structure).filter(|_| self.width > 0) else {
            return stretch.from;
        };
        let mut scan = Scan {
            is_quoting: structure.quote.is_some(),
            empty_lines: structure.empty_lines,
            until: stretch.until,
            records_max: stretch.records_max,
            next: stretch.from,
            fields: self.starts.len() * self.width,
            carry: Carry::at_record(),
        };
        let mut places = std::mem::take(&mut self.places);
        places.resize(AT_ONCE_MAX, [0; 4]);
        let (mut at, mut at_once) = (stretch.from.min(stretch.bytes.len()), AT_ONCE_MIN);
        loop {
            let found = byte_places(&stretch.bytes[at..], &wanted, &mut places[..at_once]);
            if !self.take(&mut scan, &places[..found], at, stretch.bytes) || found < at_once {
                break;
            }
            at += found * LANES;
            at_once = (at_once * 2).min(AT_ONCE_MAX);
        }
        self.places = places;
        scan.next
    }

    /// Takes what ends in the bytes at `at`; whether the scan goes on.
    fn take(&mut self, scan: &mut Scan, places: &[[u64; 4]], at: usize, bytes: &[u8]) -> bool {
        let (mut separators, mut line_ends) = ([0; AT_ONCE_MAX], [0; AT_ONCE_MAX]);
        let (mut taken, mut all_regular) = (0, true);
        for &[delimiters, feeds, returns, quotes] in places {
            let quotes = if scan.is_quoting { quotes } else { 0 };
            let found = Structural { delimiters, feeds, returns, quotes };
            let (separating, feeds, regular) = scan.carry.resolve(found);
            (separators[taken], line_ends[taken]) = (separating, feeds & regular);
            taken += 1;
            if regular != u64::MAX {
                all_regular = false;
                break;
            }
        }
        self.make_room(scan.fields, taken);
        scan.fields += bit_places(&separators[..taken], at as u32, &mut self.ends[scan.fields..]);
        for (i, &feeds) in line_ends[..taken].iter().enumerate() {
            let mut feeds = feeds;
            while feeds != 0 {
                let feed = at + i * LANES + feeds.trailing_zeros() as usize;
                if !self.end_record(scan, feed, bytes) {
                    return false;
                }
                feeds &= feeds - 1;
            }
        }
        all_regular
    }

    /// Adds the record that ends at a line feed, if it is regular; whether the scan goes on.
    #[inline(always)]
    fn end_record(&mut self, scan: &mut Scan, feed: usize, bytes: &[u8]) -> bool {
        if scan.next >= scan.until || self.starts.len() >= scan.records_max {
            return false;
        }
        let filled = self.starts.len() * self.width;
        let is_returned = scan.carry.returns_seen && feed > scan.next && bytes[feed - 1] == b'\r';
        let end = feed - usize::from(is_returned);
        if end == scan.next && !scan.empty_lines {
            scan.next = feed + 1;
            return false;
        }
        // Places rise: the last field of a regular record ends at the line feed, and only there.
        let last = filled + self.width - 1;
        if last >= scan.fields || self.ends[last] as usize != feed {
            return false;
        }
        self.ends[last] = end as u32;
        self.starts.push(scan.next as u32);
        scan.next = feed + 1;
        true
    }

    /// Makes room for a record, and for all that can end in so many times [`LANES`] bytes.
    fn make_room(&mut self, filled: usize, lanes: usize) {
        let needed = filled + (lanes * LANES).max(self.width);
        if self.ends.len() < needed {
            self.ends.resize(needed * 2, 0);
        }
    }
}

/// Delimiter, line feed, carriage return and quote; none where one byte has two meanings.
fn wanted(structure: &Structure) -> Option<[u8; 4]> {
    let Structure { delimiter, quote, .. } = *structure;
    let is_line_end = |byte: u8| byte == b'\n' || byte == b'\r';
    let ambiguous =
        is_line_end(delimiter) || quote.is_some_and(|q| is_line_end(q) || q == delimiter);
    (!ambiguous).then_some([delimiter, b'\n', b'\r', quote.unwrap_or(delimiter)])
}

/// Where the bytes that structure text are in 64 bytes, one bit each.
#[derive(Debug, Clone, Copy)]
struct Structural {
    delimiters: u64,
    feeds: u64,
    returns: u64,
    quotes: u64,
}

/// How far a scan is.
struct Scan {
    /// Whether quotes have a meaning.
    is_quoting: bool,
    empty_lines: bool,
    until: usize,
    records_max: usize,
    /// The record that is not whole yet begins here.
    next: usize,
    /// Fields of whole records, and those that have ended of the one that is not.
    fields: usize,
    carry: Carry,
}

/// What 64 bytes leave to the next.
struct Carry {
    /// All ones inside quotes.
    quoted: u64,
    /// 1 if a quote may come now.
    may_open: u64,
    /// 1 if the last byte was a quote that closes, or is the first of two.
    closed: u64,
    /// 1 if the last byte was a carriage return outside of quotes.
    returned: u64,
    returns_seen: bool,
}

impl Carry {
    fn at_record() -> Self {
        Carry { quoted: 0, may_open: 1, closed: 0, returned: 0, returns_seen: false }
    }

    /// What separates fields, what ends records, and the bytes before the first one out of place.
    ///
    /// Two quotes that stand for one close and open again, which changes nothing for what is around them. So a byte is
    /// quoted behind an odd number of quotes, as long as each quote that opens stands behind a separator or a closing
    /// one, and each that closes before a separator, a line end or an opening one.
    #[inline(always)]
    fn resolve(&mut self, found: Structural) -> (u64, u64, u64) {
        let Structural { delimiters, feeds, returns, quotes } = found;
        if (quotes | returns | self.quoted | self.closed | self.returned) == 0 {
            let separators = delimiters | feeds;
            self.may_open = separators >> 63;
            return (separators, feeds, u64::MAX);
        }
        let quoted = odd_before_and_at(quotes) ^ self.quoted;
        let (opening, closing) = (quotes & quoted, quotes & !quoted);
        let (feeds, returns) = (feeds & !quoted, returns & !quoted);
        let separators = (delimiters & !quoted) | feeds;
        let may_open = (separators | closing) << 1 | self.may_open;
        let after_closing = closing << 1 | self.closed;
        let after_return = returns << 1 | self.returned;
        let misplaced = (opening & !may_open)
            | (after_closing & !(separators | opening | returns))
            | (after_return & !feeds);
        self.quoted = ((quoted as i64) >> 63) as u64;
        self.may_open = (separators | closing) >> 63;
        self.closed = closing >> 63;
        self.returned = returns >> 63;
        self.returns_seen |= returns != 0;
        let regular = match misplaced {
            0 => u64::MAX,
            _ => (misplaced & misplaced.wrapping_neg()) - 1,
        };
        (separators, feeds, regular)
    }
}

/// The bits up to and including which an odd number of bits is set.
#[inline(always)]
fn odd_before_and_at(bits: u64) -> u64 {
    [1, 2, 4, 8, 16, 32].into_iter().fold(bits, |bits, by| bits ^ bits << by)
}
