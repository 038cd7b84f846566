//! The connector "socket": records that a server sends, until it closes the connection, or that are sent to one. A lost
//! connection is not made anew: for a reader it is the end, for a writer an error, as rows would be lost.

use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use thalweg_runtime::job::JobContext;
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::operators::sink::SinkSpec;
use thalweg_runtime::sink::{SinkConnector, SinkWriter};
use thalweg_runtime::source::{Source, SourceConnector, SourceSpec};
use thalweg_runtime::{Error, Result};

use super::metadata::MetadataKey;
use super::print::{Printed, Printer, TextTarget};
use super::registry::TableDefinition;
use super::stdout::TextWriter;
use super::streaming::feed::ByteOrigin;
use super::streaming::options::wrong_value;
use super::streaming::text::{self, TextFormat};
use super::streaming::{ConnectorOptions, ConnectorTable};
use super::text_rows::{TextRows, TextRowsSpec};
use crate::catalog::TableSink;
use crate::error;

/// The connector's registered name.
pub const CONNECTOR: &str = "socket";

/// What the connector gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SocketSpec {
    server: Server,
    text: TextFormat,
}

/// What the sink gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SendSpec {
    server: Server,
    rows: TextRowsSpec,
}

/// Who sends the records, or takes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Server {
    host: String,
    port: u16,
}

/// The table of a definition.
pub(super) fn table(definition: TableDefinition) -> error::Result<ConnectorTable> {
    let schema = definition.columns(CONNECTOR)?;
    definition.refuse_files(CONNECTOR)?;
    let mut options = ConnectorOptions::new(CONNECTOR, &definition.options);
    let host = options.required("hostname")?;
    let given = options.required("port")?;
    let Some(port) = given.trim().parse().ok().filter(|port| *port > 0) else {
        return Err(wrong_value("port", &given, "a number from 1 to 65535"));
    };
    let text = TextFormat::new(
        definition.format.as_deref(),
        &schema,
        &mut options,
        definition.dead_letters,
    )?;
    options.finish()?;
    let withdraws = text.withdraws();
    let server = Server { host, port };
    let sink = sink(&definition, &schema, &server)?;
    let value = serde_json::to_value(SocketSpec { server, text })
        .map_err(|e| error::Error::internal(format!("the options of a socket: {e}")))?;
    let table = ConnectorTable::unbounded(CONNECTOR, value, schema, definition.constraints);
    let table = table.withdrawing(withdraws).knowing(MetadataKey::OF_TEXT);
    Ok(match sink {
        Some(sink) => table.with_sink(sink),
        None => table,
    })
}

/// The sink of a definition; none where it says how text is read that is never written so.
fn sink(
    definition: &TableDefinition,
    schema: &SchemaRef,
    server: &Server,
) -> error::Result<Option<TableSink>> {
    let reads_only = ["csv.quote", "csv.null"];
    if definition.options.iter().any(|(key, _)| reads_only.contains(&key.to_lowercase().as_str())) {
        return Ok(None);
    }
    let mut options = ConnectorOptions::new(CONNECTOR, &definition.options);
    let rows = TextRowsSpec::of(definition, schema, &mut options)?;
    let kind = rows.kind();
    let options = serde_json::to_value(SendSpec { server: server.clone(), rows })
        .map_err(|e| error::Error::internal(format!("the options of a socket: {e}")))?;
    let spec = SinkSpec { sink: CONNECTOR.to_string(), options };
    // One writer, so that rows leave in their order.
    Ok(Some(TableSink { spec, parallel: false, kind }))
}

/// Sends rows to servers.
#[derive(Debug, Default)]
pub struct SocketSink;

impl SinkConnector for SocketSink {
    fn writer(
        &self,
        options: &serde_json::Value,
        _cx: &mut OperatorContext<'_>,
    ) -> Result<Box<dyn SinkWriter>> {
        let spec: SendSpec = serde_json::from_value(options.clone())
            .map_err(|e| Error::Internal(format!("the options of a socket: {e}")))?;
        let rows = TextRows::new(spec.rows, options)?;
        let printer =
            Printer::to(Arc::new(Connection { server: spec.server, open: Mutex::default() }));
        Ok(Box::new(TextWriter::new(rows, options, printer)))
    }
}

/// A connection that is made when there is something to be sent.
struct Connection {
    server: Server,
    open: Mutex<Option<TcpStream>>,
}

impl TextTarget for Connection {
    fn write(&self, text: &[u8]) -> Result<Printed> {
        let mut open = self.open.lock();
        let failed = |error: io::Error| {
            Error::io(format!("cannot send rows to {}", self.server.name()), &error)
        };
        let stream = match &mut *open {
            Some(stream) => stream,
            none => {
                let address = (self.server.host.as_str(), self.server.port);
                none.insert(TcpStream::connect(address).map_err(failed)?)
            }
        };
        stream.write_all(text).and_then(|()| stream.flush()).map_err(failed)?;
        Ok(Printed::Whole)
    }
}

/// Reads what servers send.
#[derive(Debug, Default)]
pub struct SocketConnector;

impl SourceConnector for SocketConnector {
    fn open(&self, spec: &SourceSpec, job: &Arc<JobContext>) -> Result<Arc<dyn Source>> {
        let socket: SocketSpec = serde_json::from_value(spec.options.clone())
            .map_err(|e| Error::Internal(format!("the options of a socket: {e}")))?;
        Ok(text::open(spec, Arc::new(socket.server), socket.text, job))
    }
}

impl ByteOrigin for Server {
    fn name(&self) -> String {
        format!("the socket {}:{}", self.host, self.port)
    }

    fn open(&self) -> io::Result<File> {
        let stream = TcpStream::connect((self.host.as_str(), self.port))?;
        Ok(File::from(OwnedFd::from(stream)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion_common::Constraints;
    use thalweg_runtime::expr::Expr;
    use thalweg_runtime::source::{EventTimeSpec, SourceOutput, SplitEvent, SplitId};

    use super::*;
    use crate::catalog::Table;
    use crate::connectors::testing;

    fn definition(
        fields: &[(&str, DataType)],
        format: Option<&str>,
        options: &[(&str, &str)],
    ) -> TableDefinition {
        let fields: Vec<Field> =
            fields.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect();
        TableDefinition {
            name: "s".into(),
            connector: CONNECTOR.into(),
            format: format.map(String::from),
            locations: Vec::new(),
            schema: Some(Arc::new(Schema::new(fields))),
            constraints: Constraints::default(),
            options: options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            partition_columns: Vec::new(),
            dead_letters: None,
        }
    }

    /// What is read of a server that sends this and closes the connection.
    fn received(
        fields: &[(&str, DataType)],
        format: &str,
        options: &[(&str, &str)],
        text: &'static [u8],
    ) -> Result<Vec<String>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            // Records come in several parts.
            for part in text.chunks(7) {
                // The reader may have left after an error.
                let _ = client.write_all(part);
            }
        });
        let mut options = options.to_vec();
        options.extend([("hostname", "127.0.0.1"), ("port", &port)]);
        let table = table(definition(fields, Some(format), &options)).unwrap();
        assert!(table.is_unbounded());
        let rows = testing::run(&testing::spec(&table), 2).map(|rows| testing::rows_as_text(&rows));
        server.join().unwrap();
        rows
    }

    const FIELDS: [(&str, DataType); 2] = [("a", DataType::Int64), ("b", DataType::Utf8View)];

    #[test]
    fn delimited_text_is_read_record_by_record() {
        let text = b"a,b\n1,x\n2,\"y\nz\"\n\n3,\xc3\xa9\n4,last";
        let rows = received(&FIELDS, "csv", &[("csv.header", "true")], text).unwrap();
        assert_eq!(rows, ["1|x", "2|y\nz", "3|é", "4|last"]);
    }

    #[test]
    fn objects_are_read_line_by_line() {
        let text = b"{\"a\": 1, \"b\": \"x\"}\n{\"b\": \"y\"}\n\n{\"a\": 3}";
        let rows = received(&FIELDS, "json", &[], text).unwrap();
        assert_eq!(rows, ["1|x", "∅|y", "3|∅"]);
    }

    #[test]
    fn lines_are_read_as_they_are() {
        let text = b"one, \"two\"\r\n\n a line that is longer than a view \nlast";
        let rows = received(&[("line", DataType::Utf8View)], "raw", &[], text).unwrap();
        assert_eq!(rows, ["one, \"two\"", "", " a line that is longer than a view ", "last"]);
        let rows = received(&[("line", DataType::Binary)], "raw", &[], b"\xff\n").unwrap();
        assert_eq!(rows, ["ff"]);
    }

    #[test]
    fn bad_records_are_named_or_left_out() {
        let error = |rows: Result<Vec<String>>| rows.unwrap_err().to_string();
        let text = b"1,x\nzwei,y\n3,z\n";
        let message = error(received(&FIELDS, "csv", &[], text));
        assert!(message.contains("line 2") && message.contains("the socket 127"), "{message}");
        let rows = received(&FIELDS, "csv", &[("csv.ignore-errors", "true")], text).unwrap();
        assert_eq!(rows, ["1|x", "3|z"]);
        let message = error(received(&FIELDS, "json", &[], b"{\"a\": 1}\n{\"a\": \n"));
        assert!(message.contains("line 2"), "{message}");
        let line = [("line", DataType::Utf8View)];
        let message = error(received(&line, "raw", &[], b"x\n\xff\xfe\n"));
        assert!(message.contains("line 2") && message.contains("UTF-8"), "{message}");
    }

    #[test]
    fn a_reader_says_when_it_is_caught_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let options = [("hostname", "localhost"), ("port", port.as_str())];
        let table = table(definition(&FIELDS, Some("csv"), &options)).unwrap();
        let mut spec = testing::spec(&table);
        spec.event_time = Some(EventTimeSpec {
            time: Some(Expr::Column(0)),
            watermark: Some(Expr::Column(0)),
            types: vec![DataType::Int64, DataType::Utf8View],
            delivered: 2,
            name: String::new(),
            null_time: thalweg_runtime::source::NullTime::SkipWatermark,
            tells_time: true,
            emit_interval_ns: 0,
            idle_timeout_ns: 0,
            alignment: None,
        });
        let job = testing::job();
        let source = SocketConnector.open(&spec, &job).unwrap();
        assert_eq!(source.pending_from_us(), Some(i64::MIN));
        let mut reader = source.reader(0).unwrap();
        let mut next = || loop {
            let output = testing::with_context(&job, (0, 1), |cx| reader.step(cx)).unwrap();
            match output {
                SourceOutput::Continue => {}
                SourceOutput::Wait(_) => {
                    std::thread::park_timeout(std::time::Duration::from_millis(20))
                }
                SourceOutput::Split(event) => return Some(Err(event)),
                SourceOutput::Batch(batch) => return Some(Ok(batch.num_rows())),
                SourceOutput::Finished => return None,
            }
        };
        let split = SplitId(0);
        assert_eq!(next(), Some(Err(SplitEvent::Reading(split))));
        // The scan may not have told others by now that it speaks.
        assert_eq!(source.pending_from_us(), Some(i64::MIN));
        let (mut client, _) = listener.accept().unwrap();
        assert_eq!(next(), Some(Err(SplitEvent::CaughtUp(split))));
        assert_eq!(source.pending_from_us(), None);
        client.write_all(b"1,x\n2,half of ").unwrap();
        assert_eq!(next(), Some(Err(SplitEvent::Reading(split))));
        assert_eq!(next(), Some(Ok(1)));
        assert_eq!(next(), Some(Err(SplitEvent::CaughtUp(split))));
        client.write_all(b"a line").unwrap();
        drop(client);
        assert_eq!(next(), Some(Err(SplitEvent::Reading(split))));
        assert_eq!(next(), Some(Ok(1)));
        assert_eq!(next(), Some(Err(SplitEvent::Ended(split))));
        assert_eq!(next(), None);
    }

    #[test]
    fn options_are_checked() {
        let error = |fields: &[(&str, DataType)], format, options: &[(&str, &str)]| {
            table(definition(fields, format, options)).unwrap_err().to_string()
        };
        let place = [("hostname", "h"), ("port", "7")];
        assert!(error(&FIELDS, None, &place).contains("format"));
        assert!(error(&FIELDS, Some("xml"), &place).contains("csv, json, debezium_json or raw"));
        assert!(error(&FIELDS, Some("raw"), &place).contains("one column"));
        assert!(error(&FIELDS, Some("csv"), &place[1..]).contains("needs the option \"hostname\""));
        assert!(
            error(&FIELDS, Some("csv"), &[("hostname", "h"), ("port", "70000")]).contains("65535")
        );
        let wrong = [place[0], place[1], ("csv.headers", "true")];
        assert!(error(&FIELDS, Some("csv"), &wrong).contains("did you mean \"csv.header\"?"));
        let wrong = [place[0], place[1], ("csv.header", "true")];
        assert!(error(&FIELDS, Some("json"), &wrong).contains("csv.header"));
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        // A port that was free a moment ago.
        let port =
            TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let options = [("hostname", "127.0.0.1"), ("port", port.as_str())];
        let table = table(definition(&FIELDS, Some("csv"), &options)).unwrap();
        let error = testing::run(&testing::spec(&table), 1).unwrap_err().to_string();
        assert!(error.contains(&format!("cannot open the socket 127.0.0.1:{port}")), "{error}");
    }
}
