//! Table sources of the planner's own: a shared plan's rows, and a recursive query's working table.

use std::borrow::Cow;

use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_expr::{Expr, LogicalPlan, TableProviderFilterPushDown, TableSource, TableType};

use crate::statement::SharedId;

/// The rows of a [`SharedPlan`](crate::SharedPlan) of the same statement. Scans of it may carry a projection and
/// filters, which the reader evaluates.
#[derive(Debug, Clone)]
pub struct SharedSource {
    id: SharedId,
    name: String,
    schema: SchemaRef,
}

impl SharedSource {
    pub(crate) fn new(id: SharedId, name: String, schema: SchemaRef) -> Self {
        SharedSource { id, name, schema }
    }

    /// Which plan.
    pub fn id(&self) -> SharedId {
        self.id
    }

    /// The name the user gave it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl TableSource for SharedSource {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }
}

/// The rows that the previous step of a recursive query added. It is scanned only inside the recursive term of the
/// `LogicalPlan::RecursiveQuery` of the same name.
#[derive(Debug, Clone)]
pub struct WorkTableSource {
    name: String,
    schema: SchemaRef,
}

impl WorkTableSource {
    pub(crate) fn new(name: String, schema: SchemaRef) -> Self {
        WorkTableSource { name, schema }
    }

    /// The name of the recursive query.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl TableSource for WorkTableSource {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }
}

/// A view: a bound plan under the view's name. Scans of it are replaced by the plan while binding.
pub(super) struct ViewSource {
    plan: LogicalPlan,
}

impl ViewSource {
    pub(super) fn new(plan: LogicalPlan) -> Self {
        ViewSource { plan }
    }
}

impl TableSource for ViewSource {
    fn schema(&self) -> SchemaRef {
        self.plan.schema().inner().clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_logical_plan(&'_ self) -> Option<Cow<'_, LogicalPlan>> {
        Some(Cow::Borrowed(&self.plan))
    }
}
