//! Joins of two streams, and what is left of a changelog.

use thalweg_optimizer::physical::PhysicalNode;
use thalweg_runtime::operators::OperatorSpec;
use thalweg_runtime::operators::fold::FoldSpec;
use thalweg_runtime::{Error, Result};

use super::Lowering;
use super::fragment::Fragment;

impl Lowering<'_> {
    pub(super) fn stream_join(&mut self, _node: &PhysicalNode) -> Result<Fragment> {
        Err(Error::Unsupported("a join of two streams".into()))
    }

    pub(super) fn fold(&mut self, node: &PhysicalNode) -> Result<Fragment> {
        let mut fragment = self.input(node)?;
        let types = fragment.types(self.columns);
        fragment.push(node.id, OperatorSpec::Fold(FoldSpec { types }));
        Ok(fragment)
    }
}
