//! The pool that cuts blocks out of mapped arenas.
//!
//! An arena is an anonymous mapping of 16 MiB, cut into chunks of 1 MiB; a chunk serves blocks of one size class.
//! There are four classes a doubling, from 4 KiB to 1 MiB; a larger block is a mapping of its own, of a size by the
//! same steps. Getting memory from the system costs more than filling it, hence free chunks and mappings stay warm, up
//! to a limit; beyond it, and in [`Pool::trim`], they go back. Invariant: a block is handed out to at most one owner,
//! and an arena is unmapped only when none of its blocks is out. The pool knows no budget.

use memmap2::{Advice, MmapMut, MmapRaw, UncheckedAdvice};

/// Bytes of one arena.
pub(super) const ARENA_BYTES: usize = 16 << 20;
/// Bytes of one chunk; also the largest block that is cut from an arena.
pub(super) const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of the smallest block; all sizes are multiples of it.
pub(super) const MIN_BLOCK_BYTES: usize = 4 << 10;
/// Chunks of blocks this large get their memory at once, since such blocks are mostly filled soon.
const POPULATE_BYTES: usize = 128 << 10;
const CHUNKS_PER_ARENA: usize = ARENA_BYTES / CHUNK_BYTES;
/// Doublings from the smallest to the largest block, four classes each, and the last one.
const CLASSES: usize = 8 * 4 + 1;

/// Where a block came from.
#[derive(Debug)]
pub(super) enum Origin {
    /// Cut from a chunk of an arena.
    Chunk { arena: u32, chunk: u8 },
    /// A mapping of its own, unmapped when this is dropped; `fresh` if nobody wrote to it before.
    Mapping { map: Box<MmapRaw>, fresh: bool },
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
}

#[derive(Debug)]
struct Arena {
    map: MmapRaw,
    chunks: Vec<Chunk>,
    used_chunks: usize,
}

/// The arenas, the chunks with room by class, and what is free.
#[derive(Debug)]
pub(super) struct Pool {
    arenas: Vec<Option<Arena>>,
    /// Chunks of each class with at least one free block.
    open: Vec<Vec<(u32, u8)>>,
    /// Free chunks that have their memory.
    warm_chunks: Vec<(u32, u8)>,
    /// Free chunks that do not.
    cold_chunks: Vec<(u32, u8)>,
    /// Free mappings of larger blocks.
    mappings: Vec<MmapRaw>,
    warm_bytes: usize,
    warm_limit: usize,
}

/// The bytes of the block that serves a request of `bytes`.
pub(super) fn block_bytes(bytes: usize) -> usize {
    class_bytes(class_of(bytes))
}

fn class_of(bytes: usize) -> usize {
    let bytes = bytes.max(MIN_BLOCK_BYTES);
    let doubling = (bytes / MIN_BLOCK_BYTES).ilog2() as usize;
    let base = MIN_BLOCK_BYTES << doubling;
    let quarters = (bytes - base).div_ceil(base / 4);
    let mut class = doubling * 4 + quarters;
    // Quarters of less than the smallest block do not exist in the first doublings.
    while !class_bytes(class).is_multiple_of(MIN_BLOCK_BYTES) {
        class += 1;
    }
    class
}

fn class_bytes(class: usize) -> usize {
    let base = MIN_BLOCK_BYTES << (class / 4);
    base + base / 4 * (class % 4)
}

impl Pool {
    /// A pool that keeps up to `warm_limit` bytes of free memory for the next taker.
    pub(super) fn new(warm_limit: usize) -> Self {
        let mut open = Vec::new();
        open.resize_with(CLASSES, Vec::new);
        Self {
            arenas: Vec::new(),
            open,
            warm_chunks: Vec::new(),
            cold_chunks: Vec::new(),
            mappings: Vec::new(),
            warm_bytes: 0,
            warm_limit,
        }
    }

    /// Hands out a block of at least `bytes`; its content is unspecified (but initialised).
    pub(super) fn allocate(&mut self, bytes: usize) -> std::io::Result<Block> {
        let class = class_of(bytes);
        let bytes = class_bytes(class);
        if bytes > CHUNK_BYTES {
            return self.allocate_mapping(bytes);
        }
        if self.open[class].is_empty() {
            self.open_chunk(class)?;
        }
        let &(arena_index, chunk_index) =
            self.open[class].last().expect("open_chunk has just opened one");
        let arena =
            self.arenas[arena_index as usize].as_mut().expect("open chunks are in live arenas");
        let chunk = &mut arena.chunks[chunk_index as usize];
        let index = chunk.free.pop().expect("open chunks have free blocks") as usize;
        chunk.live += 1;
        if chunk.free.is_empty() {
            self.open[class].pop();
        }
        let offset = chunk_index as usize * CHUNK_BYTES + index * bytes;
        let pointer = arena.map.as_mut_ptr().wrapping_add(offset);
        Ok(Block {
            pointer,
            bytes,
            origin: Origin::Chunk { arena: arena_index, chunk: chunk_index },
        })
    }

    fn allocate_mapping(&mut self, bytes: usize) -> std::io::Result<Block> {
        let warm = self.mappings.iter().position(|map| map.len() == bytes);
        let (map, fresh) = match warm {
            Some(index) => {
                self.warm_bytes -= bytes;
                (Box::new(self.mappings.swap_remove(index)), false)
            }
            None => (Box::new(MmapRaw::from(MmapMut::map_anon(bytes)?)), true),
        };
        let pointer = map.as_mut_ptr();
        Ok(Block { pointer, bytes, origin: Origin::Mapping { map, fresh } })
    }

    fn open_chunk(&mut self, class: usize) -> std::io::Result<()> {
        let warm = self.warm_chunks.pop();
        if warm.is_none() && self.cold_chunks.is_empty() {
            self.map_arena()?;
        }
        let (arena_index, chunk_index) = warm
            .or_else(|| self.cold_chunks.pop())
            .expect("map_arena adds chunks where there were none");
        let arena =
            self.arenas[arena_index as usize].as_mut().expect("free chunks are in live arenas");
        if warm.is_some() {
            self.warm_bytes -= CHUNK_BYTES;
        } else if class_bytes(class) >= POPULATE_BYTES {
            // One call instead of a fault for every 4 KiB; where the system cannot, faults do it.
            let offset = chunk_index as usize * CHUNK_BYTES;
            drop(arena.map.advise_range(Advice::PopulateWrite, offset, CHUNK_BYTES));
        }
        arena.used_chunks += 1;
        let chunk = &mut arena.chunks[chunk_index as usize];
        let blocks = CHUNK_BYTES / class_bytes(class);
        chunk.class = class;
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
        let arena = Some(Arena { map, chunks, used_chunks: 0 });
        let index = match self.arenas.iter().position(Option::is_none) {
            Some(index) => {
                self.arenas[index] = arena;
                index
            }
            None => {
                self.arenas.push(arena);
                self.arenas.len() - 1
            }
        };
        let chunks = (0..CHUNKS_PER_ARENA as u8).rev().map(|chunk| (index as u32, chunk));
        self.cold_chunks.extend(chunks);
        Ok(())
    }

    /// Takes back a block.
    pub(super) fn release(&mut self, pointer: *mut u8, origin: Origin) {
        match origin {
            Origin::Chunk { arena, chunk } => self.release_cut(pointer, arena, chunk),
            Origin::Mapping { map, .. } => {
                if self.warm_bytes + map.len() <= self.warm_limit {
                    self.warm_bytes += map.len();
                    self.mappings.push(*map);
                }
            }
        }
    }

    fn release_cut(&mut self, pointer: *mut u8, arena_index: u32, chunk_index: u8) {
        let arena = self.arenas[arena_index as usize]
            .as_mut()
            .expect("an arena outlives the blocks cut from it");
        let start = arena.map.as_ptr() as usize + chunk_index as usize * CHUNK_BYTES;
        let chunk = &mut arena.chunks[chunk_index as usize];
        let class = chunk.class;
        chunk.free.push(((pointer as usize - start) / class_bytes(class)) as u16);
        chunk.live -= 1;
        if chunk.live == 0 {
            self.open[class].retain(|&open| open != (arena_index, chunk_index));
            self.close_chunk(arena_index, chunk_index);
        } else if chunk.free.len() == 1 {
            self.open[class].push((arena_index, chunk_index));
        }
    }

    fn close_chunk(&mut self, arena_index: u32, chunk_index: u8) {
        let arena =
            self.arenas[arena_index as usize].as_mut().expect("the chunk's arena is mapped");
        arena.used_chunks -= 1;
        if self.warm_bytes + CHUNK_BYTES <= self.warm_limit {
            self.warm_bytes += CHUNK_BYTES;
            self.warm_chunks.push((arena_index, chunk_index));
        } else {
            forget_content(&arena.map, chunk_index as usize * CHUNK_BYTES, CHUNK_BYTES);
            self.cold_chunks.push((arena_index, chunk_index));
            self.unmap_cold_arena(arena_index);
        }
    }

    /// Unmaps an arena whose chunks are all free and cold.
    fn unmap_cold_arena(&mut self, index: u32) {
        let is_warm = self.warm_chunks.iter().any(|&(arena, _)| arena == index);
        let slot = &mut self.arenas[index as usize];
        if !is_warm && slot.take_if(|arena| arena.used_chunks == 0).is_some() {
            self.cold_chunks.retain(|&(arena, _)| arena != index);
        }
    }

    /// Gives all free memory back to the system.
    pub(super) fn trim(&mut self) {
        self.mappings.clear();
        for (arena_index, chunk_index) in std::mem::take(&mut self.warm_chunks) {
            let arena =
                self.arenas[arena_index as usize].as_ref().expect("warm chunks are in live arenas");
            forget_content(&arena.map, chunk_index as usize * CHUNK_BYTES, CHUNK_BYTES);
            self.cold_chunks.push((arena_index, chunk_index));
        }
        self.warm_bytes = 0;
        (0..self.arenas.len() as u32).for_each(|arena| self.unmap_cold_arena(arena));
    }

    /// Bytes of free memory that the system has given and not got back.
    pub(super) fn warm_bytes(&self) -> usize {
        self.warm_bytes
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_every_size_with_at_most_a_quarter_of_waste() {
        for bytes in (1..=3 * CHUNK_BYTES).step_by(777) {
            let block = block_bytes(bytes);
            assert!(block >= bytes && block.is_multiple_of(MIN_BLOCK_BYTES));
            assert!(block <= MIN_BLOCK_BYTES * 2 || block - bytes <= block / 4 + MIN_BLOCK_BYTES);
        }
        assert_eq!(block_bytes(CHUNK_BYTES), CHUNK_BYTES);
        assert_eq!(block_bytes(CHUNK_BYTES + 1), CHUNK_BYTES * 5 / 4);
    }

    fn mapped_arenas(pool: &Pool) -> usize {
        pool.arenas.iter().flatten().count()
    }

    #[test]
    fn blocks_do_not_overlap_and_arenas_go_back() {
        for warm_limit in [0, 8 << 20, usize::MAX] {
            let mut pool = Pool::new(warm_limit);
            let mut blocks = Vec::new();
            for i in 0..3000_usize {
                blocks.push(pool.allocate(1 + i * 37 % 60_000).unwrap());
            }
            blocks.push(pool.allocate(5 << 20).unwrap());
            let mut ranges: Vec<_> = blocks.iter().map(|b| (b.pointer as usize, b.bytes)).collect();
            ranges.sort_unstable();
            assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
            assert!(mapped_arenas(&pool) > 1);
            blocks.into_iter().for_each(|block| pool.release(block.pointer, block.origin));
            assert!(pool.warm_bytes() <= warm_limit);
            assert_eq!(mapped_arenas(&pool) == 0, warm_limit == 0);
            assert_eq!(pool.warm_bytes() > 5 << 20, warm_limit > 0);
            pool.trim();
            assert_eq!((mapped_arenas(&pool), pool.warm_bytes()), (0, 0));
        }
    }

    #[test]
    fn a_mapping_is_used_again() {
        let mut pool = Pool::new(usize::MAX);
        let block = pool.allocate(3 << 20).unwrap();
        let first = block.pointer;
        assert!(matches!(block.origin, Origin::Mapping { fresh: true, .. }));
        pool.release(block.pointer, block.origin);
        let block = pool.allocate((3 << 20) - 100).unwrap();
        assert_eq!(block.pointer, first);
        assert!(matches!(block.origin, Origin::Mapping { fresh: false, .. }));
        assert_eq!(pool.warm_bytes(), 0);
    }
}
