//! What connectors know of a row beside its values, for columns that are declared as METADATA.
//!
//! A reader tells where the rows of a batch come from ([`RowOrigin`]); the columns are made from that here. Where
//! something is not known the value is NULL.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int64Array, StringViewArray, TimestampMicrosecondArray, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, TimeUnit};
use thalweg_planner::suggest;
use thalweg_runtime::{Error as RuntimeError, Result as RuntimeResult};

use super::scan::ScanFile;
use crate::error::{Error, Report, Result};

/// What may be known of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataKey {
    /// The file as it is opened.
    FilePath,
    /// The last part of that.
    FileName,
    /// Bytes of the file.
    FileSize,
    /// When the file was changed last.
    FileModificationTime,
    /// The line in which the record begins, from 1.
    LineNumber,
    /// When the row was read.
    IngestionTime,
}

impl MetadataKey {
    /// What files of text tell.
    pub const OF_TEXT_FILES: &'static [MetadataKey] = &[
        MetadataKey::FilePath,
        MetadataKey::FileName,
        MetadataKey::FileSize,
        MetadataKey::FileModificationTime,
        MetadataKey::LineNumber,
        MetadataKey::IngestionTime,
    ];
    /// What other files tell.
    pub const OF_FILES: &'static [MetadataKey] = &[
        MetadataKey::FilePath,
        MetadataKey::FileName,
        MetadataKey::FileSize,
        MetadataKey::FileModificationTime,
        MetadataKey::IngestionTime,
    ];
    /// What text from elsewhere tells.
    pub const OF_TEXT: &'static [MetadataKey] =
        &[MetadataKey::LineNumber, MetadataKey::IngestionTime];
    /// What generators tell.
    pub const OF_GENERATORS: &'static [MetadataKey] = &[MetadataKey::IngestionTime];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            MetadataKey::FilePath => "file.path",
            MetadataKey::FileName => "file.name",
            MetadataKey::FileSize => "file.size",
            MetadataKey::FileModificationTime => "file.modification-time",
            MetadataKey::LineNumber => "line-number",
            MetadataKey::IngestionTime => "ingestion-time",
        }
    }

    /// The key of a name, whatever its case, with points, dashes and underscores alike.
    fn by_name(name: &str) -> Option<Self> {
        let plain = |name: &str| name.to_ascii_lowercase().replace(['_', '.'], "-");
        let wanted = plain(name);
        Self::OF_TEXT_FILES.iter().copied().find(|key| plain(key.name()) == wanted)
    }

    /// Whether columns of a type can hold it.
    fn fits(self, data_type: &DataType) -> bool {
        match self {
            MetadataKey::FilePath | MetadataKey::FileName => *data_type == DataType::Utf8View,
            MetadataKey::FileSize | MetadataKey::LineNumber => *data_type == DataType::Int64,
            MetadataKey::FileModificationTime | MetadataKey::IngestionTime => {
                matches!(data_type, DataType::Timestamp(..))
            }
        }
    }

    fn type_name(self) -> &'static str {
        match self {
            MetadataKey::FilePath | MetadataKey::FileName => "VARCHAR",
            MetadataKey::FileSize | MetadataKey::LineNumber => "BIGINT",
            MetadataKey::FileModificationTime | MetadataKey::IngestionTime => {
                "TIMESTAMP or TIMESTAMP WITH TIME ZONE"
            }
        }
    }
}

/// The field in which a scan gets a column: its name is that of the key. Fails if the connector does not know it, or the
/// column has another type.
pub fn field(column: &Field, key: &str, known: &[MetadataKey], what: &str) -> Result<Field> {
    let Some(found) = MetadataKey::by_name(key).filter(|key| known.contains(key)) else {
        let report = Report::new(format!("{what} has no metadata \"{key}\""));
        let names: Vec<&str> = known.iter().map(|key| key.name()).collect();
        let report = match names.is_empty() {
            true => report
                .with_detail(format!("The column \"{}\" is declared as METADATA.", column.name())),
            false => report
                .with_detail(format!("It knows: {}.", names.join(", ")))
                .with_hint(suggest::did_you_mean(key, names.iter().copied())),
        };
        return Err(Error::catalog(report));
    };
    if !found.fits(column.data_type()) {
        return Err(Error::catalog(Report::new(format!(
            "the metadata \"{}\" is a {}, which the column \"{}\" is not",
            found.name(),
            found.type_name(),
            column.name()
        ))));
    }
    Ok(Field::new(found.name(), column.data_type().clone(), true))
}

/// Where the rows of a batch come from.
#[derive(Debug, Default)]
pub struct RowOrigin {
    /// The file, if it is one.
    pub file: Option<ScanFile>,
    /// The line of each row, if there are any.
    pub lines: Option<Vec<u64>>,
}

/// The columns of these fields for rows that are read now.
pub fn columns(
    fields: &[Field],
    origin: &RowOrigin,
    rows: usize,
    now_us: i64,
) -> RuntimeResult<Vec<ArrayRef>> {
    fields.iter().map(|field| column(field, origin, rows, now_us)).collect()
}

fn column(field: &Field, origin: &RowOrigin, rows: usize, now_us: i64) -> RuntimeResult<ArrayRef> {
    let unknown = || RuntimeError::Internal(format!("the metadata {}", field.name()));
    let key = MetadataKey::by_name(field.name()).ok_or_else(unknown)?;
    let text = |text: String| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(text, rows)))
    };
    let file = origin.file.as_ref();
    let found: Option<ArrayRef> = match key {
        MetadataKey::FilePath => file.map(|file| text(file.path.display().to_string())),
        MetadataKey::FileName => file.and_then(|file| {
            let name = file.path.file_name()?.to_string_lossy().into_owned();
            Some(text(name))
        }),
        MetadataKey::FileSize => {
            let size = file.and_then(|file| i64::try_from(file.size).ok());
            size.map(|size| Arc::new(Int64Array::from(vec![size; rows])) as ArrayRef)
        }
        MetadataKey::FileModificationTime => file
            .map(|file| instant(file.mtime_ns.div_euclid(1_000), rows, field.data_type()))
            .transpose()?,
        MetadataKey::LineNumber => origin.lines.as_ref().map(|lines| {
            Arc::new(Int64Array::from_iter_values(lines.iter().map(|line| *line as i64)))
                as ArrayRef
        }),
        MetadataKey::IngestionTime => Some(instant(now_us, rows, field.data_type())?),
    };
    Ok(found.unwrap_or_else(|| new_null_array(field.data_type(), rows)))
}

/// A point in time for each row; without a zone it is that of UTC.
fn instant(micros: i64, rows: usize, data_type: &DataType) -> RuntimeResult<ArrayRef> {
    let array = TimestampMicrosecondArray::from(vec![micros; rows]);
    let zone = match data_type {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    let array: ArrayRef = Arc::new(array.with_timezone_opt(zone));
    match data_type {
        DataType::Timestamp(TimeUnit::Microsecond, _) => Ok(array),
        _ => Ok(cast(&array, data_type)?),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use arrow::util::display::array_value_to_string;

    use super::*;

    #[test]
    fn names_are_known_however_they_are_written() {
        for name in ["file.path", "FILE_PATH", "file-path"] {
            assert_eq!(MetadataKey::by_name(name), Some(MetadataKey::FilePath));
        }
        assert_eq!(MetadataKey::by_name("path"), None);
    }

    #[test]
    fn a_connector_says_what_it_knows() {
        let column = Field::new("c", DataType::Int64, true);
        let known = MetadataKey::OF_TEXT;
        let found = field(&column, "line_number", known, "it").unwrap();
        assert_eq!(found.name(), "line-number");
        let error = |key: &str| format!("{:?}", field(&column, key, known, "it").unwrap_err());
        assert!(error("file.path").contains("line-number, ingestion-time"));
        assert!(error("line-numer").contains("did you mean"));
        assert!(error("ingestion-time").contains("TIMESTAMP"));
    }

    #[test]
    fn columns_tell_where_rows_come_from() {
        let file = ScanFile {
            path: PathBuf::from("/a/b.csv"),
            name: "b.csv".into(),
            size: 7,
            mtime_ns: 1_500,
            partition: Vec::new(),
            columns: None,
        };
        let origin = RowOrigin { file: Some(file), lines: Some(vec![2, 5]) };
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        let fields: Vec<Field> = MetadataKey::OF_TEXT_FILES
            .iter()
            .map(|key| {
                let of = match key.type_name() {
                    "VARCHAR" => DataType::Utf8View,
                    "BIGINT" => DataType::Int64,
                    _ => time.clone(),
                };
                Field::new(key.name(), of, true)
            })
            .collect();
        let shown: Vec<String> = columns(&fields, &origin, 2, 3_000_000)
            .unwrap()
            .iter()
            .map(|column| array_value_to_string(column, 1).unwrap())
            .collect();
        let wanted =
            ["/a/b.csv", "b.csv", "7", "1970-01-01T00:00:00.000001", "5", "1970-01-01T00:00:03"];
        assert_eq!(shown, wanted);
        let unknown = columns(&fields[..1], &RowOrigin::default(), 2, 0).unwrap();
        assert_eq!(unknown[0].null_count(), 2);
    }
}
