//! KTIR: the tile IR that the device runs.
//!
//! A [`KtirModule`] holds functions; a function is a kernel that every core of its grid runs whole.
//! It describes memory by views, picks tiles of them, loads, computes on tiles and stores; cores
//! exchange partial results. The text is MLIR's:
//!
//! ```
//! let text = "module {
//!   func.func @double(%x: index) attributes {grid = [2]} {
//!     %pid = ktdp.get_compute_tile_id : index
//!     %c0 = arith.constant 0 : index
//!     %view = ktdp.construct_memory_view %x, sizes: [2, 64], strides: [64, 1] {
//!       coordinate_set = affine_set<(i, j) : (i >= 0, i <= 1, j >= 0, j <= 63)>,
//!       memory_space = #ktdp.memory_space<global>
//!     } : memref<2x64xf16>
//!     %tile = ktdp.construct_access_tile %view[%pid, %c0] {
//!       access_tile_set = affine_set<(i, j) : (i == 0, j >= 0, j <= 63)>
//!     } : memref<2x64xf16> -> !ktdp.access_tile<1x64xindex>
//!     %a = ktdp.load %tile : !ktdp.access_tile<1x64xindex> -> tensor<1x64xf16>
//!     %b = arith.addf %a, %a : tensor<1x64xf16>
//!     ktdp.store %b, %tile : tensor<1x64xf16>, !ktdp.access_tile<1x64xindex>
//!     return
//!   }
//! }";
//! let module = zellige_ktir::text::parse(text)?;
//! let kernel = module.function("double").unwrap();
//! assert_eq!((kernel.core_count(), kernel.body().ops.len()), (2, 8));
//! let printed = zellige_ktir::text::print_module(&module);
//! assert_eq!(zellige_ktir::text::parse(&printed)?, module);
//! let error = zellige_ktir::text::parse(&text.replace("addf", "adf")).unwrap_err();
//! assert_eq!(error.help.as_deref(), Some("did you mean `arith.addf`?"));
//! # Ok::<(), zellige_notation::Diagnostic>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`affine`] | expressions, maps, sets |
//! | `ir`, `op`, `types` | modules, functions, operations, types; the table of operations |
//! | `build` | [`KtirBuilder`]: functions in code |
//! | [`text`] | parsing and printing |
//! | [`verify_module()`] | the rules of a module |
//! | `pointers` | the element types that a kernel reads through its arguments |
//! | `run` | [`KtirRun`]: kernels on simulated cores, and their cost |
//!
//! # What it may not do
//! Depend on graphs. A compiler that emits kernels depends on this crate and uses the
//! [`KtirBuilder`].

#![forbid(unsafe_code)]

pub mod affine;
mod build;
mod ir;
mod number;
mod op;
mod pointers;
mod run;
pub mod text;
mod types;
mod verify;

pub use build::{KtirBuilder, KtirSubscript};
pub use ir::{
    DYNAMIC_SIZE, KtirAlias, KtirAttr, KtirBlock, KtirFunction, KtirLiteral, KtirMemorySpace,
    KtirModule, KtirOp, KtirSourceSpan, KtirValue, KtirValueDef,
};
pub use op::KtirOpKind;
pub use run::{
    DEFAULT_BYTES, DEFAULT_STEPS, KtirArray, KtirCoreCycles, KtirFault, KtirFigures, KtirPipeline,
    KtirRun, KtirRunError, KtirRunOutcome, KtirScalar, KtirStopFlag, WaitingCore,
};
pub use types::{KtirElem, KtirType};
pub use verify::verify_module;
