//! Orders: sorts and top-n.

use thalweg_optimizer::physical::{ColumnId, PhysicalNode};
use thalweg_optimizer::properties::SortKey;
use thalweg_runtime::Result;
use thalweg_runtime::expr::Expr;
use thalweg_runtime::operators::OperatorSpec;
use thalweg_runtime::operators::sort::SortSpec;
use thalweg_runtime::operators::sort_key_spec::SortKeySpec;
use thalweg_runtime::operators::top_n::TopNSpec;

use super::Lowering;
use super::fragment::Fragment;

impl Lowering<'_> {
    /// Sort keys over columns by position.
    pub(super) fn sort_keys(
        &self,
        keys: &[SortKey],
        columns: &[ColumnId],
    ) -> Result<Vec<SortKeySpec>> {
        let scope = self.scope(columns)?;
        keys.iter()
            .map(|key| {
                Ok(SortKeySpec {
                    expr: Expr::Column(scope.position(key.column)?),
                    descending: key.descending,
                    nulls_first: key.nulls_first,
                })
            })
            .collect()
    }

    pub(super) fn sort(
        &mut self,
        node: &PhysicalNode,
        keys: &[SortKey],
        fetch: Option<usize>,
    ) -> Result<Fragment> {
        let mut fragment = self.input(node)?;
        let spec = SortSpec {
            input: fragment.types(self.columns),
            keys: self.sort_keys(keys, &fragment.columns)?,
            fetch: fetch.map(|f| f as u64),
        };
        fragment.push(node.id, OperatorSpec::Sort(spec));
        Ok(fragment)
    }

    pub(super) fn top_n(
        &mut self,
        node: &PhysicalNode,
        keys: &[SortKey],
        skip: usize,
        fetch: usize,
    ) -> Result<Fragment> {
        let mut fragment = self.input(node)?;
        let spec = TopNSpec {
            input: fragment.types(self.columns),
            keys: self.sort_keys(keys, &fragment.columns)?,
            skip: skip as u64,
            fetch: fetch as u64,
        };
        fragment.push(node.id, OperatorSpec::TopN(spec));
        Ok(fragment)
    }
}
