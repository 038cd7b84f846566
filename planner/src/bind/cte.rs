//! Common table expressions in the syntax tree: scopes, reference counts, and the marks for sharing.
//!
//! The library below knows one flat set of CTE names, refuses to shadow an outer one, and copies a CTE's plan to each
//! reference. Here each CTE gets a name of its own where two would clash, self-referencing ones get a WITH RECURSIVE of
//! their own, and the body of each that is worth sharing is wrapped into a derived table with a marking alias, which
//! `relation` recognises.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion_sql::sqlparser::ast::{
    Cte, CteAsMaterialized, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr,
    TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, VisitMut, VisitorMut,
    WildcardAdditionalOptions, With,
};

use super::names::{as_path, normalized};
use super::relation::sharing_alias;
use super::sharing::Sharing;
use crate::error::{PlannerError, Result};
use crate::parse::span_of;

/// Rewrites the tree in place; `share` says whether CTEs that are referenced more than once are candidates.
pub(super) fn resolve_ctes<T: VisitMut>(tree: &mut T, share: bool) -> Result<()> {
    let mut scopes = Scopes { frames: Vec::new(), ctes: Vec::new(), taken: HashSet::new(), share };
    match tree.visit(&mut scopes) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// One CTE of the statement.
struct CteInfo {
    /// As the query calls it.
    name: String,
    /// As the library is to call it.
    unique: String,
    references: usize,
    recursive: bool,
}

/// One query that is being visited.
struct Frame {
    /// Its CTEs, as indexes into all.
    ctes: Vec<usize>,
    /// How many of their bodies have been visited; the bodies are a query's first child queries.
    done: usize,
    recursive: bool,
    /// Whether this query is the body of a CTE of the frame below.
    is_body: bool,
}

struct Scopes {
    frames: Vec<Frame>,
    ctes: Vec<CteInfo>,
    taken: HashSet<String>,
    share: bool,
}

impl Scopes {
    /// The CTE that a name means here.
    fn find(&self, name: &str) -> Option<usize> {
        self.frames.iter().enumerate().rev().find_map(|(at, frame)| {
            // Inside the body of its n-th CTE a query's first n are visible, and with RECURSIVE the n-th itself.
            let in_body = self.frames.get(at + 1).is_some_and(|next| next.is_body);
            let visible =
                if in_body { frame.done + usize::from(frame.recursive) } else { frame.ctes.len() };
            frame.ctes[..visible].iter().rev().copied().find(|&cte| self.ctes[cte].name == name)
        })
    }

    /// Whether a CTE's own body is being visited.
    fn is_open(&self, cte: usize) -> bool {
        self.frames
            .windows(2)
            .any(|pair| pair[1].is_body && pair[0].ctes.get(pair[0].done) == Some(&cte))
    }

    fn declare(&mut self, ident: &Ident) -> usize {
        let name = normalized(ident);
        let mut unique = name.clone();
        let mut n = 1;
        while !self.taken.insert(unique.clone()) {
            n += 1;
            unique = format!("{name}#{n}");
        }
        self.ctes.push(CteInfo { name, unique, references: 0, recursive: false });
        self.ctes.len() - 1
    }
}

impl VisitorMut for Scopes {
    type Break = PlannerError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<PlannerError> {
        let is_body = self.frames.last().is_some_and(|frame| frame.done < frame.ctes.len());
        let mut frame = Frame { ctes: Vec::new(), done: 0, recursive: false, is_body };
        if let Some(with) = &query.with {
            frame.recursive = with.recursive;
            let mut names = HashSet::new();
            for cte in &with.cte_tables {
                if !names.insert(normalized(&cte.alias.name)) {
                    let error =
                        PlannerError::name(format!("WITH defines {} twice", cte.alias.name));
                    return ControlFlow::Break(error.with_span(span_of(cte.alias.name.span)));
                }
                frame.ctes.push(self.declare(&cte.alias.name));
            }
        }
        self.frames.push(frame);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<PlannerError> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        if as_path(name).is_some() {
            return ControlFlow::Continue(());
        }
        let [ObjectNamePart::Identifier(ident)] = name.0.as_mut_slice() else {
            return ControlFlow::Continue(());
        };
        let Some(cte) = self.find(&normalized(ident)) else {
            return ControlFlow::Continue(());
        };
        if self.is_open(cte) {
            self.ctes[cte].recursive = true;
        } else {
            self.ctes[cte].references += 1;
        }
        let info = &self.ctes[cte];
        if info.unique != info.name {
            let written = std::mem::replace(ident, quoted(&info.unique, ident));
            alias.get_or_insert_with(|| named(written));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<PlannerError> {
        let Some(frame) = self.frames.pop() else {
            return ControlFlow::Continue(());
        };
        if let Some(with) = &mut query.with {
            for (cte, &info) in with.cte_tables.iter_mut().zip(&frame.ctes) {
                let info = &self.ctes[info];
                finish(cte, info, self.share);
            }
            with.recursive = false;
        }
        if frame.is_body
            && let Some(parent) = self.frames.last_mut()
        {
            parent.done += 1;
        }
        ControlFlow::Continue(())
    }
}

/// Renames, isolates and marks one CTE, when all its references have been seen.
fn finish(cte: &mut Cte, info: &CteInfo, share: bool) {
    if info.unique != info.name {
        cte.alias.name = quoted(&info.unique, &cte.alias.name);
    }
    let mut columns = std::mem::take(&mut cte.alias.columns);
    if info.recursive {
        isolate(cte, std::mem::take(&mut columns));
    }
    let sharing = match cte.materialized.take() {
        Some(CteAsMaterialized::Materialized) if info.references > 0 => Some(Sharing::Forced),
        Some(CteAsMaterialized::NotMaterialized) => {
            (info.references > 1).then_some(Sharing::Inlined)
        }
        Some(CteAsMaterialized::Materialized) => None,
        None => (share && info.references > 1).then_some(Sharing::Candidate),
    };
    match sharing {
        None => cte.alias.columns = columns,
        Some(sharing) => {
            let alias = sharing_alias(&info.name, sharing, columns);
            let empty = Box::new(select_all(table(Ident::new(""))));
            let subquery = std::mem::replace(&mut cte.query, empty);
            *cte.query = select_all(TableFactor::Derived {
                lateral: false,
                subquery,
                alias: Some(alias),
                sample: None,
            });
        }
    }
}

/// `name AS (body)` → `name AS (WITH RECURSIVE name(columns) AS (body) SELECT * FROM name)`.
fn isolate(cte: &mut Cte, columns: Vec<TableAliasColumnDef>) {
    let name = cte.alias.name.clone();
    let outer = select_all(table(name.clone()));
    let body = std::mem::replace(&mut cte.query, Box::new(outer));
    let inner = Cte {
        alias: TableAlias { columns, ..named(name) },
        query: body,
        from: None,
        materialized: None,
        closing_paren_token: AttachedToken::empty(),
    };
    cte.query.with =
        Some(With { with_token: AttachedToken::empty(), recursive: true, cte_tables: vec![inner] });
}

fn quoted(name: &str, at: &Ident) -> Ident {
    Ident { value: name.to_string(), quote_style: Some('"'), span: at.span }
}

fn named(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}

fn table(name: Ident) -> TableFactor {
    TableFactor::Table {
        name: ObjectName(vec![ObjectNamePart::Identifier(name)]),
        alias: None,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

/// `SELECT * FROM relation`.
pub(super) fn select_all(relation: TableFactor) -> Query {
    let select = Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())],
        exclude: None,
        into: None,
        from: vec![TableWithJoins { relation, joins: Vec::new() }],
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: datafusion_sql::sqlparser::ast::GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: datafusion_sql::sqlparser::ast::SelectFlavor::Standard,
    };
    query_of(SetExpr::Select(Box::new(select)))
}

/// A query that is nothing but this body.
pub(super) fn query_of(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// `SELECT * FROM name`.
pub(super) fn select_all_from(name: ObjectName) -> Query {
    let mut factor = table(Ident::new(""));
    if let TableFactor::Table { name: empty, .. } = &mut factor {
        *empty = name;
    }
    select_all(factor)
}
