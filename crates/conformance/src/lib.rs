//! The recorded answers of other implementations, asked again of this one.
//!
//! A suite is a file of JSON cases that another library answered, or that its tests state: layouts with the places of
//! their elements, operators with their results, texts that are accepted or refused. Each case is asked as a user asks,
//! by a request (`zellige_ask`), and compared with the record. What decides is never a second run of the same code:
//! recorded positions are compared one by one, and where a record has the parameters of its format, all positions are
//! computed from the format's own definition, here and by hand.
//!
//! Where the record says that the other implementation is wrong, the case passes if our answer is the right one, or a
//! refusal that names a witness; such cases are counted apart.
//!
//! # What it may not do
//! Know layouts: everything about them is asked.

#![forbid(unsafe_code)]

mod blocked;
mod case;
mod compiler;
mod cute;
mod folder;
mod sharding;
mod spyre;
mod table;
mod tirx;
mod triton;

pub use case::{CaseAgreement, CaseMismatch};
pub use folder::{FolderError, SuiteFolder};
pub use table::{outcomes_json, outcomes_markdown, outcomes_text};

use case::CheckedCase;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Display;

/// The cases of one file.
#[derive(Debug, Clone, Copy)]
pub struct CaseSuite {
    /// The name of the file, without `.json`.
    pub name: &'static str,
    /// Where its cases come from, one sentence.
    pub from: &'static str,
    check: fn(&Value, &mut CaseTally) -> Result<(), CaseMismatch>,
}

/// Every suite, notations first.
pub const SUITES: &[CaseSuite] = &[
    CaseSuite {
        name: "cute",
        from: "CuTe's operators by three implementations: pycute and cutegen of CUTLASS (commit 7107b05535f8) and tensor-layouts 0.3.2 from PyPI, each answer checked against its law.",
        check: cute::check_operators,
    },
    CaseSuite {
        name: "cute_operators",
        from: "CuTe's operators as the C++ headers of CUTLASS answer them (commit 7107b05535f8), each checked against its law.",
        check: cute::check_operators,
    },
    CaseSuite {
        name: "cute_texts",
        from: "Texts as the C++ headers of CUTLASS and its Python DSL print them (commit 7107b05535f8).",
        check: cute::check_texts,
    },
    CaseSuite {
        name: "cute_atoms",
        from: "The thread-value layouts of MMA and copy atoms in the headers of CUTLASS (commit 7107b05535f8).",
        check: cute::check_atoms,
    },
    CaseSuite {
        name: "triton_linear",
        from: "Calls of Triton's linear layouts: the bindings of the wheel 3.9.0, and its C++ sources (commit f4fca2c0bc0e) compiled alone.",
        check: triton::check_linear,
    },
    CaseSuite {
        name: "triton_attrs",
        from: "Layout attributes over shapes and the linear layouts that Triton 3.9.0 gives them.",
        check: triton::check_attributes,
    },
    CaseSuite {
        name: "triton_attr_parse",
        from: "Spellings of attributes that Triton 3.9.0 accepts, with its print form, or refuses.",
        check: triton::check_spellings,
    },
    CaseSuite {
        name: "triton_attrs_more",
        from: "The same for attributes over clusters, tensor memory, AMD's instructions and shapes smaller or larger than the attribute.",
        check: triton::check_attributes,
    },
    CaseSuite {
        name: "triton_attr_parse_more",
        from: "The same for keys left out, repeated, unknown or of another type.",
        check: triton::check_spellings,
    },
    CaseSuite {
        name: "xla",
        from: "Layouts read by XLA's parser (jax 0.10.2), with positions by the definition in openxla's tiled_layout.md, checked with numpy.",
        check: blocked::check_xla,
    },
    CaseSuite {
        name: "onednn",
        from: "Memory descriptors and real reorders of oneDNN 3.2 (onednn-cpu-gomp 2023.2.0 from PyPI), and its 700 names of format tags.",
        check: blocked::check_onednn,
    },
    CaseSuite {
        name: "mlir_pack",
        from: "linalg.pack compiled and run by IREE 3.13.0.",
        check: blocked::check_pack,
    },
    CaseSuite {
        name: "jax_sharding",
        from: "The slices that jax 0.10.2 gives to 8 devices (`NamedSharding.devices_indices_map`), and its HLO texts.",
        check: sharding::check_jax,
    },
    CaseSuite {
        name: "tirx",
        from: "Layouts of `tvm.tirx` in apache-tvm 0.27.0.post1: places, canonical forms, facts and every operator.",
        check: tirx::check_records,
    },
    CaseSuite {
        name: "tirx_upstream_mistakes",
        from: "Wrong answers of the same `tvm.tirx`, with the right ones.",
        check: tirx::check_mistakes,
    },
    CaseSuite {
        name: "spyre_layouts",
        from: "Device layouts that the tests of torch-spyre assert.",
        check: spyre::check_layouts,
    },
    CaseSuite {
        name: "spyre_dci",
        from: "Transfer descriptors by the rules of torch-spyre, run and verified.",
        check: spyre::check_descriptors,
    },
    CaseSuite {
        name: "spyre_extras",
        from: "Restickified layouts, changes of dtype, and host views that torch-spyre transfers wrongly.",
        check: spyre::check_extras,
    },
    CaseSuite {
        name: "layout_propagation",
        from: "Layouts and moves that the tests of torch-spyre's compiler assert.",
        check: compiler::check_propagation,
    },
    CaseSuite {
        name: "work_division",
        from: "Divisions of work over cores that torch-spyre's tests and documents state.",
        check: compiler::check_division,
    },
    CaseSuite {
        name: "lx_solver",
        from: "Plans of scratchpads that torch-spyre's tests assert.",
        check: compiler::check_scratchpads,
    },
];

/// A case whose answer is another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCase {
    /// Its number or name in the file.
    pub case: String,
    /// What differs.
    pub mismatch: CaseMismatch,
}

/// What running a suite found.
#[derive(Debug, Clone)]
pub struct SuiteOutcome {
    /// Which suite.
    pub suite: &'static CaseSuite,
    /// Cases that were asked.
    pub cases: usize,
    /// Those of them that agree.
    pub passed: usize,
    /// Those of the passed ones where the record says that the other implementation is wrong.
    pub upstream_wrong: usize,
    /// Records that no request asks for, by kind.
    pub left_out: BTreeMap<&'static str, usize>,
    /// Every case that does not agree.
    pub failures: Vec<FailedCase>,
}

impl CaseSuite {
    /// The suite of this name.
    pub fn find_suite(name: &str) -> Option<&'static CaseSuite> {
        SUITES.iter().find(|s| s.name == name)
    }

    /// Asks every case of the data.
    pub fn run_cases(&'static self, data: &Value) -> SuiteOutcome {
        let (cases, passed, upstream_wrong) = (0, 0, 0);
        let outcome = SuiteOutcome {
            suite: self,
            cases,
            passed,
            upstream_wrong,
            left_out: BTreeMap::new(),
            failures: Vec::new(),
        };
        let mut tally = CaseTally(outcome);
        if let Err(mismatch) = (self.check)(data, &mut tally) {
            // A file of another form is a failure and not an empty suite.
            tally.count_case("the file", Err(mismatch));
        }
        tally.0
    }
}

/// Counts cases as they are asked.
struct CaseTally(SuiteOutcome);

impl CaseTally {
    fn count_case(&mut self, name: impl Display, checked: CheckedCase) {
        let outcome = &mut self.0;
        match checked {
            Ok(CaseAgreement::LeftOut(kind)) => {
                *outcome.left_out.entry(kind).or_default() += 1;
                // Not counted among the cases, so that `passed` of `cases` speaks of what was asked.
                return;
            }
            Ok(CaseAgreement::UpstreamWrong) => {
                outcome.passed += 1;
                outcome.upstream_wrong += 1;
            }
            Ok(CaseAgreement::Same) => outcome.passed += 1,
            Err(mismatch) => {
                let case = case::shorten_text(&name.to_string());
                outcome.failures.push(FailedCase { case, mismatch });
            }
        }
        outcome.cases += 1;
    }
}

/// The cases of a file that is a list, or an object with the list in the field `cases`, `vectors` or `records`.
fn list_cases(data: &Value) -> Result<&[Value], CaseMismatch> {
    let inside = ["cases", "vectors", "records"].iter().find_map(|name| data.get(name));
    let found = data.as_array().or_else(|| inside.and_then(Value::as_array));
    found.map(Vec::as_slice).ok_or_else(|| {
        case::mismatch_between(
            "a list, or an object with a list `cases`, `vectors` or `records`",
            data,
        )
    })
}
