//! Scans, constant rows, filters, projections and limits.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::Expr as LogicalExpr;
use thalweg_optimizer::physical::{ColumnId, PhysicalNode, PhysicalOp};
use thalweg_runtime::expr::Expr;
use thalweg_runtime::graph;
use thalweg_runtime::operators::OperatorSpec;
use thalweg_runtime::operators::filter::FilterSpec;
use thalweg_runtime::operators::limit::LimitSpec;
use thalweg_runtime::operators::project::ProjectSpec;
use thalweg_runtime::operators::values::ValuesSpec;
use thalweg_runtime::source::RuntimeFilterUse;
use thalweg_runtime::{Error, Result};

use super::Lowering;
use super::fragment::Fragment;
use super::table::Wanted;
use crate::catalog::EngineTable;

impl Lowering<'_> {
    pub(super) fn scan(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let PhysicalOp::Scan {
            source,
            table,
            columns,
            filter_columns,
            filters,
            fetch,
            runtime_filters,
        } = &node.op
        else {
            return Err(Error::Internal("not a scan".into()));
        };
        let engine_table = EngineTable::of(source.as_ref())
            .ok_or_else(|| Error::Internal(format!("{table} is no table of this engine")))?;
        let known: BTreeMap<ColumnId, usize> =
            columns.iter().chain(filter_columns).copied().collect();
        let (ids, positions): (Vec<ColumnId>, Vec<usize>) = known.into_iter().unzip();
        // Filters speak of the table's columns: lower over the known ids, then move to the table's positions.
        let mut scope = self.scope(&ids)?;
        let mut over_table = |expr: &LogicalExpr| -> Result<Expr> {
            Ok(scope.lower(expr)?.map_columns(&mut |i| positions[i]))
        };
        let filters = filters.iter().map(&mut over_table).collect::<Result<Vec<_>>>()?;
        let runtime_filters = runtime_filters
            .iter()
            .map(|f| Ok(RuntimeFilterUse { filter: f.filter_id, key: over_table(&f.key)? }))
            .collect::<Result<Vec<_>>>()?;
        let wanted = Wanted {
            columns: columns.iter().map(|(_, index)| *index).collect(),
            filters,
            runtime_filters,
            fetch: *fetch,
        };
        let ids = columns.iter().map(|(id, _)| *id).collect();
        let mut fragment = Fragment::source(self.parallelism(node), ids);
        for operator in wanted.operators(engine_table, self.options) {
            fragment.push(node.id, operator);
        }
        Ok(fragment)
    }

    pub(super) fn shared_scan(
        &mut self,
        node: &PhysicalNode,
        shared: u32,
        columns: &[(ColumnId, ColumnId)],
    ) -> Result<Fragment> {
        let parallelism = self.parallelism(node);
        let spool = self
            .spools
            .get(&shared)
            .ok_or_else(|| Error::Internal(format!("shared plan {shared} is not known")))?;
        let ship = if spool.parallelism == parallelism {
            graph::ShipStrategy::Forward
        } else if parallelism == 1 {
            graph::ShipStrategy::Singleton
        } else {
            graph::ShipStrategy::Rebalance
        };
        let scope = self.scope(&spool.columns)?;
        let exprs = columns
            .iter()
            .map(|(_, of)| scope.position(*of).map(Expr::Column))
            .collect::<Result<Vec<_>>>()?;
        let spec = ProjectSpec { input: scope.types(), exprs };
        let ids = columns.iter().map(|(id, _)| *id).collect();
        let edge = (spool.vertex, ship, spool.mode);
        let mut fragment = self.reading(vec![edge], parallelism, ids);
        fragment.push(node.id, OperatorSpec::Project(spec));
        Ok(fragment)
    }

    pub(super) fn values(
        &mut self,
        node: &PhysicalNode,
        rows: &[Vec<LogicalExpr>],
    ) -> Result<Fragment> {
        let mut scope = self.scope(&[])?;
        let rows = rows.iter().map(|r| scope.lower_all(r)).collect::<Result<Vec<_>>>()?;
        Ok(self.constant(node, rows))
    }

    pub(super) fn empty(&mut self, node: &PhysicalNode, one_row: bool) -> Result<Fragment> {
        let nulls = || node.output.iter().map(|_| Expr::literal(ScalarValue::Null)).collect();
        let rows = if one_row { vec![nulls()] } else { Vec::new() };
        Ok(self.constant(node, rows))
    }

    fn constant(&self, node: &PhysicalNode, rows: Vec<Vec<Expr>>) -> Fragment {
        let types: Vec<DataType> =
            node.output.iter().map(|c| self.columns.get(*c).data_type.clone()).collect();
        let mut fragment = Fragment::source(self.parallelism(node), node.output.clone());
        fragment.push(node.id, OperatorSpec::Values(ValuesSpec { types, rows }));
        fragment
    }

    pub(super) fn filter(
        &mut self,
        node: &PhysicalNode,
        predicate: &LogicalExpr,
    ) -> Result<Fragment> {
        let mut fragment = self.input(node)?;
        let mut scope = self.scope(&fragment.columns)?;
        let spec = FilterSpec {
            input: scope.types(),
            predicate: scope.lower(predicate)?,
            output: node.output.iter().map(|c| scope.position(*c)).collect::<Result<_>>()?,
        };
        fragment.columns = node.output.clone();
        fragment.push(node.id, OperatorSpec::Filter(spec));
        Ok(fragment)
    }

    pub(super) fn project(
        &mut self,
        node: &PhysicalNode,
        exprs: &[(ColumnId, LogicalExpr)],
    ) -> Result<Fragment> {
        let mut fragment = self.input(node)?;
        let mut scope = self.scope(&fragment.columns)?;
        let spec = ProjectSpec {
            input: scope.types(),
            exprs: scope.lower_all(exprs.iter().map(|(_, e)| e))?,
        };
        fragment.columns = exprs.iter().map(|(id, _)| *id).collect();
        fragment.push(node.id, OperatorSpec::Project(spec));
        Ok(fragment)
    }

    pub(super) fn limit(
        &mut self,
        node: &PhysicalNode,
        skip: usize,
        fetch: Option<usize>,
    ) -> Result<Fragment> {
        let mut fragment = self.input(node)?;
        let spec = LimitSpec { skip: skip as u64, fetch: fetch.map(|f| f as u64) };
        fragment.push(node.id, OperatorSpec::Limit(spec));
        Ok(fragment)
    }
}
