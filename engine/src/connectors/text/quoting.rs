//! How quoting goes through a piece of text, for every way of coming into it.

use super::record::{Structure, is_line_end};

/// Bytes that are looked through at once.
const PART_BYTES: usize = 8 << 10;

/// Where a byte position stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quoting {
    /// At the first byte of a field.
    FieldStart,
    /// Inside a field that is not quoted.
    Unquoted,
    /// Inside quotes.
    Quoted,
    /// Behind a quote that closes, or is the first of two.
    QuoteInQuoted,
}

/// A piece's effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// The state behind the piece for each state before it, in the order of [`Quoting`].
    ends: [Quoting; 4],
    feeds: u64,
    /// Carriage returns, as long as there was no line feed.
    returns: u64,
}

impl Default for Summary {
    /// Of an empty piece.
    fn default() -> Self {
        use Quoting::*;
        let ends = [FieldStart, Unquoted, Quoted, QuoteInQuoted];
        Summary { ends, feeds: 0, returns: 0 }
    }
}

impl Summary {
    /// Looks through a piece.
    #[cfg(test)]
    pub fn of(structure: &Structure, bytes: &[u8]) -> Self {
        let mut summary = Summary::default();
        summary.extend(structure, bytes);
        summary
    }

    /// Looks through the bytes behind those before; whoever has just read them has them in a cache.
    pub fn extend(&mut self, structure: &Structure, bytes: &[u8]) {
        // Parts that stay in the processor's first cache are looked through several times. Soon only two states differ.
        for part in bytes.chunks(PART_BYTES) {
            self.feeds += memchr::memchr_iter(b'\n', part).count() as u64;
            if self.feeds == 0 {
                self.returns += memchr::memchr_iter(b'\r', part).count() as u64;
            }
            let before = self.ends;
            for i in 0..before.len() {
                self.ends[i] = match before[..i].iter().position(|state| *state == before[i]) {
                    Some(same) => self.ends[same],
                    None => end_state(structure, part, before[i]),
                };
            }
        }
    }

    /// Line ends in the piece.
    pub fn lines(&self) -> u64 {
        if self.feeds > 0 { self.feeds } else { self.returns }
    }

    /// The state behind the piece.
    pub fn after(&self, before: Quoting) -> Quoting {
        self.ends[before as usize]
    }
}

fn end_state(structure: &Structure, bytes: &[u8], start: Quoting) -> Quoting {
    let Some(quote) = structure.quote else { return Quoting::Unquoted };
    let (mut state, mut at) = (start, 0);
    while at < bytes.len() {
        let byte = bytes[at];
        match state {
            Quoting::QuoteInQuoted => {
                state = if byte == quote { Quoting::Quoted } else { plain_state(structure, byte) };
                at += 1;
            }
            Quoting::Quoted => match memchr::memchr(quote, &bytes[at..]) {
                None => return Quoting::Quoted,
                Some(n) => {
                    state = Quoting::QuoteInQuoted;
                    at += n + 1;
                }
            },
            Quoting::FieldStart if byte == quote => {
                state = Quoting::Quoted;
                at += 1;
            }
            Quoting::FieldStart | Quoting::Unquoted => match memchr::memchr(quote, &bytes[at..]) {
                None => return plain_state(structure, bytes[bytes.len() - 1]),
                // The quote opens a field only behind a delimiter or line end; else it is a character.
                Some(n) => {
                    let opens =
                        n > 0 && plain_state(structure, bytes[at + n - 1]) == Quoting::FieldStart;
                    state = if opens { Quoting::Quoted } else { Quoting::Unquoted };
                    at += n + 1;
                }
            },
        }
    }
    state
}

fn plain_state(structure: &Structure, byte: u8) -> Quoting {
    if byte == structure.delimiter || is_line_end(byte) {
        Quoting::FieldStart
    } else {
        Quoting::Unquoted
    }
}

/// Where the first record begins that does not begin before `bytes[1]`: `bytes[0]` is the last byte before the
/// piece, `state` the state behind it. `None` if no record begins in these bytes.
pub fn first_record(structure: &Structure, bytes: &[u8], state: Quoting) -> Option<usize> {
    let outside = matches!(state, Quoting::FieldStart | Quoting::Unquoted);
    let (mut state, mut at) = (state, if outside { 0 } else { 1 });
    while at < bytes.len() {
        let byte = bytes[at];
        let quote = structure.quote == Some(byte);
        match state {
            Quoting::Quoted if quote => state = Quoting::QuoteInQuoted,
            Quoting::Quoted => {}
            Quoting::QuoteInQuoted if quote => state = Quoting::Quoted,
            Quoting::FieldStart if quote && at > 0 => state = Quoting::Quoted,
            Quoting::FieldStart | Quoting::Unquoted | Quoting::QuoteInQuoted => {
                if byte == b'\n' {
                    return Some(at + 1);
                }
                if byte == b'\r' {
                    return Some(if bytes.get(at + 1) == Some(&b'\n') { at + 2 } else { at + 1 });
                }
                // The state behind bytes[0] is given.
                if at > 0 {
                    state = plain_state(structure, byte);
                }
            }
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_wherever_the_text_is_cut() {
        let structure = Structure { delimiter: b',', quote: Some(b'"'), empty_lines: false };
        let text = "a,\"b\n\"\"c\",d\"e\r\n\"x\ny\",\"\",z\n1,2,\"3\"\n";
        let bytes = text.as_bytes();
        let whole = Summary::of(&structure, bytes).after(Quoting::FieldStart);
        let mut starts = vec![0];
        let mut at = 0;
        while let super::super::record::RecordEnd::At(next) =
            structure.record(bytes, at, true, &mut Vec::new())
        {
            at = next;
            starts.push(at);
        }
        for cut in 1..bytes.len() {
            let before = Summary::of(&structure, &bytes[..cut]).after(Quoting::FieldStart);
            let after = Summary::of(&structure, &bytes[cut..]).after(before);
            assert_eq!(after, whole, "cut at {cut}");
            let found = first_record(&structure, &bytes[cut - 1..], before).map(|n| cut - 1 + n);
            let expected = starts.iter().copied().find(|&s| s >= cut);
            assert_eq!(found, expected, "cut at {cut}");
        }
    }
}
