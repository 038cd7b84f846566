//! Refuses syntax that the library reads and then drops in silence.
//!
//! What is listed here either changes the rows (TABLESAMPLE, FOR SYSTEM_TIME) or promises something (FOR UPDATE); both
//! must be heard of.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, Function, JoinOperator, Query, Select, Spanned, TableFactor, Visit, Visitor, WindowFrame,
    WindowFrameBound, WindowType,
};
use datafusion_sql::sqlparser::tokenizer::Span as TokenSpan;

use crate::error::{PlannerError, Result};
use crate::parse::span_of;

/// Fails at the first construct of the tree that would be dropped.
pub(super) fn refuse<T: Visit>(tree: &T) -> Result<()> {
    match tree.visit(&mut Refuse) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Refuse;

impl Visitor for Refuse {
    type Break = PlannerError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<PlannerError> {
        let span = query.span();
        check(&[
            (!query.locks.is_empty(), "FOR UPDATE or FOR SHARE", span),
            (query.for_clause.is_some(), "FOR XML, JSON or BROWSE", span),
            (query.settings.is_some(), "SETTINGS in a query", span),
            (query.format_clause.is_some(), "FORMAT in a query", span),
        ])
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<PlannerError> {
        let span = select.select_token.0.span;
        check(&[
            (select.top.is_some(), "TOP (write LIMIT)", span),
            (select.prewhere.is_some(), "PREWHERE", span),
            (!select.connect_by.is_empty(), "CONNECT BY", span),
            (!select.cluster_by.is_empty(), "CLUSTER BY", span),
            (!select.distribute_by.is_empty(), "DISTRIBUTE BY", span),
            (!select.sort_by.is_empty(), "SORT BY", span),
            (!select.lateral_views.is_empty(), "LATERAL VIEW", span),
            (select.value_table_mode.is_some(), "SELECT AS STRUCT or AS VALUE", span),
            (
                select.select_modifiers.as_ref().is_some_and(|m| m.is_any_set()),
                "this modifier of SELECT",
                span,
            ),
            (select.into.is_some(), "SELECT INTO (write CREATE TABLE … AS)", span),
        ])?;
        for join in select.from.iter().flat_map(|from| &from.joins) {
            refuse_join(&join.join_operator, join.relation.span())?;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<PlannerError> {
        let span = factor.span();
        match factor {
            TableFactor::Table {
                name: _,
                alias: _,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => check(&[
                (sample.is_some(), "TABLESAMPLE", span),
                (version.is_some(), "FOR SYSTEM_TIME AS OF", span),
                (!with_hints.is_empty(), "a hint WITH (…) after a table", span),
                (!index_hints.is_empty(), "an index hint", span),
                (!partitions.is_empty(), "PARTITION after a table", span),
                (json_path.is_some(), "a JSON path after a table", span),
                (*with_ordinality, "WITH ORDINALITY", span),
                (
                    args.as_ref().is_some_and(|a| a.settings.is_some()),
                    "SETTINGS of a table function",
                    span,
                ),
            ]),
            TableFactor::Derived { sample, .. } => {
                check(&[(sample.is_some(), "TABLESAMPLE", span)])
            }
            TableFactor::Function { with_ordinality, .. } => {
                check(&[(*with_ordinality, "WITH ORDINALITY", span)])
            }
            TableFactor::UNNEST { with_ordinality, with_offset, .. } => check(&[
                (*with_ordinality, "WITH ORDINALITY", span),
                (*with_offset, "WITH OFFSET", span),
            ]),
            TableFactor::NestedJoin { table_with_joins, .. } => {
                for join in &table_with_joins.joins {
                    refuse_join(&join.join_operator, join.relation.span())?;
                }
                ControlFlow::Continue(())
            }
            TableFactor::Pivot { .. } => check(&[(true, "PIVOT", span)]),
            TableFactor::Unpivot { .. } => check(&[(true, "UNPIVOT", span)]),
            TableFactor::MatchRecognize { .. } => check(&[(true, "MATCH_RECOGNIZE", span)]),
            TableFactor::TableFunction { .. } => check(&[(true, "TABLE(…) in FROM", span)]),
            TableFactor::JsonTable { .. } | TableFactor::OpenJsonTable { .. } => {
                check(&[(true, "JSON_TABLE", span)])
            }
            TableFactor::XmlTable { .. } => check(&[(true, "XMLTABLE", span)]),
            TableFactor::SemanticView { .. } => check(&[(true, "SEMANTIC_VIEW", span)]),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<PlannerError> {
        match expr {
            Expr::Function(Function { over: Some(WindowType::WindowSpec(window)), .. }) => {
                match &window.window_frame {
                    Some(frame) => refuse_frame(frame, expr.span()),
                    None => ControlFlow::Continue(()),
                }
            }
            Expr::Collate { .. } => check(&[(true, "COLLATE", expr.span())]),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// A frame that ends before it begins is an error, not an empty frame.
fn refuse_frame(frame: &WindowFrame, span: TokenSpan) -> ControlFlow<PlannerError> {
    use WindowFrameBound::{CurrentRow, Following, Preceding};
    let end = frame.end_bound.as_ref().unwrap_or(&CurrentRow);
    let message = match (&frame.start_bound, end) {
        (Following(None), _) => "a frame cannot begin with UNBOUNDED FOLLOWING",
        (_, Preceding(None)) => "a frame cannot end with UNBOUNDED PRECEDING",
        (CurrentRow, Preceding(_)) => {
            "a frame that begins with the current row cannot end before it"
        }
        (Following(_), Preceding(_) | CurrentRow) => {
            "a frame that begins with a following row cannot end before it"
        }
        _ => return ControlFlow::Continue(()),
    };
    ControlFlow::Break(PlannerError::invalid(message).with_span(span_of(span)))
}

fn refuse_join(operator: &JoinOperator, span: TokenSpan) -> ControlFlow<PlannerError> {
    let what = match operator {
        JoinOperator::CrossApply | JoinOperator::OuterApply => {
            "CROSS APPLY and OUTER APPLY (write JOIN LATERAL)"
        }
        JoinOperator::AsOf { .. } => "ASOF JOIN",
        JoinOperator::StraightJoin(_) => "STRAIGHT_JOIN",
        JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin => {
            "ARRAY JOIN"
        }
        _ => return ControlFlow::Continue(()),
    };
    check(&[(true, what, span)])
}

/// Breaks with the first construct that is there.
fn check(found: &[(bool, &str, TokenSpan)]) -> ControlFlow<PlannerError> {
    match found.iter().find(|(there, ..)| *there) {
        None => ControlFlow::Continue(()),
        Some((_, what, span)) => {
            ControlFlow::Break(PlannerError::not_supported(what).with_span(span_of(*span)))
        }
    }
}
