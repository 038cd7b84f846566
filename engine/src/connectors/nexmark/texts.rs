//! Texts of events: views into text that is made once, and a column of such views.

use std::sync::{Arc, LazyLock};

use arrow::array::builder::make_view;
use arrow::array::{ArrayRef, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use thalweg_runtime::Result;

use crate::connectors::streaming::Stream;

/// Bytes of each text that views are cut from.
const POOL_BYTES: usize = 64 << 10;
/// Bytes that are cut from it at once, at most.
const CUT_BYTES_MAX: usize = 16 << 10;
/// Channels that are not popular.
pub const CHANNELS: usize = 10_000;
/// Popular channels.
const HOT_CHANNELS: [&str; 4] = ["Google", "Facebook", "Baidu", "Apple"];
/// The popular channels, which come first in the list of all.
pub const HOT: usize = HOT_CHANNELS.len();
/// Letters before one of which is a blank.
const BLANK_EVERY: u64 = 13;
/// The seed of the texts.
const SEED: u64 = 0x7465_7874;

/// Where a text lies.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    block: u32,
    from: usize,
    length: usize,
}

/// Texts that are the same in every table.
#[derive(Debug)]
pub struct Texts {
    blocks: [Buffer; 3],
    channels: Vec<(Cut, Cut)>,
}

/// The texts.
pub static TEXTS: LazyLock<Texts> = LazyLock::new(Texts::new);

/// The blocks: letters and blanks, letters alone, names and addresses of channels. A column's own block follows.
const WORDS: u32 = 0;
const LETTERS: u32 = 1;
const ADDRESSES: u32 = 2;
const OWN: u32 = 3;

impl Texts {
    fn new() -> Self {
        let words =
            (0..POOL_BYTES as u64).map(|i| match Stream::new(SEED, 0).below(i, BLANK_EVERY) {
                0 => b' ',
                _ => letter(Stream::new(SEED, 1), i),
            });
        let letters = (0..POOL_BYTES as u64).map(|i| letter(Stream::new(SEED, 2), i));
        let (channels, addresses) = channels();
        let blocks =
            [words.collect::<Vec<u8>>(), letters.collect(), addresses].map(Buffer::from_vec);
        Texts { blocks, channels }
    }

    /// Words of at most so many bytes, without blanks around them.
    pub fn words(&self, bits: u64, length: usize) -> Cut {
        let cut = self.cut(WORDS, bits, length);
        let text = &self.blocks[WORDS as usize][cut.from..cut.from + cut.length];
        let before = text.iter().take_while(|b| **b == b' ').count();
        let length = text.trim_ascii().len();
        Cut { from: cut.from + before, length, ..cut }
    }

    /// Letters of exactly this length, up to a limit that no event of a sensible size comes to.
    pub fn letters(&self, bits: u64, length: usize) -> Cut {
        self.cut(LETTERS, bits, length)
    }

    fn cut(&self, block: u32, bits: u64, length: usize) -> Cut {
        let from = bits as usize % (POOL_BYTES - CUT_BYTES_MAX);
        Cut { block, from, length: length.min(CUT_BYTES_MAX) }
    }

    /// Name and address of a channel: first the popular ones, then the others.
    pub fn channel(&self, number: usize) -> (Cut, Cut) {
        self.channels[number]
    }

    /// The bytes of a text.
    pub fn bytes(&self, cut: Cut) -> &[u8] {
        &self.blocks[cut.block as usize][cut.from..cut.from + cut.length]
    }
}

fn letter(stream: Stream, position: u64) -> u8 {
    b'a' + stream.below(position, 26) as u8
}

/// All channels, and the bytes of their names and addresses.
fn channels() -> (Vec<(Cut, Cut)>, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut put = |text: String| {
        let from = bytes.len();
        bytes.extend_from_slice(text.as_bytes());
        Cut { block: ADDRESSES, from, length: text.len() }
    };
    let mut channels = Vec::with_capacity(HOT + CHANNELS);
    for (i, name) in HOT_CHANNELS.iter().enumerate() {
        channels.push((put(name.to_string()), put(address(i as u64))));
    }
    let named = Stream::new(SEED, 3);
    for i in 0..CHANNELS {
        let mut url = address((HOT + i) as u64);
        if named.below(i as u64, 10) > 0 {
            let id = (i as u32).reverse_bits() as i32;
            url.push_str(&format!("&channel_id={}", id.unsigned_abs()));
        }
        channels.push((put(format!("channel-{i}")), put(url)));
    }
    (channels, bytes)
}

/// An address of three folders and a page.
fn address(channel: u64) -> String {
    let mut address = "https://www.nexmark.com/".to_string();
    for folder in 0..3 {
        let own = Stream::new(SEED, 4 + channel * 3 + folder);
        let length = 3 + own.below(0, 2);
        let sign = |i| match own.below(2 * i + 1, BLANK_EVERY) {
            0 => '_',
            _ => char::from(letter(own, 2 * i + 2)),
        };
        address.extend((0..length).map(sign));
        address.push('/');
    }
    address.push_str("item.htm?query=1");
    address
}

/// A column of texts. Rows without a text are NULL.
#[derive(Debug)]
pub struct TextColumn {
    views: Vec<u128>,
    own: Vec<u8>,
}

impl TextColumn {
    /// A column of so many rows.
    pub fn new(rows: usize) -> Self {
        TextColumn { views: vec![0; rows], own: Vec::new() }
    }

    /// Sets a row to a text that exists.
    pub fn set_cut(&mut self, row: usize, cut: Cut) {
        self.views[row] = make_view(TEXTS.bytes(cut), cut.block, cut.from as u32);
    }

    /// Sets a row to a text of its own.
    pub fn set(&mut self, row: usize, text: &[u8]) {
        self.views[row] = make_view(text, OWN, self.own.len() as u32);
        self.own.extend_from_slice(text);
    }

    /// The column.
    pub fn finish(self, valid: &NullBuffer) -> Result<ArrayRef> {
        let mut blocks = TEXTS.blocks.to_vec();
        blocks.push(Buffer::from_vec(self.own));
        let views = ScalarBuffer::from(self.views);
        Ok(Arc::new(StringViewArray::try_new(views, blocks, Some(valid.clone()))?))
    }
}
