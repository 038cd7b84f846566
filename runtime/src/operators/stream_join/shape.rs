//! What a stream join keeps of each side and emits, compiled from its description.
//!
//! A side keeps its key columns, and of the others those that come out or that the filter reads: rows that agree in
//! them are one row with a count where rows may be withdrawn. Invariant: fields are without dictionaries; both sides
//! have as many keys, of types that are kept in the same way.

use arrow::array::ArrayRef;
use arrow_schema::DataType;

use super::expiry::Expiry;
use super::spec::{StreamJoinColumn, StreamJoinKind, StreamJoinSide, StreamJoinSpec};
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::expr::{CompiledExpr, Expr, compile_all, positional_schema};
use crate::job::JobContext;
use crate::memory::Reservation;
use crate::operators::join_kind::JoinColumn;
use crate::operators::join_output::{JoinFilter, JoinOutput};
use crate::rows::{unpack, unpacked_type};
use crate::state::{RowMultiset, RowMultisetOptions};

/// What is emitted of rows by whether they have a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alone {
    /// Rows without a match, beside NULLs.
    Outer,
    /// Rows with a match.
    Semi,
    /// Rows without a match.
    Anti,
    /// All rows with a mark.
    Mark,
}

impl Alone {
    /// Whether a row comes out.
    pub(super) fn wants(self, matched: bool) -> bool {
        match self {
            Alone::Outer | Alone::Anti => !matched,
            Alone::Semi => matched,
            Alone::Mark => true,
        }
    }
}

/// A field that a side keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Column(usize),
    /// A key that is no column.
    Key(usize),
}

/// One side, compiled.
pub(super) struct SideShape {
    fields: Vec<Field>,
    keys: Vec<CompiledExpr>,
    /// Types of the fields.
    pub(super) types: Vec<DataType>,
    /// The fields that are the keys.
    pub(super) key_fields: Vec<usize>,
    /// Whether equal rows are counted.
    counted: bool,
    /// Whether rows may be withdrawn.
    pub(super) withdrawn: bool,
    /// Numbers beside each row.
    numbers: usize,
    /// When rows are forgotten.
    pub(super) expiry: Option<Expiry>,
    /// How long rows are kept after they came, where nothing else tells.
    pub(super) ttl: Option<Ttl>,
}

/// How long rows are kept, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ttl {
    pub(super) length_us: i64,
    /// The number beside each row that says when it came.
    pub(super) slot: usize,
}

/// The number of matches of a row, where it is kept beside the row.
pub(super) const MATCHES: usize = 0;
/// The same before the batch in hand.
pub(super) const MATCHES_BEFORE: usize = 1;

/// The join, compiled.
pub(super) struct Shape {
    /// Whether pairs come out.
    pub(super) pairs: bool,
    /// What comes out of the rows of tracked sides alone.
    pub(super) alone: Alone,
    /// By side, whether it matters if its rows have a match.
    pub(super) tracked: [bool; 2],
    /// Whether matches are counted beside each row of a tracked side; else the rows of its key on the other side tell.
    pub(super) by_row: bool,
    /// Whether what rows without a match emit leaves when they expire, and never before.
    pub(super) deferred: bool,
    /// Whether rows of a tracked side that have a match need not be kept, as that never changes.
    pub(super) settled_by_match: bool,
    /// The side that is looked up, if the other one alone makes output.
    pub(super) lookup: Option<usize>,
    /// Whether a NULL key is a key like any other.
    pub(super) null_equal: bool,
    /// See [`StreamJoinSpec::null_aware`].
    pub(super) null_aware: bool,
    /// The sides by port.
    pub(super) sides: [SideShape; 2],
    /// The output, by the side whose batch is joined (as the probe side).
    pub(super) outputs: [JoinOutput; 2],
    /// The filter, likewise.
    pub(super) filters: [Option<JoinFilter>; 2],
}

impl Shape {
    /// Compiles keys, filter and output.
    ///
    /// # Errors
    /// `Internal` for a description that contradicts itself, `Unsupported` for types that cannot be kept.
    pub(super) fn new(spec: &StreamJoinSpec, job: &JobContext) -> Result<Self> {
        let (pairs, tracked, alone) = parts(spec.kind);
        check(spec, pairs, alone)?;
        let expires = [&spec.left, &spec.right].map(|side| side.expiry.is_some());
        let appended = !spec.left.withdrawn && !spec.right.withdrawn;
        // A NOT IN must know of its whole list, and who looks others up of all of them.
        let ttl_us = match spec.null_aware || spec.lookup.is_some() {
            true => 0,
            false => job.options.state_ttl_us,
        };
        let forgets = expires.contains(&true) || ttl_us > 0;
        let by_row = tracked.contains(&true) && (spec.filter.is_some() || forgets);
        let sides = [
            SideShape::new(spec, 0, by_row && tracked[0], ttl_us, job)?,
            SideShape::new(spec, 1, by_row && tracked[1], ttl_us, job)?,
        ];
        let output = |probe: usize| {
            let column = |column: &StreamJoinColumn| sides_column(&sides, probe, *column);
            let columns = spec.output.iter().map(column).collect::<Result<Vec<_>>>()?;
            JoinOutput::new(&columns, &sides[probe].types, &sides[1 - probe].types)
        };
        let filter = |probe: usize| {
            let Some(filter) = &spec.filter else { return Ok(None) };
            let filter = filter_over_fields(filter, &sides, probe, spec.left.types.len())?;
            let (own, other) = (&sides[probe].types, &sides[1 - probe].types);
            JoinFilter::new(&filter, own, other, &job.functions).map(Some)
        };
        Ok(Shape {
            pairs,
            alone,
            tracked,
            by_row,
            deferred: spec.patient
                && expires == [true, true]
                && appended
                && tracked.contains(&true),
            settled_by_match: appended && !pairs && !by_row && !spec.null_aware,
            lookup: spec.lookup.map(usize::from),
            null_equal: spec.null_equal,
            null_aware: spec.null_aware,
            outputs: [output(0)?, output(1)?],
            filters: [filter(0)?, filter(1)?],
            sides,
        })
    }

    /// Whether pairs have to be listed when a batch of either side comes.
    pub(super) fn lists_pairs(&self) -> bool {
        self.pairs || self.by_row
    }
}

/// Whether pairs come out, which sides' matches matter, and what for.
fn parts(kind: StreamJoinKind) -> (bool, [bool; 2], Alone) {
    match kind {
        StreamJoinKind::Inner => (true, [false, false], Alone::Outer),
        StreamJoinKind::Left => (true, [true, false], Alone::Outer),
        StreamJoinKind::Right => (true, [false, true], Alone::Outer),
        StreamJoinKind::Full => (true, [true, true], Alone::Outer),
        StreamJoinKind::LeftSemi => (false, [true, false], Alone::Semi),
        StreamJoinKind::LeftAnti => (false, [true, false], Alone::Anti),
        StreamJoinKind::LeftMark => (false, [true, false], Alone::Mark),
        StreamJoinKind::RightSemi => (false, [false, true], Alone::Semi),
        StreamJoinKind::RightAnti => (false, [false, true], Alone::Anti),
        StreamJoinKind::RightMark => (false, [false, true], Alone::Mark),
    }
}

fn check(spec: &StreamJoinSpec, pairs: bool, alone: Alone) -> Result<()> {
    let wrong = |what: &str| Err(Error::Internal(format!("a stream join {what}")));
    if spec.left.keys.len() != spec.right.keys.len() {
        return wrong("with different numbers of keys");
    }
    let plain = spec.filter.is_none() && !expires(spec) && spec.left.keys.len() == 1;
    if spec.null_aware && (pairs || alone != Alone::Anti || !plain) {
        return wrong("that minds NULLs is an anti join of one key without a filter and an expiry");
    }
    let looks_up = match spec.lookup {
        None => true,
        Some(0) => matches!(spec.kind, StreamJoinKind::Inner | StreamJoinKind::Right),
        Some(_) => matches!(spec.kind, StreamJoinKind::Inner | StreamJoinKind::Left),
    };
    if !looks_up || (spec.lookup.is_some() && expires(spec)) {
        return wrong("that looks a side up gives rows of the other side, for ever");
    }
    if alone != Alone::Mark && spec.output.contains(&StreamJoinColumn::Mark) {
        return wrong("without marks emits a mark");
    }
    Ok(())
}

fn expires(spec: &StreamJoinSpec) -> bool {
    spec.left.expiry.is_some() || spec.right.expiry.is_some()
}

/// An output column, as a field of the side that is joined or of the other one.
fn sides_column(
    sides: &[SideShape; 2],
    probe: usize,
    column: StreamJoinColumn,
) -> Result<JoinColumn> {
    let (side, column) = match column {
        StreamJoinColumn::Left(column) => (0, column),
        StreamJoinColumn::Right(column) => (1, column),
        StreamJoinColumn::Mark => return Ok(JoinColumn::Mark),
    };
    let field = sides[side].position(column)?;
    Ok(if side == probe { JoinColumn::Probe(field) } else { JoinColumn::Build(field) })
}

/// The filter over the fields of the side that is joined, then those of the other one.
fn filter_over_fields(
    filter: &Expr,
    sides: &[SideShape; 2],
    probe: usize,
    left: usize,
) -> Result<Expr> {
    let own = sides[probe].types.len();
    let field = |column: usize| {
        let (side, column) = if column < left { (0, column) } else { (1, column - left) };
        let position = sides[side].position(column)?;
        Ok(if side == probe { position } else { own + position })
    };
    let columns = filter.columns();
    let fields = columns.iter().map(|&column| field(column)).collect::<Result<Vec<usize>>>()?;
    Ok(filter.clone().map_columns(&mut |column| {
        let at = columns.binary_search(&column).expect("an expression lists all its columns");
        fields[at]
    }))
}

/// The columns of a side that come out or that the filter reads.
fn wanted_columns(spec: &StreamJoinSpec, side: usize) -> Vec<usize> {
    let output = spec.output.iter().filter_map(|column| match (column, side) {
        (StreamJoinColumn::Left(i), 0) | (StreamJoinColumn::Right(i), 1) => Some(*i),
        (StreamJoinColumn::Left(_) | StreamJoinColumn::Right(_) | StreamJoinColumn::Mark, _) => {
            None
        }
    });
    let left = spec.left.types.len();
    let read = spec.filter.iter().flat_map(Expr::columns).filter_map(|column| match side {
        0 => (column < left).then_some(column),
        _ => column.checked_sub(left),
    });
    let mut wanted: Vec<usize> = output.chain(read).collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

impl SideShape {
    fn new(
        spec: &StreamJoinSpec,
        side: usize,
        counts_matches: bool,
        ttl_us: u64,
        job: &JobContext,
    ) -> Result<Self> {
        let own: &StreamJoinSide = if side == 0 { &spec.left } else { &spec.right };
        let schema = positional_schema(&own.types);
        let keys = compile_all(&own.keys, &schema, &job.functions)?;
        let mut fields: Vec<Field> = Vec::new();
        let mut add = |field: Field| {
            let at = fields.iter().position(|f| *f == field);
            at.unwrap_or_else(|| {
                fields.push(field);
                fields.len() - 1
            })
        };
        let key_fields: Vec<usize> = keys
            .iter()
            .enumerate()
            .map(|(i, key)| add(key.as_column().map_or(Field::Key(i), Field::Column)))
            .collect();
        for column in wanted_columns(spec, side) {
            add(Field::Column(column));
        }
        if let Some(expiry) = own.expiry.as_ref().filter(|_| own.withdrawn) {
            // Rows that are one row must expire together.
            for column in expiry.time.columns() {
                add(Field::Column(column));
            }
        }
        let types = fields
            .iter()
            .map(|field| match field {
                Field::Column(i) => own.types.get(*i).map(unpacked_type),
                Field::Key(i) => Some(unpacked_type(keys[*i].data_type())),
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| Error::Internal("a stream join of a column it does not have".into()))?;
        let first_number = if counts_matches { 2 } else { 0 };
        let expiry = own.expiry.as_ref().map(|e| Expiry::new(e, &schema, first_number, job));
        let looks_up = spec.lookup.is_some_and(|lookup| usize::from(lookup) != side);
        let ttl = (ttl_us > 0 && own.expiry.is_none()).then(|| Ttl {
            length_us: i64::try_from(ttl_us).unwrap_or(i64::MAX),
            slot: first_number,
        });
        let keys_alone = (0..fields.len()).all(|field| key_fields.contains(&field));
        Ok(SideShape {
            // Rows that look others up are not kept.
            counted: !looks_up && (own.withdrawn || (keys_alone && own.expiry.is_none())),
            withdrawn: own.withdrawn,
            numbers: first_number + usize::from(own.expiry.is_some() || ttl.is_some()),
            expiry: expiry.transpose()?,
            ttl,
            fields,
            keys,
            types,
            key_fields,
        })
    }

    /// The number beside each row by which it is forgotten.
    pub(super) fn time_slot(&self) -> Option<usize> {
        let expiry = self.expiry.as_ref().map(|expiry| expiry.slot);
        expiry.or(self.ttl.map(|ttl| ttl.slot))
    }

    fn position(&self, column: usize) -> Result<usize> {
        self.fields
            .iter()
            .position(|field| *field == Field::Column(column))
            .ok_or_else(|| Error::Internal("a stream join emits a column it does not keep".into()))
    }

    /// Empty state for the side.
    pub(super) fn state(&self, reservation: &Reservation) -> Result<RowMultiset> {
        let options = RowMultisetOptions {
            types: &self.types,
            keys: &self.key_fields,
            withdrawn: self.counted,
            forgetful: self.expiry.is_some() || self.ttl.is_some(),
            slots: self.numbers,
            operator: "StreamJoin",
        };
        RowMultiset::new(&options, reservation)
    }

    /// The fields of a compact batch, with its kinds.
    pub(super) fn fields_of(&self, batch: &Batch) -> Result<Batch> {
        let columns = self
            .fields
            .iter()
            .map(|field| match field {
                Field::Column(i) => unpack(batch.column(*i)),
                Field::Key(i) => unpack(&self.keys[*i].evaluate(batch)?),
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(batch.with_columns(columns))
    }

    /// The key columns among the fields of a batch.
    pub(super) fn keys_of(&self, fields: &Batch) -> Vec<ArrayRef> {
        self.key_fields.iter().map(|&field| fields.column(field).clone()).collect()
    }
}
