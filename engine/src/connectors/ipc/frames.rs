//! The lengths that an IPC file states, checked against the file's own size before a decoder believes them.
//!
//! Invariant: behind this check no stated length asks for more memory than the file is long, or than its compressed
//! buffers may unpack to. Contents are not looked into.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use arrow::error::ArrowError;
use arrow::ipc::reader::read_footer_length;
use arrow::ipc::{Block, RecordBatch, root_as_footer, root_as_message};

/// What stands before a message since format version 5.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Bytes at a file's end: the footer's length and the magic number.
const TAIL_BYTES: u64 = 10;

/// Bytes before a compressed buffer that state its unpacked length; −1 stands for a buffer that is not compressed.
const LENGTH_BYTES: u64 = 8;

/// How much larger a buffer may become when it is unpacked: what Zstandard makes of a run of equal bytes.
const UNPACKED_RATIO_MAX: u64 = 1 << 16;

fn damaged(what: &str) -> ArrowError {
    ArrowError::IpcError(what.to_string())
}

/// A file being walked, and its size.
pub(super) struct Frames {
    file: BufReader<File>,
    size: u64,
}

impl Frames {
    /// A walk over an open file.
    pub(super) fn of(file: &File) -> Result<Self, ArrowError> {
        let file = file.try_clone()?;
        let size = file.metadata()?.len();
        Ok(Frames { file: BufReader::new(file), size })
    }

    /// Checks a stream: message upon message, up to the end.
    pub(super) fn check_stream(&mut self) -> Result<(), ArrowError> {
        let mut at = 0;
        while let Some(next) = self.check_message(at)? {
            at = next;
        }
        Ok(())
    }

    /// Checks a file: its footer and the messages that it names.
    pub(super) fn check_file(&mut self) -> Result<(), ArrowError> {
        let Some(tail_at) = self.size.checked_sub(TAIL_BYTES) else {
            return Err(damaged("the file is too short"));
        };
        let mut tail = [0; TAIL_BYTES as usize];
        self.read_at(tail_at, &mut tail)?;
        let length = read_footer_length(tail)? as u64;
        let Some(footer_at) = tail_at.checked_sub(length) else {
            return Err(damaged("the footer is longer than the file"));
        };
        let footer = self.bytes_at(footer_at, length)?;
        let footer = root_as_footer(&footer).map_err(|e| damaged(&format!("footer: {e}")))?;
        for blocks in [footer.dictionaries(), footer.recordBatches()].into_iter().flatten() {
            blocks.iter().try_for_each(|block| self.check_block(block))?;
        }
        Ok(())
    }

    fn check_block(&mut self, block: &Block) -> Result<(), ArrowError> {
        let part = |n: i64| u64::try_from(n).map_err(|_| damaged("a block has a negative length"));
        let (at, head) = (part(block.offset())?, part(i64::from(block.metaDataLength()))?);
        let body = part(block.bodyLength())?;
        if at.checked_add(head).and_then(|end| end.checked_add(body)).is_none_or(|e| e > self.size)
        {
            return Err(damaged("a block lies outside the file"));
        }
        self.check_message(at).map(|_| ())
    }

    /// Checks the message at a place and tells where the next begins; none at the end.
    fn check_message(&mut self, at: u64) -> Result<Option<u64>, ArrowError> {
        if self.size - at < 4 {
            return Ok(None);
        }
        let mut word = [0; 4];
        self.read_at(at, &mut word)?;
        let mut at = at + 4;
        if word == CONTINUATION {
            if self.size - at < 4 {
                return Err(damaged("a message is cut off"));
            }
            self.read_at(at, &mut word)?;
            at += 4;
        }
        let length = u64::try_from(i32::from_le_bytes(word))
            .map_err(|_| damaged("a message has a negative length"))?;
        if length == 0 {
            return Ok(None);
        }
        let head = self.bytes_at(at, length)?;
        let body_at = at + length;
        let message = root_as_message(&head).map_err(|e| damaged(&format!("message: {e}")))?;
        let body = u64::try_from(message.bodyLength()).unwrap_or(u64::MAX);
        if body > self.size - body_at {
            return Err(damaged("a message is longer than the file"));
        }
        let batch = message.header_as_record_batch();
        let batch = batch.or_else(|| message.header_as_dictionary_batch()?.data());
        if let Some(batch) = batch {
            self.check_buffers(&batch, body_at, body)?;
        }
        Ok(Some(body_at + body))
    }

    /// Checks what compressed buffers say they unpack to.
    fn check_buffers(
        &mut self,
        batch: &RecordBatch<'_>,
        body_at: u64,
        body: u64,
    ) -> Result<(), ArrowError> {
        let (Some(_), Some(buffers)) = (batch.compression(), batch.buffers()) else {
            return Ok(());
        };
        for buffer in buffers {
            let outside = || damaged("a buffer lies outside its message");
            let offset = u64::try_from(buffer.offset()).map_err(|_| outside())?;
            let length = u64::try_from(buffer.length()).map_err(|_| outside())?;
            if offset.checked_add(length).is_none_or(|end| end > body) {
                return Err(outside());
            }
            if length < LENGTH_BYTES {
                continue;
            }
            let mut stated = [0; LENGTH_BYTES as usize];
            self.read_at(body_at + offset, &mut stated)?;
            let unpacked = u64::try_from(i64::from_le_bytes(stated)).unwrap_or(0);
            if unpacked > (length - LENGTH_BYTES).saturating_mul(UNPACKED_RATIO_MAX) {
                return Err(damaged("a compressed buffer states an absurd length"));
            }
        }
        Ok(())
    }

    fn bytes_at(&mut self, at: u64, length: u64) -> Result<Vec<u8>, ArrowError> {
        if length > self.size.saturating_sub(at) {
            return Err(damaged("a message is longer than the file"));
        }
        let length = usize::try_from(length).map_err(|_| damaged("a message is too long"))?;
        let mut bytes = vec![0; length];
        self.read_at(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads on from the buffer when the place is near, as it is from message to message.
    fn read_at(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), ArrowError> {
        let here = self.file.stream_position()?;
        match i64::try_from(i128::from(at) - i128::from(here)) {
            Ok(distance) => self.file.seek_relative(distance)?,
            Err(_) => drop(self.file.seek(SeekFrom::Start(at))?),
        }
        self.file.read_exact(bytes)?;
        Ok(())
    }
}
