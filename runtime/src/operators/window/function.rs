//! The functions of a window: what each reads, which module computes it.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow_schema::{SchemaRef, SortOptions};

use super::WindowFunctionSpec;
use super::accumulator::AccumulatorFunction;
use super::carried::{Carried, Progress};
use super::extremes::Extreme;
use super::frame::{Frames, WindowFrameSpec};
use super::means::DecimalMean;
use super::navigation::Navigation;
use super::pieces::Chunk;
use super::ranking::Ranking;
use super::session::SessionEdge;
use super::sums::Sum;
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::expr::{CompiledExpr, FunctionRegistry, compile};

/// Which module computes a function.
#[derive(Debug)]
pub(super) enum Kind {
    Ranking(Ranking),
    Navigation(Navigation),
    Session(SessionEdge),
    Sum(Sum),
    Extreme(Extreme),
    DecimalMean(Box<DecimalMean>),
    Accumulator(Box<AccumulatorFunction>),
}

impl Kind {
    fn of(spec: &WindowFunctionSpec) -> Result<Self> {
        let name = spec.function.as_str();
        if let Some(navigation) = Navigation::of(name)
            && !spec.distinct
            && spec.filter.is_none()
        {
            return Ok(Kind::Navigation(navigation));
        }
        if !spec.aggregate {
            if let Some(edge) = SessionEdge::of(name) {
                return Ok(Kind::Session(edge));
            }
            return match Ranking::of(name) {
                Some(ranking) => Ok(Kind::Ranking(ranking)),
                None => Err(Error::Unsupported(format!("the window function {name}"))),
            };
        }
        if let Some(extreme) = Extreme::of(name, &spec.arg_types, &spec.result) {
            return Ok(Kind::Extreme(extreme));
        }
        if !spec.distinct
            && let Some(sum) = Sum::of(name, &spec.arg_types, &spec.result)
        {
            return Ok(Kind::Sum(sum));
        }
        if let Some(mean) = DecimalMean::of(spec)? {
            return Ok(Kind::DecimalMean(Box::new(mean)));
        }
        Ok(Kind::Accumulator(Box::new(AccumulatorFunction::new(spec)?)))
    }

    fn uses_frame(&self) -> bool {
        match self {
            Kind::Ranking(_) | Kind::Session(_) => false,
            Kind::Navigation(navigation) => navigation.uses_frame(),
            Kind::Sum(_) | Kind::Extreme(_) | Kind::DecimalMean(_) | Kind::Accumulator(_) => true,
        }
    }
}

#[derive(Debug)]
pub(super) struct CompiledFunction {
    pub(super) kind: Kind,
    /// Its arguments among the evaluated columns.
    pub(super) args: Range<usize>,
    pub(super) arg_types: Vec<DataType>,
    /// Its filter among them.
    filter: Option<usize>,
    /// Its frame among the distinct ones.
    frame: usize,
    pub(super) ignore_nulls: bool,
    pub(super) result: DataType,
}

impl CompiledFunction {
    /// The filter's values over a chunk.
    pub(super) fn filter<'a>(&self, chunk: &'a Chunk) -> Option<&'a BooleanArray> {
        self.filter.and_then(|f| chunk.columns[f].as_boolean_opt())
    }
}

/// All functions of a window.
#[derive(Debug)]
pub(super) struct CompiledFunctions {
    functions: Vec<CompiledFunction>,
    inputs: Vec<CompiledExpr>,
    frames: Vec<WindowFrameSpec>,
    /// Whether the first order key is one of the evaluated columns, the last one.
    range_key: bool,
    direction: SortOptions,
}

impl CompiledFunctions {
    /// Compiles arguments and filters; `direction` is that of the first order key.
    pub fn new(
        specs: &[WindowFunctionSpec],
        direction: SortOptions,
        schema: &SchemaRef,
        registry: &FunctionRegistry,
    ) -> Result<Self> {
        let (mut functions, mut inputs, mut frames) = (Vec::new(), Vec::new(), Vec::new());
        for spec in specs {
            let first = inputs.len();
            for arg in &spec.args {
                inputs.push(compile(arg, schema, registry)?);
            }
            let args = first..inputs.len();
            let filter = match &spec.filter {
                Some(filter) => {
                    inputs.push(compile(filter, schema, registry)?);
                    Some(args.end)
                }
                None => None,
            };
            let frame = frames.iter().position(|f| f == &spec.frame).unwrap_or_else(|| {
                frames.push(spec.frame.clone());
                frames.len() - 1
            });
            functions.push(CompiledFunction {
                kind: Kind::of(spec)?,
                args,
                arg_types: spec.arg_types.clone(),
                filter,
                frame,
                ignore_nulls: spec.ignore_nulls,
                result: spec.result.clone(),
            });
        }
        let range_key = frames.iter().any(WindowFrameSpec::needs_range_key);
        Ok(CompiledFunctions { functions, inputs, frames, range_key, direction })
    }

    /// What the functions read of a batch.
    pub fn evaluate_inputs(
        &self,
        batch: &Batch,
        range_key: Option<&ArrayRef>,
    ) -> Result<Vec<ArrayRef>> {
        let mut columns =
            self.inputs.iter().map(|e| e.evaluate(batch)).collect::<Result<Vec<_>>>()?;
        if self.range_key {
            let key = range_key.ok_or_else(|| Error::user("a RANGE offset needs one sort key"))?;
            columns.push(key.clone());
        }
        Ok(columns)
    }

    /// One column for each function over a chunk.
    pub fn evaluate(&self, chunk: &Chunk) -> Result<Vec<ArrayRef>> {
        self.evaluate_each(chunk, |_, function, frames| self.evaluate_one(function, chunk, frames))
    }

    /// One column for each function over a chunk, whose partitions had other rows before.
    pub fn evaluate_carried(
        &self,
        chunk: &Chunk,
        carried: &mut Carried,
        progress: &[Progress],
    ) -> Result<Vec<ArrayRef>> {
        let mut step = carried.step(chunk, progress)?;
        let results = self.evaluate_each(chunk, |at, function, frames| {
            match step.evaluate(at, function, frames)? {
                Some(values) => Ok(values),
                None => step.count_on(at, self.evaluate_one(function, chunk, frames)?),
            }
        })?;
        step.finish()?;
        Ok(results)
    }

    /// One column for each function, by what computes it, which is given its number and the frames of all rows.
    fn evaluate_each(
        &self,
        chunk: &Chunk,
        mut evaluate: impl FnMut(usize, &CompiledFunction, Option<&Frames>) -> Result<ArrayRef>,
    ) -> Result<Vec<ArrayRef>> {
        let mut frames: Vec<Option<Frames>> = self.frames.iter().map(|_| None).collect();
        let mut results = Vec::with_capacity(self.functions.len());
        for (at, function) in self.functions.iter().enumerate() {
            let frame = &mut frames[function.frame];
            if function.kind.uses_frame() && frame.is_none() {
                *frame = Some(self.frames_of(function.frame, chunk)?);
            }
            let array = evaluate(at, function, frame.as_ref())?;
            results.push(match array.data_type() == &function.result {
                true => array,
                false => cast(&array, &function.result)?,
            });
        }
        Ok(results)
    }

    /// The functions, with whether all frames of each begin with their partition.
    pub fn each(&self) -> impl Iterator<Item = (&CompiledFunction, bool)> {
        self.functions.iter().map(|f| (f, self.frames[f.frame].expands()))
    }

    fn frames_of(&self, frame: usize, chunk: &Chunk) -> Result<Frames> {
        let key = chunk.columns.last().filter(|_| self.range_key);
        Frames::new(&self.frames[frame], chunk, key.map(|key| (key, self.direction)))
    }

    fn evaluate_one(
        &self,
        function: &CompiledFunction,
        chunk: &Chunk,
        frames: Option<&Frames>,
    ) -> Result<ArrayRef> {
        let args = &chunk.columns[function.args.clone()];
        let filter = function.filter(chunk);
        let expands = self.frames[function.frame].expands();
        let frames =
            || frames.ok_or_else(|| Error::Internal("a function without its frames".into()));
        let result = &function.result;
        match &function.kind {
            Kind::Ranking(ranking) => ranking.evaluate(chunk, args),
            Kind::Session(edge) => edge.evaluate(chunk, args),
            Kind::Navigation(navigation) if navigation.uses_frame() => {
                navigation.in_frame(frames()?, args, function.ignore_nulls, None)
            }
            Kind::Navigation(navigation) => navigation.shift(chunk, args, function.ignore_nulls),
            Kind::Sum(sum) => sum.evaluate(frames()?, args, filter, expands, result),
            Kind::Extreme(extreme) => match args {
                [values] => extreme.evaluate(frames()?, values, filter, None),
                _ => Err(Error::Internal("min and max have one argument".into())),
            },
            Kind::DecimalMean(mean) => mean.evaluate(frames()?, args, filter, expands, result),
            Kind::Accumulator(function) => {
                function.evaluate(frames()?, args, filter, expands, result)
            }
        }
    }
}
