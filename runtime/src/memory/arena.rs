//! The pool that cuts blocks out of mapped arenas.
//!
//! An arena is an anonymous mapping of 16 MiB, cut into chunks of 1 MiB; a chunk serves blocks of one size class.
//! There are four classes a doubling, from 4 KiB to 1 MiB; a larger block is a mapping of its own. Invariant: a
//! block is handed out to at most one owner, and an arena is unmapped only when none of its blocks is out. An empty
//! arena beyond one spare is unmapped, and the memory of free chunks beyond a few is given back to the system, so
//! that the resident set follows what is in use. The pool knows no budget.

use memmap2::{MmapMut, MmapRaw, UncheckedAdvice};

/// Bytes of one arena.
pub(super) const ARENA_BYTES: usize = 16 << 20;
/// Bytes of one chunk; also the largest block that is cut from an arena.
pub(super) const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of the smallest block, and the unit that larger sizes are rounded up to.
pub(super) const MIN_BLOCK_BYTES: usize = 4 << 10;
const CHUNKS_PER_ARENA: usize = ARENA_BYTES / CHUNK_BYTES;
/// Free chunks that keep their memory for the next taker.
const MAX_WARM_CHUNKS: usize = 32;
/// Doublings from the smallest to the largest block, four classes each, and the last one.
const CLASSES: usize = 8 * 4 + 1;

/// Where a block came from.
#[derive(Debug)]
pub(super) enum Origin {
    /// Cut from a chunk of an arena.
    Chunk { arena: u32, chunk: u8 },
    /// A mapping of its own, unmapped when this is dropped.
    Mapping(#[expect(dead_code, reason = "kept for its drop")] Box<MmapRaw>),
}

/// A block handed out by the pool: the owner has sole access to `bytes` bytes at `pointer`.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) pointer: *mut u8,
    pub(super) bytes: usize,
    pub(super) origin: Origin,
}

#[derive(Debug, Default)]
struct Chunk {
    class: usize,
    live: u16,
    free: Vec<u16>,
    in_use: bool,
    warm: bool,
}

#[derive(Debug)]
struct Arena {
    map: MmapRaw,
    chunks: Vec<Chunk>,
    used_chunks: usize,
}

/// The arenas, and the chunks with room by class.
#[derive(Debug, Default)]
pub(super) struct Pool {
    arenas: Vec<Option<Arena>>,
    /// Chunks of each class with at least one free block.
    open: Vec<Vec<(u32, u8)>>,
    free_chunks: Vec<(u32, u8)>,
    warm_chunks: usize,
}

/// The bytes of the block that serves a request of `bytes`.
pub(super) fn block_bytes(bytes: usize) -> usize {
    if bytes > CHUNK_BYTES {
        bytes.div_ceil(MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES
    } else {
        class_bytes(class_of(bytes))
    }
}

fn class_of(bytes: usize) -> usize {
    let bytes = bytes.max(MIN_BLOCK_BYTES);
    let doubling = (bytes / MIN_BLOCK_BYTES).ilog2() as usize;
    let base = MIN_BLOCK_BYTES << doubling;
    // Quarters of less than a block do not exist in the first doublings: the rounding below skips them.
    let quarters = (bytes - base).div_ceil(base / 4);
    let mut class = doubling * 4 + quarters;
    while class_bytes(class) % MIN_BLOCK_BYTES != 0 {
        class += 1;
    }
    class
}

fn class_bytes(class: usize) -> usize {
    let base = MIN_BLOCK_BYTES << (class / 4);
    base + base / 4 * (class % 4)
}

impl Pool {
    /// Hands out a block of at least `bytes`; its content is unspecified (but initialised).
    pub(super) fn allocate(&mut self, bytes: usize) -> std::io::Result<Block> {
        if bytes > CHUNK_BYTES {
            return map_block(block_bytes(bytes));
        }
        let class = class_of(bytes);
        if self.open.is_empty() {
            self.open.resize_with(CLASSES, Vec::new);
        }
        if self.open[class].is_empty() {
            self.open_chunk(class)?;
        }
        let (arena_index, chunk_index) = *self.open[class]
            .last()
            .expect("open_chunk has just opened one");
        let arena = self.arenas[arena_index as usize]
            .as_mut()
            .expect("open chunks are in live arenas");
        let chunk = &mut arena.chunks[chunk_index as usize];
        let index = chunk.free.pop().expect("open chunks have free blocks") as usize;
        chunk.live += 1;
        if chunk.free.is_empty() {
            self.open[class].pop();
        }
        let bytes = class_bytes(class);
        let offset = chunk_index as usize * CHUNK_BYTES + index * bytes;
        let pointer = arena.map.as_mut_ptr().wrapping_add(offset);
        Ok(Block {
            pointer,
            bytes,
            origin: Origin::Chunk {
                arena: arena_index,
                chunk: chunk_index,
            },
        })
    }

    fn open_chunk(&mut self, class: usize) -> std::io::Result<()> {
        if self.free_chunks.is_empty() {
            self.map_arena()?;
        }
        let (arena_index, chunk_index) = self
            .free_chunks
            .pop()
            .expect("map_arena has just added some");
        let arena = self.arenas[arena_index as usize]
            .as_mut()
            .expect("free chunks are in live arenas");
        arena.used_chunks += 1;
        let chunk = &mut arena.chunks[chunk_index as usize];
        if chunk.warm {
            self.warm_chunks -= 1;
        }
        let blocks = CHUNK_BYTES / class_bytes(class);
        chunk.class = class;
        chunk.in_use = true;
        chunk.live = 0;
        chunk.free.clear();
        chunk.free.extend((0..blocks as u16).rev());
        self.open[class].push((arena_index, chunk_index));
        Ok(())
    }

    fn map_arena(&mut self) -> std::io::Result<()> {
        let mut chunks = Vec::new();
        chunks.resize_with(CHUNKS_PER_ARENA, Chunk::default);
        let map = MmapRaw::from(MmapMut::map_anon(ARENA_BYTES)?);
        let arena = Arena {
            map,
            chunks,
            used_chunks: 0,
        };
        let index = match self.arenas.iter().position(Option::is_none) {
            Some(index) => {
                self.arenas[index] = Some(arena);
                index
            }
            None => {
                self.arenas.push(Some(arena));
                self.arenas.len() - 1
            }
        };
        self.free_chunks.extend(
            (0..CHUNKS_PER_ARENA as u8)
                .rev()
                .map(|chunk| (index as u32, chunk)),
        );
        Ok(())
    }

    /// Takes back a block cut from a chunk.
    pub(super) fn release(&mut self, pointer: *mut u8, arena_index: u32, chunk_index: u8) {
        let arena = self.arenas[arena_index as usize]
            .as_mut()
            .expect("an arena outlives the blocks cut from it");
        let offset =
            pointer as usize - arena.map.as_ptr() as usize - chunk_index as usize * CHUNK_BYTES;
        let chunk = &mut arena.chunks[chunk_index as usize];
        let class = chunk.class;
        chunk.free.push((offset / class_bytes(class)) as u16);
        chunk.live -= 1;
        if chunk.live == 0 {
            self.open[class].retain(|&open| open != (arena_index, chunk_index));
            self.close_chunk(arena_index, chunk_index);
        } else if chunk.free.len() == 1 {
            self.open[class].push((arena_index, chunk_index));
        }
    }

    fn close_chunk(&mut self, arena_index: u32, chunk_index: u8) {
        let arena = self.arenas[arena_index as usize]
            .as_mut()
            .expect("the chunk's arena is mapped");
        let chunk = &mut arena.chunks[chunk_index as usize];
        chunk.in_use = false;
        chunk.warm = self.warm_chunks < MAX_WARM_CHUNKS;
        if chunk.warm {
            self.warm_chunks += 1;
        } else {
            forget_content(&arena.map, chunk_index as usize * CHUNK_BYTES, CHUNK_BYTES);
        }
        arena.used_chunks -= 1;
        self.free_chunks.push((arena_index, chunk_index));
        let empty = |arena: &&Option<Arena>| arena.as_ref().is_some_and(|a| a.used_chunks == 0);
        if self.arenas.iter().filter(empty).count() > 1 {
            self.unmap_arena_if_empty(arena_index);
        }
    }

    fn unmap_arena_if_empty(&mut self, arena_index: u32) {
        let slot = &mut self.arenas[arena_index as usize];
        if let Some(arena) = slot.take_if(|arena| arena.used_chunks == 0) {
            self.warm_chunks -= arena.chunks.iter().filter(|chunk| chunk.warm).count();
            self.free_chunks.retain(|&(arena, _)| arena != arena_index);
        }
    }

    /// Bytes of address space that arenas take.
    pub(super) fn arena_bytes(&self) -> usize {
        self.arenas.iter().flatten().count() * ARENA_BYTES
    }
}

/// Gives the physical memory of a free range back to the system; it reads as zeros afterwards.
#[expect(unsafe_code, reason = "advice that drops content is unsafe in memmap2")]
fn forget_content(map: &MmapRaw, offset: usize, bytes: usize) {
    // SAFETY: no block of the range is out, so that nobody observes the content change; the mapping is private and
    // anonymous, so that the range stays mapped and reads as zeros.
    let advised = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, offset, bytes) };
    // Advice that the system does not take costs memory, never correctness.
    drop(advised);
}

/// Maps a block of its own; its content is zeros.
fn map_block(bytes: usize) -> std::io::Result<Block> {
    let map = MmapRaw::from(MmapMut::map_anon(bytes)?);
    Ok(Block {
        pointer: map.as_mut_ptr(),
        bytes,
        origin: Origin::Mapping(Box::new(map)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_every_size_with_at_most_a_quarter_of_waste() {
        for bytes in (1..=CHUNK_BYTES).step_by(777) {
            let block = block_bytes(bytes);
            assert!(block >= bytes && block % MIN_BLOCK_BYTES == 0);
            assert!(block <= MIN_BLOCK_BYTES * 2 || block - bytes <= block / 4 + MIN_BLOCK_BYTES);
        }
        assert_eq!(block_bytes(CHUNK_BYTES), CHUNK_BYTES);
        assert_eq!(block_bytes(CHUNK_BYTES + 1), CHUNK_BYTES + MIN_BLOCK_BYTES);
    }

    #[test]
    fn blocks_do_not_overlap_and_arenas_go_back() {
        let mut pool = Pool::default();
        let mut blocks = Vec::new();
        for i in 0..3000_usize {
            blocks.push(pool.allocate(1 + i * 37 % 60_000).unwrap());
        }
        let mut ranges: Vec<_> = blocks
            .iter()
            .map(|b| (b.pointer as usize, b.bytes))
            .collect();
        ranges.sort_unstable();
        assert!(
            ranges
                .windows(2)
                .all(|pair| pair[0].0 + pair[0].1 <= pair[1].0)
        );
        assert!(pool.arena_bytes() > ARENA_BYTES);
        for block in blocks {
            let Origin::Chunk { arena, chunk } = block.origin else {
                panic!("small blocks are cut")
            };
            pool.release(block.pointer, arena, chunk);
        }
        assert_eq!(pool.arena_bytes(), ARENA_BYTES, "one spare arena stays");
    }
}
