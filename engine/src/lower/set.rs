//! Unions and unnesting.

use datafusion_common::NullHandling;
use thalweg_optimizer::physical::{
    ColumnId, ExchangeMode, PhysicalNode, ShipStrategy, UnnestColumn, UnnestSource,
};
use thalweg_runtime::graph;
use thalweg_runtime::operators::OperatorSpec;
use thalweg_runtime::operators::union::UnionSpec;
use thalweg_runtime::operators::unnest::{UnnestColumnSpec, UnnestSpec};
use thalweg_runtime::{Error, Result};

use super::Lowering;
use super::fragment::{Fragment, exchange_mode};

impl Lowering<'_> {
    pub(super) fn union(
        &mut self,
        node: &PhysicalNode,
        columns: &[Vec<ColumnId>],
    ) -> Result<Fragment> {
        let parallelism = self.parallelism(node);
        let mut inputs = Vec::new();
        for (channel, columns) in node.inputs.iter().zip(columns) {
            let mut fragment = self.node(&channel.node)?;
            fragment.project(columns, self.columns, node.id)?;
            let ship = match (&channel.ship, fragment.parallelism == parallelism) {
                (_, true) => graph::ShipStrategy::Forward,
                (ShipStrategy::Singleton, false) if parallelism == 1 => {
                    graph::ShipStrategy::Singleton
                }
                (_, false) if parallelism == 1 => graph::ShipStrategy::Singleton,
                (_, false) => graph::ShipStrategy::Rebalance,
            };
            let vertex = self.close(fragment, "union input");
            inputs.push((vertex, ship, exchange_mode(channel.mode)));
        }
        if inputs.is_empty() {
            return Err(Error::Internal("a union of nothing".into()));
        }
        let spec = UnionSpec { inputs: inputs.len() };
        let mut fragment = self.reading(inputs, parallelism, node.output.clone());
        fragment.push(node.id, OperatorSpec::Union(spec));
        debug_assert!(
            node.inputs.iter().all(|c| c.mode != ExchangeMode::Blocking || c.reason.is_some())
        );
        Ok(fragment)
    }

    pub(super) fn unnest(
        &mut self,
        node: &PhysicalNode,
        columns: &[UnnestColumn],
        null_handling: &NullHandling,
    ) -> Result<Fragment> {
        let preserve_nulls = match null_handling {
            NullHandling::Drop => false,
            NullHandling::Preserve => true,
            NullHandling::PreserveAndExpandEmpty => {
                return Err(Error::Unsupported("unnesting that keeps empty lists".into()));
            }
        };
        let mut fragment = self.input(node)?;
        let scope = self.scope(&fragment.columns)?;
        let specs = columns
            .iter()
            .map(|column| {
                Ok(match column.source {
                    UnnestSource::Forward(id) => UnnestColumnSpec::Forward(scope.position(id)?),
                    UnnestSource::List { input, depth } => {
                        UnnestColumnSpec::List { input: scope.position(input)?, depth }
                    }
                    UnnestSource::StructField { input, field } => {
                        UnnestColumnSpec::StructField { input: scope.position(input)?, field }
                    }
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let spec = UnnestSpec { input: scope.types(), columns: specs, preserve_nulls };
        fragment.columns = columns.iter().map(|c| c.output).collect();
        fragment.push(node.id, OperatorSpec::Unnest(spec));
        Ok(fragment)
    }
}
