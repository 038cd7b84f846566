//! Bytes of text files on their way to a parser.
//!
//! A plain file is cut into pieces of [`PIECE_BYTES`]; a piece's block holds the records that begin in it, and is
//! lengthened when the last of them reaches beyond. A packed file is one piece whose block moves on through the
//! unpacked bytes; what the parser has not used is kept in front of what comes next.

use std::io::Read;
use std::sync::Arc;
use std::task::Waker;

use arrow::array::ArrayRef;
use bytes::Bytes;
use parking_lot::Mutex;
use thalweg_runtime::element::RowKind;
use thalweg_runtime::env::{Environment, IoTask, ReadFile};
use thalweg_runtime::{Error, Result};

use super::block_bytes::BlockBytes;
use super::quoting::{Quoting, Summary, first_record};
use super::record::Structure;
use crate::connectors::buffers::BufferPool;
use crate::connectors::files::{Compression, unpacking_reader};
use crate::connectors::metadata::RowOrigin;
use crate::connectors::scan::{ScanFile, SplitProgress};

/// Bytes of a piece.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes read at once: what has been read is looked through while a core's own cache has it.
const READ_BYTES: usize = 256 << 10;
/// Bytes read behind a piece at once, for its last record.
const TAIL_BYTES: u64 = 32 << 10;
/// Bytes by which a block grows when a record is still not whole, and of each step through a packed file.
const STEP_BYTES: usize = 1 << 20;
/// Bytes that a record may have.
const RECORD_BYTES_MAX: usize = 512 << 20;

/// What became of an attempt to take records from a block.
#[derive(Debug)]
pub enum Decoded {
    /// Columns and their length, which is 0 when records were left out.
    Rows(Vec<ArrayRef>, usize),
    /// Columns, and what becomes of each of their rows.
    Changes(Vec<ArrayRef>, Arc<[RowKind]>),
    /// The next record is not whole.
    NeedsMore,
    /// No further record belongs to the block.
    Finished,
}

/// Bytes and how far they are parsed.
#[derive(Debug, Default)]
pub struct Block {
    /// The bytes.
    pub bytes: BlockBytes,
    /// The next record begins here.
    pub at: usize,
    /// Records that begin here or later belong to another piece.
    pub end: usize,
    /// Whether the bytes end with the file.
    pub last: bool,
    /// Whether `at` is the beginning of the file.
    pub first: bool,
    lines_before: u64,
    counted_from: usize,
}

impl Block {
    /// The line of the file in which a byte lies, from 1.
    pub fn line_of(&self, position: usize) -> u64 {
        let from = self.counted_from.min(position);
        self.lines_before
            + memchr::memchr_iter(b'\n', &self.bytes[from..position]).count() as u64
            + 1
    }

    /// The lines of the file in which bytes lie, from 1; the positions ascend.
    pub fn lines_of(&self, positions: &[usize]) -> Vec<u64> {
        let (mut at, mut line) = (self.counted_from, self.lines_before + 1);
        let lines = positions.iter().map(|&position| {
            let position = position.max(at);
            line += memchr::memchr_iter(b'\n', &self.bytes[at..position]).count() as u64;
            at = position;
            line
        });
        lines.collect()
    }

    /// A block of which nothing has been read, of a text that is read from its beginning.
    pub fn unread() -> Self {
        Block { first: true, ..Block::default() }
    }

    /// A block of a text of which so many lines were read before.
    pub fn behind(lines: u64) -> Self {
        Block { lines_before: lines, ..Block::default() }
    }

    /// A block of all of a text, of which the records that begin from `at` up to `end` are wanted.
    #[cfg(test)]
    pub fn of_piece(text: &[u8], at: usize, end: usize) -> Self {
        let bytes = BlockBytes::Own(text.to_vec());
        Block { bytes, at, end, last: true, ..Block::default() }
    }

    /// Lets go of what was parsed and appends what comes next in a text called `name`; nothing is its end.
    pub fn move_on(&mut self, bytes: &[u8], name: &str) -> Result<()> {
        let before = self.bytes.is_empty() && self.first;
        let used = self.at;
        self.lines_before = self.line_of(used) - 1;
        self.bytes.to_mut().drain(..used);
        (self.at, self.counted_from) = (0, 0);
        self.last = bytes.is_empty();
        self.bytes.to_mut().extend_from_slice(bytes);
        self.end = if self.last && self.bytes.is_empty() { 0 } else { usize::MAX };
        if before {
            check_encoding(&self.bytes, true, name)?;
            self.at = bom_length(&self.bytes);
        }
        Ok(())
    }

    /// Fails when the record that begins at `at` is longer than any can be.
    pub fn check_record(&self, name: &str) -> Result<()> {
        if self.bytes.len() - self.at.min(self.bytes.len()) <= RECORD_BYTES_MAX {
            return Ok(());
        }
        Err(Error::User {
            message: format!("a record of \"{name}\" has more than {} MB", RECORD_BYTES_MAX >> 20),
            detail: Some(format!("it begins in line {}", self.line_of(self.at))),
            hint: Some("a quote may not have been closed".into()),
        })
    }

    /// Whether all records that belong to the block were taken.
    pub fn is_used_up(&self) -> bool {
        self.at >= self.end
    }
}

impl PiecesState {
    /// Quoting and lines before a piece, if all pieces before it are summarised.
    fn before(&mut self, piece: usize) -> Option<(Quoting, u64)> {
        while self.before.len() <= piece {
            let &(quoting, lines) = self.before.last()?;
            let summary = self.summaries[self.before.len() - 1].as_ref()?;
            self.before.push((summary.after(quoting), lines + summary.lines()));
        }
        self.before.get(piece).copied()
    }
}

/// Where places begin.
pub fn starts(places: &[(usize, usize)]) -> Vec<usize> {
    places.iter().map(|place| place.0).collect()
}

/// The pieces of one file, shared by all who read them.
#[derive(Debug)]
pub struct Pieces {
    file: ScanFile,
    compression: Compression,
    /// Whether the file is read from its beginning, as one piece.
    in_sequence: bool,
    structure: Structure,
    state: Mutex<PiecesState>,
}

#[derive(Debug, Default)]
struct PiecesState {
    summaries: Vec<Option<Summary>>,
    /// Quoting and lines before each of the first pieces, as far as they are known.
    before: Vec<(Quoting, u64)>,
    started: Vec<bool>,
    waiters: Vec<Waker>,
}

impl Pieces {
    /// The pieces of a file; nothing is read yet.
    pub fn new(file: ScanFile, compression: Compression, structure: Structure) -> Arc<Self> {
        let in_sequence = match compression {
            Compression::None => false,
            Compression::Gzip | Compression::Zstd => true,
        };
        Pieces::build(file, compression, structure, in_sequence)
    }

    /// The file as one piece.
    pub fn in_sequence(
        file: ScanFile,
        compression: Compression,
        structure: Structure,
    ) -> Arc<Self> {
        Pieces::build(file, compression, structure, true)
    }

    fn build(
        file: ScanFile,
        compression: Compression,
        structure: Structure,
        in_sequence: bool,
    ) -> Arc<Self> {
        let pieces = if in_sequence { file.size.min(1) } else { file.size.div_ceil(PIECE_BYTES) };
        let count = usize::try_from(pieces).unwrap_or(usize::MAX);
        let state = PiecesState {
            summaries: vec![None; count],
            before: vec![(Quoting::FieldStart, 0)],
            started: vec![false; count],
            waiters: Vec::new(),
        };
        Arc::new(Pieces { file, compression, in_sequence, structure, state: Mutex::new(state) })
    }

    /// The file.
    pub fn file(&self) -> &ScanFile {
        &self.file
    }

    /// What users know a piece by.
    pub fn name_of(&self, piece: usize) -> String {
        let name = self.file.name.as_str();
        match self.count() {
            0 | 1 => name.to_string(),
            all => format!("{name} (piece {} of {all})", piece + 1),
        }
    }

    /// How many pieces there are; none if the file is empty.
    pub fn count(&self) -> usize {
        self.state.lock().summaries.len()
    }

    /// Bytes of a piece in the file.
    pub fn bytes(&self, piece: usize) -> u64 {
        if self.in_sequence {
            return self.file.size;
        }
        PIECE_BYTES.min(self.file.size.saturating_sub(piece as u64 * PIECE_BYTES))
    }

    /// Quoting and lines before a piece, once all pieces before it are summarised; otherwise the waker is registered,
    /// and pieces that nobody reads are looked through.
    fn before(
        self: &Arc<Self>,
        piece: usize,
        env: &Arc<dyn Environment>,
        waker: &Waker,
    ) -> Option<(Quoting, u64)> {
        let mut missing = Vec::new();
        {
            let mut state = self.state.lock();
            if let Some(before) = state.before(piece) {
                return Some(before);
            }
            state.waiters.push(waker.clone());
            for i in 0..piece {
                if !state.started[i] {
                    state.started[i] = true;
                    missing.push(i);
                }
            }
        }
        for i in missing {
            let (pieces, env_there) = (self.clone(), env.clone());
            // A failure is reported by whoever reads the piece; the waiting reader sees a summary in any case.
            env.spawn_io(Box::new(move || drop(pieces.read(&env_there, i))));
        }
        None
    }

    /// Reads a piece and publishes its summary. Blocks.
    fn read(&self, env: &Arc<dyn Environment>, piece: usize) -> Result<Piece> {
        let start = piece as u64 * PIECE_BYTES;
        let lead = u64::from(start > 0);
        let end = (start + PIECE_BYTES).min(self.file.size);
        let to = (end + TAIL_BYTES).min(self.file.size);
        let whole = lead as usize..(lead + end - start) as usize;
        let mut summary = Summary::default();
        let result = self.read_range(env, start - lead, to, |from, bytes| {
            let within = |at: usize| at.clamp(from, from + bytes.len()) - from;
            summary.extend(&self.structure, &bytes[within(whole.start)..within(whole.end)]);
        });
        let summary = result.as_ref().map_or(Summary::default(), |_| summary);
        let mut state = self.state.lock();
        state.summaries[piece] = Some(summary);
        state.waiters.drain(..).for_each(Waker::wake);
        drop(state);
        let (file, bytes) = result?;
        Ok(Piece {
            last: to == self.file.size,
            end: whole.end.min(bytes.len()),
            lead: lead as usize,
            bytes,
            file,
        })
    }

    /// Reads bytes of the file, and shows them a little at a time, each with its place among them.
    fn read_range(
        &self,
        env: &Arc<dyn Environment>,
        from: u64,
        to: u64,
        mut look: impl FnMut(usize, &[u8]),
    ) -> Result<(Arc<dyn ReadFile>, Bytes)> {
        let context =
            |e: &std::io::Error| Error::io(format!("cannot read \"{}\"", self.file.name), e);
        let file = env.open_file(&self.file.path).map_err(|e| context(&e))?;
        let length = usize::try_from(to - from).unwrap_or(usize::MAX);
        let mut buffer = BufferPool::process().take(length);
        let mut filled = 0;
        for part in buffer.bytes_mut().chunks_mut(READ_BYTES) {
            let read = file.read_at(part, from + filled as u64).map_err(|e| context(&e))?;
            look(filled, &part[..read]);
            filled += read;
            if read < part.len() {
                break;
            }
        }
        Ok((file, buffer.freeze().slice(..filled)))
    }
}

fn read_at(file: &dyn ReadFile, from: u64, length: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    let read = file.read_at(&mut bytes, from)?;
    bytes.truncate(read);
    Ok(bytes)
}

struct Piece {
    file: Arc<dyn ReadFile>,
    bytes: Bytes,
    lead: usize,
    end: usize,
    last: bool,
}

/// A reader that is passed back and forth between the parser and the I/O threads.
type Unpacking = Box<dyn Read + Send>;

/// One piece on its way to a parser.
pub struct TextBlocks {
    pieces: Arc<Pieces>,
    piece: usize,
    env: Arc<dyn Environment>,

    block: Block,
    state: State,
}

enum State {
    Reading(IoTask<Piece>),
    /// Read, but it is not known how quoting comes into it.
    Unplaced(Piece),
    Ready(Rest),
    Lengthening(IoTask<(Arc<dyn ReadFile>, Vec<u8>)>),
    Unpacking(IoTask<(Unpacking, Vec<u8>)>),
}

/// Where more bytes come from.
enum Rest {
    File(Arc<dyn ReadFile>),
    Packed(Unpacking),
    Nothing,
}

impl TextBlocks {
    /// Starts reading a piece.
    pub fn new(pieces: &Arc<Pieces>, piece: usize, env: &Arc<dyn Environment>) -> Self {
        pieces.state.lock().started[piece] = true;
        let state = match pieces.in_sequence {
            false => {
                let (pieces, env_there) = (pieces.clone(), env.clone());
                State::Reading(IoTask::spawn(env, move || pieces.read(&env_there, piece)))
            }
            true => {
                let (file, env_there) = (pieces.file.clone(), env.clone());
                let packed = pieces.compression;
                State::Unpacking(IoTask::spawn(env, move || {
                    let context = || format!("cannot read \"{}\"", file.name);
                    let opened =
                        env_there.open_file(&file.path).map_err(|e| Error::io(context(), &e))?;
                    let sequential = Sequential { file: opened, at: 0 };
                    let reader = unpacking_reader(sequential, packed)
                        .map_err(|e| Error::io(context(), &e))?;
                    unpack(reader, &file.name)
                }))
            }
        };
        let block = Block { first: piece == 0, ..Block::default() };
        TextBlocks { pieces: pieces.clone(), piece, env: env.clone(), block, state }
    }

    /// Where the rows lie that begin at these places of the block.
    pub fn origin(&self, places: &[(usize, usize)]) -> RowOrigin {
        let lines = self.block.lines_of(&starts(places));
        RowOrigin { file: Some(self.pieces.file.clone()), lines: Some(lines) }
    }

    /// The block, once [`TextBlocks::ready`] has said so, and the file's name in messages.
    pub fn block_and_name(&mut self) -> (&mut Block, &str) {
        (&mut self.block, &self.pieces.file.name)
    }

    /// What a scan of the piece does when this became of the block.
    pub fn go_on(&mut self, decoded: Decoded) -> Result<SplitProgress> {
        Ok(match decoded {
            Decoded::Rows(_, 0) => SplitProgress::Working,
            Decoded::Rows(columns, rows) => SplitProgress::Rows(columns, rows),
            Decoded::Changes(columns, kinds) => SplitProgress::Changes(columns, kinds),
            Decoded::Finished => SplitProgress::Finished,
            Decoded::NeedsMore => {
                self.lengthen()?;
                SplitProgress::Working
            }
        })
    }

    /// Whether the block can be parsed; otherwise the waker is registered.
    pub fn ready(&mut self, waker: &Waker) -> Result<bool> {
        loop {
            match std::mem::replace(&mut self.state, State::Ready(Rest::Nothing)) {
                State::Ready(rest) => {
                    self.state = State::Ready(rest);
                    return Ok(true);
                }
                State::Reading(mut task) => match task.poll(waker) {
                    None => {
                        self.state = State::Reading(task);
                        return Ok(false);
                    }
                    Some(piece) => self.state = State::Unplaced(piece?),
                },
                State::Unplaced(piece) => match self.pieces.before(self.piece, &self.env, waker) {
                    None => {
                        self.state = State::Unplaced(piece);
                        return Ok(false);
                    }
                    Some((quoting, lines)) => self.place(piece, quoting, lines)?,
                },
                State::Lengthening(mut task) => match task.poll(waker) {
                    None => {
                        self.state = State::Lengthening(task);
                        return Ok(false);
                    }
                    Some(more) => {
                        let (file, bytes) = more?;
                        self.block.last = bytes.len() < STEP_BYTES;
                        self.block.bytes.to_mut().extend_from_slice(&bytes);
                        self.state = State::Ready(Rest::File(file));
                    }
                },
                State::Unpacking(mut task) => match task.poll(waker) {
                    None => {
                        self.state = State::Unpacking(task);
                        return Ok(false);
                    }
                    Some(more) => {
                        let (reader, bytes) = more?;
                        self.block.move_on(&bytes, &self.pieces.file.name)?;
                        self.state = State::Ready(Rest::Packed(reader));
                    }
                },
            }
        }
    }

    fn place(&mut self, piece: Piece, quoting: Quoting, lines: u64) -> Result<()> {
        check_encoding(&piece.bytes, self.piece == 0, &self.pieces.file.name)?;
        let at = match self.piece {
            0 => bom_length(&piece.bytes),
            _ => first_record(&self.pieces.structure, &piece.bytes, quoting)
                .unwrap_or(piece.bytes.len()),
        };
        self.block = Block {
            at,
            end: piece.end,
            last: piece.last,
            first: self.piece == 0,
            lines_before: lines,
            counted_from: piece.lead,
            bytes: BlockBytes::Shared(piece.bytes),
        };
        self.state = State::Ready(Rest::File(piece.file));
        Ok(())
    }

    /// Fetches more bytes behind those that are there: the record at `at` is not whole.
    fn lengthen(&mut self) -> Result<()> {
        let name = self.pieces.file.name.clone();
        self.block.check_record(&name)?;
        let rest = std::mem::replace(&mut self.state, State::Ready(Rest::Nothing));
        self.state = match rest {
            State::Ready(Rest::File(file)) => {
                let lead = u64::from(self.piece > 0);
                let from = self.piece as u64 * PIECE_BYTES - lead + self.block.bytes.len() as u64;
                State::Lengthening(IoTask::spawn(&self.env, move || {
                    let bytes = read_at(&*file, from, STEP_BYTES as u64)
                        .map_err(|e| Error::io(format!("cannot read \"{name}\""), &e))?;
                    Ok((file, bytes))
                }))
            }
            State::Ready(Rest::Packed(reader)) => {
                State::Unpacking(IoTask::spawn(&self.env, move || unpack(reader, &name)))
            }
            other => other,
        };
        Ok(())
    }
}

fn unpack(mut reader: Unpacking, name: &str) -> Result<(Unpacking, Vec<u8>)> {
    let mut bytes = Vec::with_capacity(STEP_BYTES);
    let read = reader.by_ref().take(STEP_BYTES as u64).read_to_end(&mut bytes);
    read.map_err(|e| Error::io(format!("cannot decompress \"{name}\""), &e))?;
    Ok((reader, bytes))
}

fn bom_length(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 }
}

fn check_encoding(bytes: &[u8], first: bool, name: &str) -> Result<()> {
    let utf16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
    if first && utf16 {
        return Err(Error::Unsupported(format!(
            "text in UTF-16 (\"{name}\"): convert it to UTF-8"
        )));
    }
    Ok(())
}

/// A file read from its beginning.
struct Sequential {
    file: Arc<dyn ReadFile>,
    at: u64,
}

impl Read for Sequential {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.file.read_at(out, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}
