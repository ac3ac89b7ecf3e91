//! Triton: linear layouts, layout attributes, their spellings.

use crate::case::{
    CaseAgreement, CaseMismatch, CheckedCase, ask_engine, check_same, expect_answer, int_field,
    ints_field, list_field, mismatch_between, optional_field, refusal_text, text_field,
};
use crate::{CaseTally, list_cases};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A linear layout as recorded: the bases of every dimension, and the sizes of the result.
struct RecordedBases {
    ins: Vec<(String, Vec<Vec<i64>>)>,
    outs: Vec<String>,
}

impl RecordedBases {
    fn new(v: &Value) -> Result<RecordedBases, CaseMismatch> {
        let pairs = |name: &str| -> Result<Vec<(String, &Value)>, CaseMismatch> {
            let named = |p: &'_ Value| p[0].as_str().map(str::to_string);
            let all: Option<Vec<_>> =
                list_field(v, name)?.iter().map(|p| Some((named(p)?, &p[1]))).collect();
            all.ok_or_else(|| mismatch_between(format!("pairs in the field `{name}`"), v))
        };
        let mut ins = Vec::new();
        for (dim, bases) in pairs("in")? {
            let bases = bases.as_array().map_or(&[][..], Vec::as_slice);
            let bases = bases.iter().map(|b| crate::case::parse_integers(b, "in"));
            ins.push((dim, bases.collect::<Result<Vec<_>, CaseMismatch>>()?));
        }
        Ok(RecordedBases { ins, outs: pairs("out")?.into_iter().map(|(name, _)| name).collect() })
    }

    /// The definition: the XOR of the bases of the bits that are set.
    fn apply_bases(&self, at: impl Fn(&str) -> i64) -> Vec<i64> {
        let mut out = vec![0; self.outs.len()];
        for (dim, bases) in &self.ins {
            for (bit, basis) in bases.iter().enumerate() {
                if (at(dim) >> bit) & 1 == 1 {
                    out.iter_mut().zip(basis).for_each(|(o, b)| *o ^= b);
                }
            }
        }
        out
    }

    fn dim_size(&self, dim: &str) -> i64 {
        self.ins.iter().find(|(d, _)| d == dim).map_or(1, |(_, bases)| 1 << bases.len())
    }
}

fn check_construct(case: &Value) -> CheckedCase {
    let a = &case["a"];
    let facts = expect_answer(&json!({"op": "linear", "call": "facts", "a": a}))?;
    for fact in
        ["surjective", "injective", "invertible", "free_variable_masks", "num_consecutive_in_out"]
    {
        check_same(fact, &case[fact], &facts[fact])?;
    }
    let points = list_field(case, "apply")?;
    let inputs: Vec<&Value> = points.iter().map(|p| &p[0]).collect();
    let expected: Vec<&Value> = points.iter().map(|p| &p[1]).collect();
    let found = expect_answer(&json!({"op": "linear", "call": "apply", "a": a, "points": inputs}))?;
    check_same("points", &json!(expected), &found["points"])?;
    let bases = RecordedBases::new(a)?;
    for (input, want) in inputs.iter().zip(&expected) {
        let own = bases.apply_bases(|dim| input[dim].as_i64().unwrap_or(0));
        check_same("the XOR of bases", *want, &json!(own))?;
    }
    if let Some(printed) = optional_field(case, "to_string") {
        // Triton's own print form is a text of the notation.
        let read = expect_answer(
            &json!({"op": "linear", "call": "of", "layout": printed, "notation": "linear"}),
        )?;
        check_same("the layout that Triton prints", a, &read["linear"])?;
    }
    Ok(CaseAgreement::Same)
}

/// Bank conflicts one access after the other: the rows of each bank that the lanes of a pass touch.
fn simulate_conflicts(case: &Value) -> Result<i64, CaseMismatch> {
    let (bits, vector_bits) = (int_field(case, "bitwidth")?, int_field(case, "sim_vec_bits")?);
    let call = |call: &str, a: &Value, b: &Value, dim: Option<&str>| {
        let mut request = json!({"op": "linear", "call": call, "a": a});
        if !b.is_null() {
            request["b"] = b.clone();
        }
        if let Some(dim) = dim {
            request["dim"] = json!(dim);
        }
        expect_answer(&request).map(|found| found["linear"].clone())
    };
    let registers =
        call("removeZeroBasesAlongDim", &case["register_ll"], &Value::Null, Some("register"))?;
    let across = call("invertAndCompose", &registers, &case["shared_ll"], None)?;
    let (registers, across) = (RecordedBases::new(&registers)?, RecordedBases::new(&across)?);
    let Some(offset) = across.outs.iter().position(|d| d == "offset") else {
        return Err(mismatch_between(
            "a result with the dimension `offset`",
            across.outs.join(", "),
        ));
    };
    let (lanes, count) = (registers.dim_size("lane"), registers.dim_size("register"));
    // Shared memory serves 128 bytes, 1024 bits, at a time, so wide accesses of a warp take several passes.
    let per_pass = (1024 / vector_bits.max(1)).min(lanes).max(1);
    let address = |register: i64, lane: i64| {
        let at = |dim: &str| match dim {
            "register" => register,
            "lane" => lane,
            _ => 0,
        };
        across.apply_bases(at)[offset] * bits
    };
    let step = |n: i64| usize::try_from(n.max(1)).unwrap_or(1);
    let mut worst = 1;
    // Registers that begin a vector are those at aligned addresses.
    for register in (0..count).filter(|r| address(*r, 0) % vector_bits.max(1) == 0) {
        for first in (0..lanes).step_by(step(per_pass)) {
            let mut rows: Vec<BTreeSet<i64>> = vec![BTreeSet::new(); 32];
            for lane in first..first + per_pass {
                let start = address(register, lane);
                for bit in (start..start + vector_bits.max(1)).step_by(step(bits.min(8))) {
                    // 32 banks of 32 bits, as on NVIDIA GPUs since compute capability 5.
                    let bank = usize::try_from(bit / 32 % 32).unwrap_or(0);
                    rows[bank].insert(bit / 1024);
                }
            }
            worst = worst.max(rows.iter().map(BTreeSet::len).max().unwrap_or(1));
        }
    }
    Ok(i64::try_from(worst).unwrap_or(i64::MAX) - 1)
}

fn check_bank_conflicts(case: &Value) -> CheckedCase {
    let request = json!({"op": "linear", "call": "bankConflicts", "a": case["register_ll"], "b": case["shared_ll"], "bitwidth": case["bitwidth"]});
    check_same("conflicts", &case["conflicts"], &expect_answer(&request)?["conflicts"])?;
    if optional_field(case, "sim_conflicts").is_some() {
        check_same(
            "conflicts of the simulation",
            &case["sim_conflicts"],
            &json!(simulate_conflicts(case)?),
        )?;
    }
    Ok(CaseAgreement::Same)
}

fn check_optimal_swizzle(case: &Value) -> CheckedCase {
    let request = json!({"op": "linear", "call": "optimalSwizzling", "a": case["src_ll"], "b": case["dst_ll"], "bitwidth": case["bitwidth"]});
    let found = expect_answer(&request)?;
    let (own, recorded) =
        (ints_field(&found, "conflicts")?, ints_field(case, "conflicts_store_load")?);
    // Fewer conflicts than recorded are no mistake: several swizzles are optimal, and ours may be better.
    if own.len() != recorded.len() || own.iter().zip(&recorded).any(|(own, r)| own > r) {
        return Err(mismatch_between(
            format!("at most {recorded:?} conflicts"),
            format!("{own:?}"),
        ));
    }
    Ok(CaseAgreement::Same)
}

/// The attribute of a layout as Gluon's Python prints it: `BlockedLayout(size_per_thread=[1, 4],..)`.
fn attribute_of(gluon: &str) -> Option<String> {
    let (name, rest) = gluon.split_once('(')?;
    let fields = rest.strip_suffix(')')?;
    let list = |field: &str| -> Option<String> {
        let value = fields.split_once(&format!("{field}=["))?.1.split_once(']')?.0;
        Some(format!("[{value}]"))
    };
    let plain = |field: &str| -> Option<String> {
        let value = fields.split_once(&format!("{field}="))?.1;
        Some(value.split([',', ')']).next()?.to_lowercase())
    };
    let blocked = |size: &str, lanes: &str, warps: &str, order: &str| {
        format!(
            "#ttg.blocked<{{sizePerThread = {size}, threadsPerWarp = {lanes}, warpsPerCTA = {warps}, order = {order}}}>"
        )
    };
    let mma = |major: &str, minor: &str, warps: &str, shape: &str| {
        format!(
            "#ttg.nvidia_mma<{{versionMajor = {major}, versionMinor = {minor}, warpsPerCTA = {warps}, instrShape = {shape}}}>"
        )
    };
    // Parents are short: `NVMMA(2,0)w[4,1]i[16,8]` and `Blocked([1,4],[4,8],[4,1],[1,0])`.
    let parent = || -> Option<String> {
        let text = fields.split_once("parent=")?.1;
        if let Some(rest) = text.strip_prefix("NVMMA(") {
            let (version, rest) = rest.split_once(")w")?;
            let (major, minor) = version.split_once(',')?;
            let (warps, rest) = rest.split_once('i')?;
            let shape = format!("{}]", rest.split_once(']')?.0);
            return Some(mma(major, minor, warps, &shape));
        }
        let text = text.strip_prefix("Blocked(")?;
        let lists: Vec<String> =
            text.split(']').take(4).map(|l| format!("{}]", l.trim_start_matches(','))).collect();
        let [size, lanes, warps, order] = lists.as_slice() else { return None };
        Some(blocked(size, lanes, warps, order))
    };
    Some(match name {
        "BlockedLayout" => blocked(
            &list("size_per_thread")?,
            &list("threads_per_warp")?,
            &list("warps_per_cta")?,
            &list("order")?,
        ),
        "NVMMADistributedLayout" => {
            let version = list("version")?;
            let (major, minor) = version.trim_matches(['[', ']']).split_once(", ")?;
            mma(major, minor, &list("warps_per_cta")?, &list("instr_shape")?)
        }
        "DotOperandLayout" => format!(
            "#ttg.dot_op<{{opIdx = {}, parent = {}, kWidth = {}}}>",
            plain("operand_index")?,
            parent()?,
            plain("k_width")?
        ),
        "SliceLayout" => {
            format!("#ttg.slice<{{dim = {}, parent = {}}}>", plain("dim")?, parent()?)
        }
        "SwizzledSharedLayout" => format!(
            "#ttg.swizzled_shared<{{vec = {}, perPhase = {}, maxPhase = {}, order = {}}}>",
            plain("vec")?,
            plain("per_phase")?,
            plain("max_phase")?,
            list("order")?
        ),
        "NVMMASharedLayout" => format!(
            "#ttg.nvmma_shared<{{swizzlingByteWidth = {}, transposed = {}, elementBitWidth = {}, rank = {}}}>",
            plain("swizzle_byte_width")?,
            plain("transposed")?,
            plain("element_bitwidth")?,
            plain("rank")?
        ),
        _ => return None,
    })
}

fn check_gluon(case: &Value) -> CheckedCase {
    let Some(attribute) = attribute_of(text_field(case, "layout")?) else {
        return Ok(CaseAgreement::LeftOut("Gluon layouts of another class"));
    };
    let request =
        json!({"op": "linear", "call": "of", "layout": attribute, "shape": case["shape"]});
    check_same(&attribute, &case["out"], &expect_answer(&request)?["linear"])?;
    Ok(CaseAgreement::Same)
}

fn check_call(case: &Value) -> CheckedCase {
    let op = text_field(case, "op")?;
    match op {
        "construct" => return check_construct(case),
        "bank_conflicts" => return check_bank_conflicts(case),
        "optimal_swizzle_ldst" => return check_optimal_swizzle(case),
        "gluon_to_linear_layout" => return check_gluon(case),
        _ => {}
    }
    let mut request = json!({"op": "linear", "call": op});
    for field in ["a", "b", "order", "dims", "in_dims", "out_dims", "dim", "size", "shape"] {
        if let Some(value) = optional_field(case, field) {
            request[field] = value.clone();
        }
    }
    if case["aborts"] == true {
        // The other implementation ends the process. A refusal, with what is missing.
        return match ask_engine(&request) {
            Err(e) if e["kind"] != "internal" => Ok(CaseAgreement::UpstreamWrong),
            Err(e) => Err(mismatch_between("a refusal", refusal_text(&e))),
            Ok(found) => Err(mismatch_between("a refusal", found)),
        };
    }
    check_same(op, &case["out"], &expect_answer(&request)?["linear"])?;
    Ok(CaseAgreement::Same)
}

pub(crate) fn check_linear(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for (i, case) in list_cases(data)?.iter().enumerate() {
        tally.count_case(format!("{i}: {} of {}", case["op"], case["a"]), check_call(case));
    }
    Ok(())
}

fn check_attribute(case: &Value) -> CheckedCase {
    let request =
        json!({"op": "linear", "call": "of", "layout": case["text"], "shape": case["shape"]});
    let found = expect_answer(&request)?;
    check_same("the linear layout", &case["linear"], &found["linear"])?;
    check_same("the padding", &case["padding"], &found["padding"])?;
    let parsed = expect_answer(&json!({"op": "parse", "layout": case["text"]}))?;
    check_same("the notation", &json!("triton"), &parsed["notation"])?;
    // Where Triton prints a text otherwise, the record has that too.
    check_same("the text", case.get("canonical").unwrap_or(&case["text"]), &parsed["layout"])?;
    // Triton prints some attributes in a way that its own parser refuses.
    let refused_by_itself = case["reparses"] == false;
    Ok(if refused_by_itself { CaseAgreement::UpstreamWrong } else { CaseAgreement::Same })
}

pub(crate) fn check_attributes(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for (i, case) in list_cases(data)?.iter().enumerate() {
        tally.count_case(
            format!("{i}: {} over {}", case["text"], case["shape"]),
            check_attribute(case),
        );
    }
    Ok(())
}

fn check_spelling(case: &Value) -> CheckedCase {
    let request = json!({"op": "parse", "layout": case["text"], "notation": "triton"});
    match (case["accepted"] == true, ask_engine(&request)) {
        (true, Ok(found)) => {
            check_same("the print form", &case["canonical"], &found["layout"])?;
            let again = json!({"op": "parse", "layout": found["layout"], "notation": "triton"});
            check_same(
                "the print form, read again",
                &found["layout"],
                &expect_answer(&again)?["layout"],
            )?;
        }
        (true, Err(e)) => return Err(mismatch_between(&case["canonical"], refusal_text(&e))),
        (false, Ok(found)) => {
            return Err(mismatch_between(format!("a refusal: {}", case["why"]), &found["layout"]));
        }
        (false, Err(e)) if e["kind"] == "syntax" => {}
        (false, Err(e)) => {
            return Err(mismatch_between("a refusal with its place", refusal_text(&e)));
        }
    }
    Ok(CaseAgreement::Same)
}

pub(crate) fn check_spellings(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for (i, case) in list_cases(data)?.iter().enumerate() {
        tally.count_case(format!("{i}: {}", case["text"]), check_spelling(case));
    }
    Ok(())
}
