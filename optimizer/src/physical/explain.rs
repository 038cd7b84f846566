//! EXPLAIN as text: an indented tree, one line a node.
//!
//! A line holds the strategy, what it works on, how its rows are shipped to the consumer (when they move), the
//! estimated rows with their provenance and, under ANALYZE, the actual ones. Verbose adds properties and costs.

use std::collections::HashMap;
use std::fmt::Write;

use crate::physical::describe::Names;
use crate::physical::state::changelog_mode;
use crate::physical::{Channel, ExchangeMode, PhysicalNode, PhysicalPlan, ShipStrategy};

/// What happened at a node when the plan ran.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Actual {
    /// Rows that left the node, all subtasks together.
    pub rows: u64,
    /// Time spent in the node, all subtasks together, seconds.
    pub seconds: f64,
    /// The most memory held, bytes.
    pub peak_bytes: u64,
    /// Bytes written to spill files.
    pub spilled_bytes: u64,
    /// Rows that were dropped because they came too late.
    pub late_rows: u64,
}

/// The plan as text.
pub fn explain(
    plan: &PhysicalPlan,
    verbose: bool,
    actuals: Option<&HashMap<u32, Actual>>,
) -> String {
    let names = Names::new(&plan.columns, verbose).forgetting(plan.state_ttl_us);
    let printer = Printer { names, verbose, streaming: plan.streaming, actuals };
    let mut text = String::new();
    for shared in &plan.shared {
        let _ = writeln!(
            text,
            "Shared {} {} [{} spool: {}]",
            shared.id,
            shared.name,
            mode_name(shared.mode),
            shared.reason
        );
        printer.node(&shared.root, None, 1, &mut text);
    }
    printer.node(&plan.root, None, 0, &mut text);
    for warning in &plan.warnings {
        let _ = writeln!(text, "Warning: {warning}");
    }
    text
}

struct Printer<'a> {
    names: Names<'a>,
    verbose: bool,
    /// Whether what bounds the operators' states is told, and what kinds of rows leave them.
    streaming: bool,
    actuals: Option<&'a HashMap<u32, Actual>>,
}

impl Printer<'_> {
    fn node(
        &self,
        node: &PhysicalNode,
        channel: Option<&Channel>,
        depth: usize,
        text: &mut String,
    ) {
        let indent = "  ".repeat(depth);
        let _ = write!(text, "{indent}{}", node.op.name());
        let detail = self.names.detail(node);
        if !detail.is_empty() {
            let _ = write!(text, " {detail}");
        }
        if let Some(channel) = channel.filter(|channel| moves(channel)) {
            let _ = write!(text, " => {}", self.names.ship(&channel.ship));
            if channel.mode == ExchangeMode::Blocking {
                let _ =
                    write!(text, " BLOCKING ({})", channel.reason.as_deref().unwrap_or("unknown"));
            }
        }
        let estimates = &node.estimates;
        let _ = write!(text, "  [rows~{} {}", count(estimates.rows), estimates.provenance.name());
        self.actual(node, text);
        text.push(']');
        if self.streaming {
            let _ = write!(text, " changelog [{}]", changelog_mode(node));
            if let Some(state) = self.names.state(node) {
                let _ = write!(text, ", {state}");
            }
        }
        text.push('\n');
        if self.verbose {
            self.properties(node, &indent, text);
        }
        for input in &node.inputs {
            self.node(&input.node, Some(input), depth + 1, text);
        }
    }

    fn actual(&self, node: &PhysicalNode, text: &mut String) {
        let Some(actual) = self.actuals.and_then(|actuals| actuals.get(&node.id)) else { return };
        let (estimated, counted) = (node.estimates.rows.max(1.0), (actual.rows as f64).max(1.0));
        let error = (estimated / counted).max(counted / estimated);
        let _ =
            write!(text, ", actual {} q-error {error:.1} time {:.3}s", actual.rows, actual.seconds);
        if actual.peak_bytes > 0 {
            let _ = write!(text, " memory {}", bytes(actual.peak_bytes as f64));
        }
        if actual.late_rows > 0 {
            let _ = write!(text, " late {}", actual.late_rows);
        }
        if actual.spilled_bytes > 0 {
            let _ = write!(text, " spilled {}", bytes(actual.spilled_bytes as f64));
        }
    }

    fn properties(&self, node: &PhysicalNode, indent: &str, text: &mut String) {
        let columns = self.names.list(&node.output);
        let _ = writeln!(text, "{indent}    #{} output: {columns}", node.id);
        let _ = write!(
            text,
            "{indent}    properties: {}",
            self.names.partitioning(&node.provided.partitioning)
        );
        if !node.provided.ordering.is_empty() {
            let _ = write!(text, ", ordered by {}", self.names.ordering(&node.provided.ordering));
        }
        for set in &node.provided.unique {
            let list: Vec<_> = set.iter().copied().collect();
            let _ = write!(text, ", unique ({})", self.names.list(&list));
        }
        let (own, all) = (&node.cost, &node.cumulative);
        let _ = writeln!(
            text,
            "\n{indent}    cost: network {} disk {} cpu {}; cumulative: network {} disk {} cpu {}; bytes~{}",
            bytes(own.network),
            bytes(own.disk),
            time(own.cpu),
            bytes(all.network),
            bytes(all.disk),
            time(all.cpu),
            bytes(node.estimates.bytes),
        );
    }
}

/// The word for an exchange mode.
pub(crate) fn mode_name(mode: ExchangeMode) -> &'static str {
    match mode {
        ExchangeMode::Pipelined => "PIPELINED",
        ExchangeMode::Blocking => "BLOCKING",
    }
}

fn moves(channel: &Channel) -> bool {
    channel.ship != ShipStrategy::Forward || channel.mode == ExchangeMode::Blocking
}

fn count(rows: f64) -> String {
    format!("{}", rows.round() + 0.0)
}

fn bytes(bytes: f64) -> String {
    // A negative zero is shown with its sign.
    match bytes + 0.0 {
        b if b < 10_240.0 => format!("{b:.0}B"),
        b if b < 10_485_760.0 => format!("{:.0}KB", b / 1024.0),
        b => format!("{:.0}MB", b / 1_048_576.0),
    }
}

fn time(nanoseconds: f64) -> String {
    format!("{:.3}ms", nanoseconds / 1e6)
}
