//! File formats and compressions, told by extension or by the first bytes.

use serde::{Deserialize, Serialize};
use thalweg_runtime::{Error, Result};

/// The layout of rows in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Delimited text.
    Csv,
    /// One JSON object a line, or a top-level array of objects.
    Json,
    /// Arrow IPC, file or stream.
    Arrow,
}

/// How the whole file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Compression {
    /// It is not.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// What a file's name or head says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileKind {
    /// The format.
    pub format: FileFormat,
    /// The compression around it.
    pub compression: Compression,
}

impl FileFormat {
    /// The format of a name as it stands in `WITH (format = …)` and `COPY … (FORMAT …)`.
    pub fn by_name(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "parquet" => Ok(FileFormat::Parquet),
            "csv" | "tsv" => Ok(FileFormat::Csv),
            "json" | "ndjson" | "jsonl" => Ok(FileFormat::Json),
            "arrow" | "ipc" | "feather" => Ok(FileFormat::Arrow),
            _ => Err(Error::User {
                message: format!("there is no file format \"{name}\""),
                detail: None,
                hint: Some("formats are parquet, csv, json and arrow".into()),
            }),
        }
    }

    /// The format of a file extension without its dot.
    pub fn by_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "parquet" | "pq" => Some(FileFormat::Parquet),
            "csv" | "tsv" | "txt" | "tbl" => Some(FileFormat::Csv),
            "json" | "ndjson" | "jsonl" => Some(FileFormat::Json),
            "arrow" | "ipc" | "feather" | "arrows" => Some(FileFormat::Arrow),
            _ => None,
        }
    }

    /// The word for messages.
    pub fn name(self) -> &'static str {
        match self {
            FileFormat::Parquet => "Parquet",
            FileFormat::Csv => "CSV",
            FileFormat::Json => "JSON",
            FileFormat::Arrow => "Arrow IPC",
        }
    }
}

/// The compression that a file name's last extension names, and the name without it.
pub fn strip_compression(name: &str) -> (Compression, &str) {
    let lower = name.to_ascii_lowercase();
    for (extension, compression) in [
        (".gz", Compression::Gzip),
        (".gzip", Compression::Gzip),
        (".zst", Compression::Zstd),
        (".zstd", Compression::Zstd),
    ] {
        if lower.ends_with(extension) {
            return (compression, &name[..name.len() - extension.len()]);
        }
    }
    (Compression::None, name)
}

/// The delimiter that a file name's extension implies.
pub fn delimiter_by_name(name: &str) -> Option<u8> {
    let (_, stem) = strip_compression(name);
    match stem.rsplit_once('.').map(|(_, e)| e.to_ascii_lowercase()).as_deref() {
        Some("tsv") => Some(b'\t'),
        _ => None,
    }
}

/// The format that a file name's extension implies, compression looked through.
pub fn format_by_name(name: &str) -> Option<FileFormat> {
    let (_, stem) = strip_compression(name);
    let (_, extension) = stem.rsplit_once('.')?;
    FileFormat::by_extension(extension)
}

/// The format that the first bytes of the (decompressed) file show.
pub fn format_by_magic(head: &[u8]) -> Option<FileFormat> {
    if head.starts_with(b"PAR1") || head.starts_with(b"PARE") {
        return Some(FileFormat::Parquet);
    }
    // An IPC stream begins with the continuation marker, a file with its name.
    if head.starts_with(b"ARROW1") || head.starts_with(&[0xff, 0xff, 0xff, 0xff]) {
        return Some(FileFormat::Arrow);
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    match text.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b'{') => Some(FileFormat::Json),
        Some(b'[') if looks_like_json_array(text) => Some(FileFormat::Json),
        _ => None,
    }
}

fn looks_like_json_array(text: &[u8]) -> bool {
    let mut bytes = text.iter().filter(|b| !b.is_ascii_whitespace());
    bytes.next() == Some(&b'[') && matches!(bytes.next(), Some(b'{' | b']'))
}

/// The compression that the first bytes show.
pub fn compression_by_magic(head: &[u8]) -> Compression {
    if head.starts_with(&[0x1f, 0x8b]) {
        Compression::Gzip
    } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Compression::Zstd
    } else {
        Compression::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_heads_tell_the_format() {
        assert_eq!(format_by_name("a/b.csv.gz"), Some(FileFormat::Csv));
        assert_eq!(format_by_name("b.PQ"), Some(FileFormat::Parquet));
        assert_eq!(format_by_name("noextension"), None);
        assert_eq!(delimiter_by_name("x.tsv.zst"), Some(b'\t'));
        assert_eq!(format_by_magic(b"PAR1...."), Some(FileFormat::Parquet));
        assert_eq!(format_by_magic(b" {\"a\":1}"), Some(FileFormat::Json));
        assert_eq!(format_by_magic(b"[x],y\n"), None);
        assert_eq!(strip_compression("x.CSV.GZ"), (Compression::Gzip, "x.CSV"));
    }
}
