//! Join hints: from what stands in the text to relations of the planned query.
//!
//! A hint names relations as its query does: by alias, or by the table's own name. It holds for every relation of that
//! name in the statement. What cannot be obeyed anywhere is an error with its place, never dropped: names that the query
//! does not have, hints of kinds that do nothing yet, and hints in statements that run no query.

use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_expr::LogicalPlan;

use super::option_hints::options_of;
use super::translate::translate;
use crate::error::{PlannerError, Result};
use crate::parse::{Hint, OPTIONS};
use crate::statement::{QueryPlan, RelationHint, Statement};
use crate::suggest::did_you_mean;

/// The hints that name the relation whose join they decide.
const JOIN_HINTS: [&str; 4] = ["BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP"];

/// Gives the hints of a statement's text to the query inside it.
pub(super) fn attach(statement: &mut Statement, hints: &[Hint]) -> Result<()> {
    let [first, ..] = hints else { return Ok(()) };
    if let Statement::Prepare { .. } = statement {
        // Its hints are read when it is executed.
        return Ok(());
    }
    let query = query_of(statement).ok_or_else(|| {
        PlannerError::not_supported(format!("the hint {} in a statement of this kind", first.name))
            .with_hint("hints work where the statement itself runs a query".to_string())
            .with_span(first.span)
    })?;
    attach_to_query(query, hints)
}

/// The query that a statement runs; `None` if it runs none.
pub(super) fn query_of(statement: &mut Statement) -> Option<&mut QueryPlan> {
    match statement {
        Statement::Query(query) => Some(query),
        Statement::Explain { statement, .. } => query_of(statement),
        Statement::Insert(insert) => Some(&mut insert.input),
        Statement::CreateSink(sink) => Some(&mut sink.insert.input),
        Statement::Copy(copy) => Some(&mut copy.input),
        Statement::Modify(modify) => Some(&mut modify.input),
        Statement::CreateTable(create) => create.query.as_mut(),
        Statement::CreateMaterializedView(create) => Some(&mut create.query),
        Statement::CreateView(_)
        | Statement::Prepare { .. }
        | Statement::CreateExternalTable(_)
        | Statement::CreateSchema { .. }
        | Statement::CopyFrom(_)
        | Statement::CreateIndex(_)
        | Statement::CreateFunction { .. }
        | Statement::DropFunction { .. }
        | Statement::Set { .. }
        | Statement::Reset { .. }
        | Statement::Show(_)
        | Statement::Describe(_)
        | Statement::Drop { .. }
        | Statement::StatementSet(_)
        | Statement::Flush
        | Statement::StopJob(_)
        | Statement::DropSink { .. }
        | Statement::Rename { .. }
        | Statement::Execute { .. }
        | Statement::Deallocate { .. } => None,
    }
}

fn attach_to_query(query: &mut QueryPlan, hints: &[Hint]) -> Result<()> {
    let known = relation_names(query)?;
    let mut options = Vec::new();
    for hint in hints {
        if hint.name == OPTIONS {
            options.extend(options_of(hint)?);
            continue;
        }
        if !JOIN_HINTS.contains(&hint.name.as_str()) {
            return Err(PlannerError::not_supported(format!("the hint {}", hint.name))
                .with_hint(format!("the hints that work are {}, {OPTIONS}", JOIN_HINTS.join(", ")))
                .with_span(hint.span));
        }
        let relations = relations_of(&hint.arguments);
        if relations.is_empty() {
            return Err(PlannerError::syntax(format!("the hint {} names no relation", hint.name))
                .with_hint(format!("write {}(relation)", hint.name))
                .with_span(hint.span));
        }
        for relation in relations {
            if !known.contains(&relation) {
                let message = format!(
                    "the hint {} names {relation}, which the query does not read",
                    hint.name
                );
                return Err(PlannerError::name(message)
                    .with_hint(did_you_mean(&relation, known.iter().map(String::as_str)))
                    .with_span(hint.span));
            }
            query.hints.push(RelationHint { name: hint.name.clone(), relation });
        }
    }
    query.options = options.into();
    Ok(())
}

/// The names in a hint's parentheses: `a, b`, `'a'` or `"A"`.
fn relations_of(arguments: &str) -> Vec<String> {
    let words = arguments.split(|c: char| c == ',' || c.is_whitespace());
    let name = |word: &str| match word.strip_prefix('"').and_then(|w| w.strip_suffix('"')) {
        Some(quoted) => quoted.to_string(),
        None => word.trim_matches('\'').to_ascii_lowercase(),
    };
    words.filter(|word| !word.is_empty()).map(name).collect()
}

/// The names of all relations of a query and of the plans it shares.
fn relation_names(query: &QueryPlan) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for plan in std::iter::once(&query.plan).chain(query.shared.iter().map(|s| &s.plan)) {
        plan.apply_with_subqueries(|node| {
            match node {
                LogicalPlan::SubqueryAlias(alias) => names.push(alias.alias.table().to_string()),
                LogicalPlan::TableScan(scan) => names.push(scan.table_name.table().to_string()),
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .map_err(translate)?;
    }
    Ok(names)
}
