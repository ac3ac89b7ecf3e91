//! Running kernels on simulated cores.
//!
//! Every core runs the whole function with its own coordinates; a core that needs partial results
//! of others waits until they have contributed. Cores take turns in the order of their numbers, so
//! that a run has one outcome.
//!
//! # Numbers
//! Floats of every type are held as float32 and rounded once by each operation. A product of
//! matrices adds up in float32, in the order of the inner dimension, is rounded once, and is then
//! added to the output. `linalg.reduce` combines halves, `x[0..h]` with `x[h..2h]`, keeps an odd
//! last element for the next round, and rounds after each round; of several dimensions the last is
//! folded first, and the initial value is combined last. A `linalg.generic` whose body ends in a
//! sum, product, maximum or minimum with its output does the same. `math.rsqrt` rounds the square
//! root, then its reciprocal. In a reduction between cores, core c begins with its own partial and
//! folds those of c - 1, c - 2, ... around the ring of all cores.
//!
//! # Two engines
//! `plan` runs most kernels: what does not depend on the data is computed once, before the first
//! core begins. The interpreter of this folder runs the rest, and is the definition that the plan is
//! tested against.
//!
//! # Memory
//! Arrays are placed in one flat memory, from 0x10000 on, each at a multiple of 128 bytes; a
//! pointer is the index of its first element. The element type of an array has to be that of the
//! kernel's views of it: others are refused, and a caller that reads files converts them. Every
//! tile that is alive is charged to the scratchpad of its core, in whole sticks of 128 bytes.
//!
//! # Limits
//! A run has a budget of steps and of bytes ([`KtirRun::with_max_steps`],
//! [`KtirRun::with_max_bytes`]) and ends with a fault that names the operation and the core which
//! would exceed it.
//!
//! # Cost
//! A load or store is charged for the sticks it touches, a float operation for its elements, an
//! integer operation only if it works on tiles, and a reduction for its combiner on every element.
//! The work of a core is a [`CoreWork`](zellige_machine::account::CoreWork) of the device model,
//! which the hardware preset turns into cycles. The model `ktir` sends a tile around the whole ring
//! of the grid; the model `card` around its group.

mod access;
mod body;
mod budget;
mod core;
mod cost;
mod error;
mod exchange;
mod flow;
mod memory;
mod plan;
mod pointwise;
mod report;
mod step;
mod tiles;
mod value;

pub use budget::{DEFAULT_BYTES, DEFAULT_STEPS, KtirStopFlag};
pub use error::{KtirFault, KtirRunError, WaitingCore};
pub use report::{KtirCoreCycles, KtirFigures, KtirPipeline, KtirRunOutcome};

use crate::ir::{KtirFunction, KtirModule};
use crate::types::{KtirElem, KtirType};
use budget::KtirRunBudget;
use core::{KtirCore, KtirRunProgram};
use exchange::PartialExchange;
use memory::KtirMemory;
use plan::{KtirPlan, PlanLimits};
use std::collections::BTreeMap;
use std::rc::Rc;
use value::KtirRunValue;
use zellige_machine::{Hardware, Key};

/// An array of a kernel: elements in row-major order, little endian.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KtirArray {
    /// The type of its elements.
    pub elem: KtirElem,
    /// Its shape.
    pub shape: Vec<i64>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A number of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KtirScalar {
    /// A whole number.
    Int(i64),
    /// A float.
    Float(f64),
}

/// A run that is being prepared.
///
/// ```
/// use zellige_ktir::{KtirArray, KtirElem, KtirRun, text};
/// let module = text::parse("func.func @f(%x: index) {
///   %c = arith.constant 1 : index
///   %v = ktdp.construct_memory_view %x, sizes: [2], strides: [1] : memref<2xf32>
///   %a = memref.load %v[%c] : memref<2xf32>
///   %b = arith.addf %a, %a : f32
///   memref.store %b, %v[%c] : memref<2xf32>
/// }").unwrap();
/// let bytes = [1.0_f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
/// let x = KtirArray { elem: KtirElem::F32, shape: vec![2], bytes };
/// let outcome = KtirRun::new(&module, "f").with_array("x", x).execute_kernel().unwrap();
/// assert_eq!(outcome.arrays["x"].bytes[4..], 4.0_f32.to_le_bytes());
/// ```
#[derive(Debug)]
pub struct KtirRun<'m> {
    module: &'m KtirModule,
    kernel: String,
    arrays: BTreeMap<String, KtirArray>,
    scalars: BTreeMap<String, KtirScalar>,
    hardware: Hardware,
    spare: usize,
    traced: usize,
    max_steps: u64,
    max_bytes: u64,
    threads: usize,
    plain: bool,
    pipeline: KtirPipeline,
    compat: bool,
    stop: KtirStopFlag,
}

impl<'m> KtirRun<'m> {
    /// Prepares a run of a kernel on the hardware preset `ktir`.
    pub fn new(module: &'m KtirModule, kernel: &str) -> KtirRun<'m> {
        KtirRun {
            module,
            kernel: kernel.into(),
            arrays: BTreeMap::new(),
            scalars: BTreeMap::new(),
            hardware: Hardware::ktir_preset(),
            spare: 0,
            traced: 0,
            max_steps: DEFAULT_STEPS,
            max_bytes: DEFAULT_BYTES,
            threads: zellige_host::available_cores(),
            plain: false,
            pipeline: KtirPipeline::Serial,
            compat: false,
            stop: KtirStopFlag::default(),
        }
    }

    /// Passes an array for an argument.
    pub fn with_array(mut self, name: &str, array: KtirArray) -> KtirRun<'m> {
        self.arrays.insert(name.into(), array);
        self
    }

    /// Passes a number for an argument.
    pub fn with_scalar(mut self, name: &str, scalar: KtirScalar) -> KtirRun<'m> {
        self.scalars.insert(name.into(), scalar);
        self
    }

    /// Chooses other hardware.
    pub fn with_hardware(mut self, hardware: Hardware) -> KtirRun<'m> {
        self.hardware = hardware;
        self
    }

    /// Makes the first `bytes` bytes of memory usable, for kernels that use fixed addresses.
    pub fn with_memory_bytes(mut self, bytes: usize) -> KtirRun<'m> {
        self.spare = bytes;
        self
    }

    /// Allows at most this many steps on all cores together ([`DEFAULT_STEPS`] by default). A step
    /// is one executed operation, or 64 elements that an operation works on.
    pub fn with_max_steps(mut self, steps: u64) -> KtirRun<'m> {
        self.max_steps = steps;
        self
    }

    /// Allows at most this many bytes for arrays, tiles and everything else that grows with the
    /// kernel ([`DEFAULT_BYTES`] by default).
    pub fn with_max_bytes(mut self, bytes: u64) -> KtirRun<'m> {
        self.max_bytes = bytes;
        self
    }

    /// Runs cores that see nothing of each other on up to this many threads; as many as the machine has by default.
    /// Results do not depend on it.
    pub fn with_threads(mut self, threads: usize) -> KtirRun<'m> {
        self.threads = threads;
        self
    }

    /// Behaves as ktir-cpu where that lets mistakes pass: reads beyond a view give zeros and writes are dropped, cores
    /// may write equal values to one element, and arguments that the kernel does not declare are ignored.
    pub fn with_compatibility(mut self, compat: bool) -> KtirRun<'m> {
        self.compat = compat;
        self
    }

    /// Lets another thread end the run.
    pub fn with_stop_flag(mut self, stop: &KtirStopFlag) -> KtirRun<'m> {
        self.stop = stop.clone();
        self
    }

    /// Chooses how compute, memory and communication overlap where the hardware is the emulator's model.
    pub fn with_pipeline(mut self, pipeline: KtirPipeline) -> KtirRun<'m> {
        self.pipeline = pipeline;
        self
    }

    /// Runs the kernel operation by operation, as the definition has it: many times slower, with the same results.
    pub fn with_plain_interpreter(mut self) -> KtirRun<'m> {
        self.plain = true;
        self
    }

    /// Records up to this many events of a trace.
    pub fn with_trace_events(mut self, events: usize) -> KtirRun<'m> {
        self.traced = events;
        self
    }

    /// Runs it.
    ///
    /// # Errors
    /// What failed, on which core, in which operation.
    pub fn execute_kernel(self) -> Result<KtirRunOutcome, KtirRunError> {
        // A module that was built function by function has not been verified as a whole, and the
        // interpreter relies on every rule.
        crate::verify::verify_module(self.module)
            .map_err(|d| KtirRunError::before_start(KtirFault::Invalid(d.message)))?;
        let Some(f) = self.module.function(&self.kernel) else {
            let known = self.module.functions.iter().map(|f| f.name.clone()).collect();
            return Err(KtirRunError::before_start(KtirFault::UnknownKernel {
                name: self.kernel,
                known,
            }));
        };
        let capacity = self.hardware.figure_count(Key::LxSize);
        if let Some(plan) = self.choose_plan(f) {
            return self.execute_plan(f, &plan, capacity);
        }
        // One budget for all cores: a limit per core would grow with the grid.
        let meter = KtirRunBudget::new(self.max_steps, self.max_bytes, &self.stop);
        let (mut memory, args) =
            self.bind_arguments(f, &meter).map_err(KtirRunError::before_start)?;
        let count = f.core_count();
        // Scratchpads are sized by the hardware preset and filled on first use, because 4096 of
        // them at 2 MiB would be 8 GiB.
        memory.add_scratchpads(count, usize::try_from(capacity).unwrap_or(usize::MAX));
        let program = KtirRunProgram::new(self.module);
        let mut cores: Vec<KtirCore<'_>> = Vec::with_capacity(count);
        let cost = (self.traced, self.hardware.cycle_model());
        for id in 0..count {
            let core = KtirCore::new(&program, f, id, &args, capacity, cost, &meter);
            cores.push(core.map_err(|fault| KtirRunError {
                fault,
                core: Some(id),
                op: None,
                span: 0..0,
            })?);
        }
        // Cores run in the order of their numbers, each until it has to wait. The order is part of
        // the semantics: it makes races and sums between cores the same in every run.
        let mut exchange = PartialExchange::default();
        loop {
            let mut moved = false;
            for core in &mut cores {
                moved |= core.run_until_blocked(&mut memory, &mut exchange)?;
            }
            if cores.iter().all(KtirCore::is_done) {
                break;
            }
            // A whole round in which no core advanced cannot be followed by a better one, because
            // only a core can give another what it waits for.
            if !moved {
                return Err(exchange::report_deadlock(&cores));
            }
        }
        let warnings = std::mem::take(&mut memory.warnings);
        let arrays = memory.read_back(self.arrays);
        let ledgers = cores.into_iter().map(|c| c.ledger).collect();
        let outcome =
            report::build_outcome(f, &self.hardware, ledgers, arrays, self.traced, self.pipeline);
        Ok(KtirRunOutcome { warnings, ..outcome })
    }

    /// The plan of the kernel, unless only the plain interpreter does what is asked for.
    fn choose_plan(&self, f: &KtirFunction) -> Option<KtirPlan> {
        // A trace lists every operation as it is executed, and usable memory below the arrays may overlap them.
        if self.plain || self.compat || self.traced > 0 || self.spare > 0 {
            return None;
        }
        KtirPlan::new(self.module, f)
    }

    fn execute_plan(
        mut self,
        f: &KtirFunction,
        plan: &KtirPlan,
        capacity: u64,
    ) -> Result<KtirRunOutcome, KtirRunError> {
        let args = self.read_arguments(f).map_err(KtirRunError::before_start)?;
        let limits = PlanLimits {
            stop: self.stop.clone(),
            capacity,
            steps: self.max_steps,
            bytes: self.max_bytes,
            threads: self.threads,
            model: self.hardware.cycle_model(),
        };
        let ledgers = plan.execute(&mut self.arrays, &args, &limits)?;
        Ok(report::build_outcome(f, &self.hardware, ledgers, self.arrays, 0, self.pipeline))
    }

    /// Checks that every array has the element type that the kernel reads there: bits of another
    /// format would silently give wrong numbers.
    fn check_array_elements(&self, f: &KtirFunction) -> Result<(), KtirFault> {
        let arrays: Vec<&str> = self.arrays.keys().map(String::as_str).collect();
        for (name, elems) in self.module.view_elements(&f.name, &arrays) {
            let given = self.arrays[&name].elem;
            // One matching view suffices: a kernel may read one array as two types on purpose.
            // `index` and `i64` have one format in memory.
            if !elems.iter().any(|e| e.format() == given.format()) {
                let known: Vec<&str> = elems.iter().map(|e| e.name()).collect();
                let reason = format!(
                    "has elements {given}, and the kernel's views of it {}",
                    known.join(" and ")
                );
                return Err(KtirFault::BadArgument { name, reason });
            }
        }
        Ok(())
    }

    /// The value of each argument that is a number; none for one that is an array.
    fn read_arguments(
        &self,
        f: &KtirFunction,
    ) -> Result<Vec<(String, Option<KtirRunValue>)>, KtirFault> {
        let names: Vec<&str> = f.args().iter().map(|v| f.value_def(*v).name.as_str()).collect();
        let bad = |name: &str, reason: String| KtirFault::BadArgument { name: name.into(), reason };
        // A misspelled argument would otherwise be reported as another one that is missing.
        for given in self.arrays.keys().chain(self.scalars.keys()) {
            if !self.compat && !names.contains(&given.as_str()) {
                return Err(bad(
                    given,
                    format!(
                        "is not an argument of `@{}`, which takes {}",
                        f.name,
                        names.join(", ")
                    ),
                ));
            }
        }
        self.check_array_elements(f)?;
        let mut args = Vec::new();
        for (v, name) in f.args().iter().zip(names) {
            let ty = f.value_type(*v);
            let value = match (self.arrays.get(name), self.scalars.get(name), ty) {
                (Some(_), Some(_), _) => {
                    return Err(bad(name, "is given as an array and as a number".into()));
                }
                (
                    Some(array),
                    None,
                    KtirType::Scalar(KtirElem::Index) | KtirType::RuntimeArg(_),
                ) => {
                    memory::check_array_size(name, array)?;
                    None
                }
                (None, Some(scalar), KtirType::Scalar(elem)) => {
                    Some(match (scalar, elem.is_float()) {
                        (KtirScalar::Int(n), false) => {
                            KtirRunValue::I(pointwise::wrap_integer(*n, *elem))
                        }
                        (KtirScalar::Int(n), true) => {
                            KtirRunValue::F(pointwise::round_float(*n as f64, *elem))
                        }
                        (KtirScalar::Float(x), true) => {
                            KtirRunValue::F(pointwise::round_float(*x, *elem))
                        }
                        (KtirScalar::Float(x), false) => {
                            return Err(bad(name, format!("is {elem}, so {x} does not fit")));
                        }
                    })
                }
                (None, Some(KtirScalar::Int(n)), KtirType::RuntimeArg(_)) => {
                    Some(KtirRunValue::I(*n))
                }
                (None, None, _) => {
                    return Err(bad(name, format!("is missing; it is {ty}")));
                }
                _ => return Err(bad(name, format!("is {ty}, which cannot be given"))),
            };
            args.push((name.to_string(), value));
        }
        Ok(args)
    }

    /// Turns arguments into values and places arrays in memory.
    fn bind_arguments(
        &self,
        f: &KtirFunction,
        meter: &Rc<KtirRunBudget>,
    ) -> Result<(KtirMemory, Vec<KtirRunValue>), KtirFault> {
        let mut memory = KtirMemory::new(self.spare, meter, self.compat)?;
        let args = self.read_arguments(f)?;
        let mut values = Vec::new();
        for (name, value) in args {
            values.push(match (value, self.arrays.get(&name)) {
                (Some(value), _) => value,
                (None, Some(array)) => KtirRunValue::I(memory.place_array(&name, array)?),
                (None, None) => KtirRunValue::I(0),
            });
        }
        Ok((memory, values))
    }
}
