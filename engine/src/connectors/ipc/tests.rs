//! Arrow IPC files against the batches that were written.

use std::fs::File;
use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int32Type};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use thalweg_runtime::Error;

use crate::connectors::FileOptions;
use crate::connectors::testing::{read, rows_as_text};

fn sample() -> RecordBatch {
    let words: DictionaryArray<Int32Type> = vec!["a", "b", "a"].into_iter().collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("x", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
        ("s", Arc::new(StringArray::from(vec![Some("p"), Some(""), None]))),
        ("d", Arc::new(words)),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn files_and_streams_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let batch = sample();
    let file = dir.path().join("a.arrow");
    let mut writer = FileWriter::try_new(File::create(&file).unwrap(), &batch.schema()).unwrap();
    (0..2).for_each(|_| writer.write(&batch).unwrap());
    writer.finish().unwrap();
    let stream = dir.path().join("b.arrow");
    let mut writer =
        StreamWriter::try_new(File::create(&stream).unwrap(), &batch.schema()).unwrap();
    (0..2).for_each(|_| writer.write(&batch).unwrap());
    writer.finish().unwrap();
    for path in [file, stream] {
        let read = read(&path.display().to_string(), &FileOptions::default()).unwrap();
        assert_eq!(rows_as_text(&read), ["1|p|a", "∅||b", "3|∅|a", "1|p|a", "∅||b", "3|∅|a"]);
        assert_eq!(read.column(2).data_type(), &DataType::Utf8View);
    }
}

#[test]
fn damaged_files_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.arrow");
    std::fs::write(&path, b"ARROW1\0\0nonsense").unwrap();
    let Err(Error::User { message, .. }) =
        read(&path.display().to_string(), &FileOptions::default())
    else {
        panic!()
    };
    assert!(message.contains("a.arrow"), "{message}");
}
