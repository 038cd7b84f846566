//! The exact filter of a scan: all conjuncts, then runtime filters as long as they are worth it.
//!
//! Conjuncts run in order. Once few rows are left, later ones see only those; a conjunct that fails on rows which
//! an earlier one has already dropped is evaluated anew without them, so that `b <> 0 AND a / b > 1` never fails.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{FilterBuilder, filter, prep_null_mask_filter};
use arrow::datatypes::{Schema, SchemaRef};
use thalweg_runtime::batch::Batch;
use thalweg_runtime::expr::{CompiledExpr, Expr, FunctionRegistry, compile};
use thalweg_runtime::operators::OperatorContext;
use thalweg_runtime::shared::runtime_filter::KeyFilter;
use thalweg_runtime::source::SourceSpec;
use thalweg_runtime::{Error, Result};

use super::ReadLayout;

/// Once fewer than one row in this many is left, conjuncts see the remaining rows alone.
const SPARSE_FRACTION: usize = 4;
/// Rows on which a runtime filter is judged.
const TRIAL_ROWS: usize = 64 << 10;
/// A runtime filter that drops less than one row in this many is switched off.
const WORTH_FRACTION: usize = 10;

/// An expression and the columns it reads, by their places in the layout.
struct Conjunct {
    places: Vec<usize>,
    compiled: CompiledExpr,
}

/// A runtime filter's key and how it has done so far.
struct RuntimeConjunct {
    filter: u32,
    key: Conjunct,
    arrived: Option<Arc<dyn KeyFilter>>,
    rows_seen: usize,
    rows_kept: usize,
    off: bool,
}

/// One reader's filter.
pub struct ScanFilter {
    conjuncts: Vec<Conjunct>,
    runtime: Vec<RuntimeConjunct>,
}

impl ScanFilter {
    /// Compiles the filters of a spec.
    pub fn new(
        spec: &SourceSpec,
        layout: &ReadLayout,
        functions: &FunctionRegistry,
    ) -> Result<Self> {
        let conjuncts = spec
            .filters
            .iter()
            .map(|e| Conjunct::new(e, layout, functions))
            .collect::<Result<_>>()?;
        let runtime = spec
            .runtime_filters
            .iter()
            .map(|f| {
                Ok(RuntimeConjunct {
                    filter: f.filter,
                    key: Conjunct::new(&f.key, layout, functions)?,
                    arrived: None,
                    rows_seen: 0,
                    rows_kept: 0,
                    off: false,
                })
            })
            .collect::<Result<_>>()?;
        Ok(ScanFilter { conjuncts, runtime })
    }

    /// Looks for runtime filters that have arrived. True if one of them lets no row through.
    pub fn refresh(&mut self, cx: &OperatorContext<'_>) -> bool {
        for filter in &mut self.runtime {
            if filter.arrived.is_none() {
                filter.arrived = cx.job.filters.get(filter.filter);
            }
        }
        self.runtime.iter().any(|f| f.arrived.as_ref().is_some_and(|k| k.is_empty()))
    }

    /// Whether a filter looks at rows now.
    pub fn is_active(&self) -> bool {
        !self.conjuncts.is_empty() || self.runtime.iter().any(|f| f.arrived.is_some() && !f.off)
    }

    /// The places in the layout that the active filters read.
    pub fn places(&self) -> Vec<usize> {
        let active = self.runtime.iter().filter(|f| f.arrived.is_some() && !f.off).map(|f| &f.key);
        let mut places: Vec<usize> =
            self.conjuncts.iter().chain(active).flat_map(|c| c.places.iter().copied()).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// The places that filters read or may come to read.
    pub fn all_places(&self) -> Vec<usize> {
        let keys = self.runtime.iter().filter(|f| !f.off).map(|f| &f.key);
        self.conjuncts.iter().chain(keys).flat_map(|c| c.places.iter().copied()).collect()
    }

    /// Which of `rows` rows pass; `None` if all do. `column` gives the columns of the layout by place.
    pub fn mask(
        &mut self,
        rows: usize,
        column: &dyn Fn(usize) -> ArrayRef,
    ) -> Result<Option<BooleanBuffer>> {
        let mut mask = Mask { rows, kept: rows, bits: None };
        for conjunct in &self.conjuncts {
            if mask.kept == 0 {
                break;
            }
            mask.narrow(conjunct, column)?;
        }
        for filter in self.runtime.iter_mut().filter(|f| f.arrived.is_some() && !f.off) {
            if mask.kept == 0 {
                break;
            }
            filter.narrow(&mut mask, column)?;
        }
        Ok(mask.bits.filter(|_| mask.kept < rows))
    }
}

impl Conjunct {
    fn new(expr: &Expr, layout: &ReadLayout, functions: &FunctionRegistry) -> Result<Self> {
        let columns = expr.columns();
        let places: Vec<usize> = columns.iter().map(|&c| layout.place(c)).collect();
        let fields: Vec<_> = places.iter().map(|&p| layout.schema.fields()[p].clone()).collect();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let own = |c| columns.binary_search(&c).expect("the expression's own columns");
        let expr = expr.clone().map_columns(&mut { own });
        Ok(Conjunct { places, compiled: compile(&expr, &schema, functions)? })
    }

    /// Its own columns, reduced to the rows of a mask if one is given.
    fn input(
        &self,
        mask: Option<&Mask>,
        rows: usize,
        column: &dyn Fn(usize) -> ArrayRef,
    ) -> Result<Batch> {
        let mut columns: Vec<ArrayRef> = self.places.iter().map(|&p| column(p)).collect();
        let Some((bits, kept)) = mask.and_then(|m| Some((m.bits.as_ref()?, m.kept))) else {
            return Ok(Batch::new(columns, rows));
        };
        let predicate = BooleanArray::new(bits.clone(), None);
        for column in &mut columns {
            *column = filter(column, &predicate)?;
        }
        Ok(Batch::new(columns, kept))
    }
}

/// The rows that are left.
struct Mask {
    rows: usize,
    kept: usize,
    bits: Option<BooleanBuffer>,
}

impl Mask {
    fn is_sparse(&self) -> bool {
        self.bits.is_some() && self.kept * SPARSE_FRACTION < self.rows
    }

    fn narrow(&mut self, conjunct: &Conjunct, column: &dyn Fn(usize) -> ArrayRef) -> Result<()> {
        if !self.is_sparse() {
            let batch = conjunct.input(None, self.rows, column)?;
            match conjunct.compiled.evaluate_predicate(&batch) {
                Ok(truth) => {
                    self.and(true_bits(&truth));
                    return Ok(());
                }
                Err(error) if self.bits.is_none() => return Err(error),
                Err(_) => {}
            }
        }
        let batch = conjunct.input(Some(self), self.rows, column)?;
        let truth = conjunct.compiled.evaluate_predicate(&batch)?;
        self.keep_among(&true_bits(&truth));
        Ok(())
    }

    fn and(&mut self, truth: BooleanBuffer) {
        let bits = match self.bits.take() {
            Some(bits) => &bits & &truth,
            None => truth,
        };
        self.kept = bits.count_set_bits();
        self.bits = Some(bits);
    }

    /// Takes a mask over the rows that are left.
    fn keep_among(&mut self, truth: &BooleanBuffer) {
        let Some(bits) = self.bits.take() else {
            self.and(truth.clone());
            return;
        };
        let mut narrowed = arrow::array::BooleanBufferBuilder::new(self.rows);
        narrowed.append_n(self.rows, false);
        for (i, row) in bits.set_indices().enumerate() {
            if truth.value(i) {
                narrowed.set_bit(row, true);
            }
        }
        self.bits = Some(narrowed.finish());
        self.kept = truth.count_set_bits();
    }
}

impl RuntimeConjunct {
    fn narrow(&mut self, mask: &mut Mask, column: &dyn Fn(usize) -> ArrayRef) -> Result<()> {
        let Some(filter) = &self.arrived else { return Ok(()) };
        let batch = self.key.input(Some(mask), mask.rows, column)?;
        let keys = self.key.compiled.evaluate(&batch)?;
        let matched = filter.may_match(&keys)?;
        if matched.len() != keys.len() {
            return Err(Error::Internal(
                "a runtime filter answered for another number of rows".into(),
            ));
        }
        let seen = mask.kept;
        mask.keep_among(&true_bits(&matched));
        self.rows_seen += seen;
        self.rows_kept += mask.kept;
        if self.rows_seen >= TRIAL_ROWS {
            self.off = (self.rows_seen - self.rows_kept) * WORTH_FRACTION < self.rows_seen;
            (self.rows_seen, self.rows_kept) = (0, 0);
        }
        Ok(())
    }
}

/// NULL counts as false.
fn true_bits(mask: &BooleanArray) -> BooleanBuffer {
    if mask.null_count() == 0 {
        return mask.values().clone();
    }
    prep_null_mask_filter(mask).values().clone()
}

/// The columns reduced to the rows of a mask.
pub fn apply_mask(columns: &mut [ArrayRef], bits: &BooleanBuffer) -> Result<()> {
    let mask = BooleanArray::new(bits.clone(), None);
    let mut builder = FilterBuilder::new(&mask);
    if columns.len() > 1 {
        builder = builder.optimize();
    }
    let predicate = builder.build();
    for column in columns {
        *column = predicate.filter(column)?;
    }
    Ok(())
}
