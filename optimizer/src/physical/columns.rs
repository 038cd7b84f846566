//! Query-wide column identity.
//!
//! Invariant: an id names one column of values for the whole query. A renamed or merely forwarded column keeps its
//! id; a computed, aggregated, united or null-extending-by-grouping-set column gets a new one. Two scans of one table
//! never share ids.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::Column;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::Expr;

/// The identity of a column within one query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnId(pub u32);

impl ColumnId {
    /// The column as an expression: an unqualified column named `#n`.
    pub fn expr(self) -> Expr {
        Expr::Column(Column::new_unqualified(self.to_string()))
    }

    /// Reads an id back from a column made by [`ColumnId::expr`]; `None` for any other column.
    pub fn from_column(column: &Column) -> Option<Self> {
        if column.relation.is_some() {
            return None;
        }
        column.name.strip_prefix('#')?.parse().ok().map(Self)
    }

    /// Reads an id from an expression that is nothing but a column.
    pub fn from_expr(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Column(column) => Self::from_column(column),
            _ => None,
        }
    }

    /// All ids an expression refers to, in ascending order.
    pub fn referenced(expr: &Expr) -> BTreeSet<Self> {
        let mut ids = BTreeSet::new();
        Self::collect(expr, &mut ids);
        ids
    }

    /// Adds all ids an expression refers to.
    pub fn collect(expr: &Expr, into: &mut BTreeSet<Self>) {
        let visited = expr.apply(|node| {
            if let Some(id) = Self::from_expr(node) {
                into.insert(id);
            }
            Ok(TreeNodeRecursion::Continue)
        });
        visited.expect("the visitor never fails");
    }
}

impl fmt::Display for ColumnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// What is known of one column: its display name and its type.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnInfo {
    /// The identity.
    pub id: ColumnId,
    /// A name for people; not unique.
    pub name: String,
    /// The arrow type.
    pub data_type: DataType,
    /// Whether NULL can occur.
    pub nullable: bool,
}

impl ColumnInfo {
    /// The arrow field under the name by which expressions refer to the column (`#n`).
    pub fn field(&self) -> FieldRef {
        Field::new(self.id.to_string(), self.data_type.clone(), self.nullable).into()
    }
}

/// All columns of a query, by id. Ids are dense.
#[derive(Debug, Clone, Default)]
pub struct ColumnTable {
    columns: Vec<ColumnInfo>,
    /// Where columns came to be; shorter than the columns, or empty, where nobody asked.
    places: Vec<Arc<[String]>>,
    /// The relations around the place being bound, outermost first.
    around: Vec<String>,
    tracks_places: bool,
}

impl ColumnTable {
    /// Registers a new column and returns its id.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        data_type: DataType,
        nullable: bool,
    ) -> ColumnId {
        let id = ColumnId(
            u32::try_from(self.columns.len()).expect("fewer than 2^32 columns in a query"),
        );
        self.columns.push(ColumnInfo { id, name: name.into(), data_type, nullable });
        if self.tracks_places {
            self.places.push(self.around.as_slice().into());
        }
        id
    }

    /// Begins, with the first column, or ends to remember where columns come to be.
    pub fn track_places(&mut self, tracks: bool) {
        self.tracks_places = tracks;
    }

    /// The columns that follow come to be inside a relation, until [`ColumnTable::leave`].
    pub fn enter(&mut self, relation: &str) {
        if self.tracks_places {
            self.around.push(relation.to_owned());
        }
    }

    /// The end of the relation that was entered last.
    pub fn leave(&mut self) {
        self.around.pop();
    }

    /// The relations inside which a column came to be, outermost first; `None` if that is not known.
    pub fn place(&self, id: ColumnId) -> Option<&[String]> {
        self.places.get(id.0 as usize).map(|place| &**place)
    }

    /// The column with that id. Ids come from this table, so that the lookup cannot fail.
    pub fn get(&self, id: ColumnId) -> &ColumnInfo {
        &self.columns[id.0 as usize]
    }

    /// Notes that NULL can occur, as after an outer join.
    pub fn set_nullable(&mut self, id: ColumnId) {
        self.columns[id.0 as usize].nullable = true;
    }

    /// All columns in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &ColumnInfo> {
        self.columns.iter()
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether no column was registered.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }
}
