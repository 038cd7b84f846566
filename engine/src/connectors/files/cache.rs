//! Footers that were read before, by path, size and time of the last change.
//!
//! Metadata alone is kept; a file that has changed is read anew.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use thalweg_runtime::Result;
use thalweg_runtime::env::Environment;

use crate::connectors::parquet::ParquetMeta;

/// Files whose footers are kept at most; beyond that the cache starts anew.
const FILES_MAX: usize = 10_000;
/// Bytes of footers that are kept at most.
const BYTES_MAX: usize = 128 << 20;

/// What identifies the state of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FileState {
    path: PathBuf,
    size: u64,
    mtime_ns: i64,
}

/// The footers of a process.
#[derive(Debug, Default)]
pub struct FileCache {
    footers: Mutex<(HashMap<FileState, Arc<ParquetMeta>>, usize)>,
}

impl FileCache {
    /// The cache that all sessions of the process share.
    pub fn process() -> &'static FileCache {
        static CACHE: LazyLock<FileCache> = LazyLock::new(FileCache::default);
        &CACHE
    }

    /// A footer that is there already.
    pub fn parquet(
        &self,
        path: &std::path::Path,
        size: u64,
        mtime_ns: i64,
    ) -> Option<Arc<ParquetMeta>> {
        let key = FileState { path: path.to_path_buf(), size, mtime_ns };
        self.footers.lock().0.get(&key).cloned()
    }

    /// A footer, read if it is not there. Blocks.
    pub fn load_parquet(
        &self,
        env: &dyn Environment,
        path: &std::path::Path,
        name: &str,
        size: u64,
        mtime_ns: i64,
    ) -> Result<Arc<ParquetMeta>> {
        if let Some(found) = self.parquet(path, size, mtime_ns) {
            return Ok(found);
        }
        let meta = Arc::new(ParquetMeta::load(env, path, name)?);
        let bytes = meta.memory_bytes();
        let mut footers = self.footers.lock();
        if footers.0.len() >= FILES_MAX || footers.1 + bytes > BYTES_MAX {
            *footers = Default::default();
        }
        footers.1 += bytes;
        footers.0.insert(FileState { path: path.to_path_buf(), size, mtime_ns }, meta.clone());
        Ok(meta)
    }
}
