//! Triton: linear layouts, layout attributes, their spellings.

use crate::case::{
    Agreement, Checked, Mismatch, ask, int, ints, list, maybe, mismatch, ok, refusal, same, text,
};
use crate::{Tally, cases};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A linear layout as recorded: the bases of every dimension, and the sizes of the result.
struct Bases {
    ins: Vec<(String, Vec<Vec<i64>>)>,
    outs: Vec<String>,
}

impl Bases {
    fn new(v: &Value) -> Result<Bases, Mismatch> {
        let pairs = |name: &str| -> Result<Vec<(String, &Value)>, Mismatch> {
            let named = |p: &'_ Value| p[0].as_str().map(str::to_string);
            let all: Option<Vec<_>> =
                list(v, name)?.iter().map(|p| Some((named(p)?, &p[1]))).collect();
            all.ok_or_else(|| mismatch(format!("pairs in the field `{name}`"), v))
        };
        let mut ins = Vec::new();
        for (dim, bases) in pairs("in")? {
            let bases = bases.as_array().map_or(&[][..], Vec::as_slice);
            let bases = bases.iter().map(|b| crate::case::integers(b, "in"));
            ins.push((dim, bases.collect::<Result<Vec<_>, Mismatch>>()?));
        }
        Ok(Bases { ins, outs: pairs("out")?.into_iter().map(|(name, _)| name).collect() })
    }

    /// The definition: the XOR of the bases of the bits that are set.
    fn apply(&self, at: impl Fn(&str) -> i64) -> Vec<i64> {
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

    fn size(&self, dim: &str) -> i64 {
        self.ins.iter().find(|(d, _)| d == dim).map_or(1, |(_, bases)| 1 << bases.len())
    }
}

fn construct(case: &Value) -> Checked {
    let a = &case["a"];
    let facts = ok(&json!({"op": "linear", "call": "facts", "a": a}))?;
    for fact in
        ["surjective", "injective", "invertible", "free_variable_masks", "num_consecutive_in_out"]
    {
        same(fact, &case[fact], &facts[fact])?;
    }
    let points = list(case, "apply")?;
    let inputs: Vec<&Value> = points.iter().map(|p| &p[0]).collect();
    let expected: Vec<&Value> = points.iter().map(|p| &p[1]).collect();
    let found = ok(&json!({"op": "linear", "call": "apply", "a": a, "points": inputs}))?;
    same("points", &json!(expected), &found["points"])?;
    let bases = Bases::new(a)?;
    for (input, want) in inputs.iter().zip(&expected) {
        let own = bases.apply(|dim| input[dim].as_i64().unwrap_or(0));
        same("the XOR of bases", *want, &json!(own))?;
    }
    if let Some(printed) = maybe(case, "to_string") {
        // Triton's own print form is a text of the notation.
        let read =
            ok(&json!({"op": "linear", "call": "of", "layout": printed, "notation": "linear"}))?;
        same("the layout that Triton prints", a, &read["linear"])?;
    }
    Ok(Agreement::Same)
}

/// Bank conflicts one access after the other: the rows of each bank that the lanes of a pass touch.
fn simulated(case: &Value) -> Result<i64, Mismatch> {
    let (bits, vector_bits) = (int(case, "bitwidth")?, int(case, "sim_vec_bits")?);
    let call = |call: &str, a: &Value, b: &Value, dim: Option<&str>| {
        let mut request = json!({"op": "linear", "call": call, "a": a});
        if !b.is_null() {
            request["b"] = b.clone();
        }
        if let Some(dim) = dim {
            request["dim"] = json!(dim);
        }
        ok(&request).map(|found| found["linear"].clone())
    };
    let registers =
        call("removeZeroBasesAlongDim", &case["register_ll"], &Value::Null, Some("register"))?;
    let across = call("invertAndCompose", &registers, &case["shared_ll"], None)?;
    let (registers, across) = (Bases::new(&registers)?, Bases::new(&across)?);
    let Some(offset) = across.outs.iter().position(|d| d == "offset") else {
        return Err(mismatch("a result with the dimension `offset`", across.outs.join(", ")));
    };
    let (lanes, count) = (registers.size("lane"), registers.size("register"));
    let per_pass = (1024 / vector_bits.max(1)).min(lanes).max(1);
    let address = |register: i64, lane: i64| {
        let at = |dim: &str| match dim {
            "register" => register,
            "lane" => lane,
            _ => 0,
        };
        across.apply(at)[offset] * bits
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
                    let bank = usize::try_from(bit / 32 % 32).unwrap_or(0);
                    rows[bank].insert(bit / 1024);
                }
            }
            worst = worst.max(rows.iter().map(BTreeSet::len).max().unwrap_or(1));
        }
    }
    Ok(i64::try_from(worst).unwrap_or(i64::MAX) - 1)
}

fn bank_conflicts(case: &Value) -> Checked {
    let request = json!({"op": "linear", "call": "bankConflicts", "a": case["register_ll"], "b": case["shared_ll"], "bitwidth": case["bitwidth"]});
    same("conflicts", &case["conflicts"], &ok(&request)?["conflicts"])?;
    if maybe(case, "sim_conflicts").is_some() {
        same("conflicts of the simulation", &case["sim_conflicts"], &json!(simulated(case)?))?;
    }
    Ok(Agreement::Same)
}

fn optimal_swizzle(case: &Value) -> Checked {
    let request = json!({"op": "linear", "call": "optimalSwizzling", "a": case["src_ll"], "b": case["dst_ll"], "bitwidth": case["bitwidth"]});
    let found = ok(&request)?;
    let (own, recorded) = (ints(&found, "conflicts")?, ints(case, "conflicts_store_load")?);
    if own.len() != recorded.len() || own.iter().zip(&recorded).any(|(own, r)| own > r) {
        return Err(mismatch(format!("at most {recorded:?} conflicts"), format!("{own:?}")));
    }
    Ok(Agreement::Same)
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

fn gluon(case: &Value) -> Checked {
    let Some(attribute) = attribute_of(text(case, "layout")?) else {
        return Ok(Agreement::LeftOut("Gluon layouts of another class"));
    };
    let request =
        json!({"op": "linear", "call": "of", "layout": attribute, "shape": case["shape"]});
    same(&attribute, &case["out"], &ok(&request)?["linear"])?;
    Ok(Agreement::Same)
}

fn call(case: &Value) -> Checked {
    let op = text(case, "op")?;
    match op {
        "construct" => return construct(case),
        "bank_conflicts" => return bank_conflicts(case),
        "optimal_swizzle_ldst" => return optimal_swizzle(case),
        "gluon_to_linear_layout" => return gluon(case),
        _ => {}
    }
    let mut request = json!({"op": "linear", "call": op});
    for field in ["a", "b", "order", "dims", "in_dims", "out_dims", "dim", "size", "shape"] {
        if let Some(value) = maybe(case, field) {
            request[field] = value.clone();
        }
    }
    if case["aborts"] == true {
        // The other implementation ends the process. A refusal, with what is missing.
        return match ask(&request) {
            Err(e) if e["kind"] != "internal" => Ok(Agreement::UpstreamWrong),
            Err(e) => Err(mismatch("a refusal", refusal(&e))),
            Ok(found) => Err(mismatch("a refusal", found)),
        };
    }
    same(op, &case["out"], &ok(&request)?["linear"])?;
    Ok(Agreement::Same)
}

pub(crate) fn linear(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for (i, case) in cases(data)?.iter().enumerate() {
        tally.case(format!("{i}: {} of {}", case["op"], case["a"]), call(case));
    }
    Ok(())
}

fn attribute(case: &Value) -> Checked {
    let request =
        json!({"op": "linear", "call": "of", "layout": case["text"], "shape": case["shape"]});
    let found = ok(&request)?;
    same("the linear layout", &case["linear"], &found["linear"])?;
    same("the padding", &case["padding"], &found["padding"])?;
    let parsed = ok(&json!({"op": "parse", "layout": case["text"]}))?;
    same("the notation", &json!("triton"), &parsed["notation"])?;
    // Where Triton prints a text otherwise, the record has that too.
    same("the text", case.get("canonical").unwrap_or(&case["text"]), &parsed["layout"])?;
    // Triton prints some attributes in a way that its own parser refuses.
    let refused_by_itself = case["reparses"] == false;
    Ok(if refused_by_itself { Agreement::UpstreamWrong } else { Agreement::Same })
}

pub(crate) fn attributes(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for (i, case) in cases(data)?.iter().enumerate() {
        tally.case(format!("{i}: {} over {}", case["text"], case["shape"]), attribute(case));
    }
    Ok(())
}

fn spelling(case: &Value) -> Checked {
    let request = json!({"op": "parse", "layout": case["text"], "notation": "triton"});
    match (case["accepted"] == true, ask(&request)) {
        (true, Ok(found)) => {
            same("the print form", &case["canonical"], &found["layout"])?;
            let again = json!({"op": "parse", "layout": found["layout"], "notation": "triton"});
            same("the print form, read again", &found["layout"], &ok(&again)?["layout"])?;
        }
        (true, Err(e)) => return Err(mismatch(&case["canonical"], refusal(&e))),
        (false, Ok(found)) => {
            return Err(mismatch(format!("a refusal: {}", case["why"]), &found["layout"]));
        }
        (false, Err(e)) if e["kind"] == "syntax" => {}
        (false, Err(e)) => return Err(mismatch("a refusal with its place", refusal(&e))),
    }
    Ok(Agreement::Same)
}

pub(crate) fn spellings(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for (i, case) in cases(data)?.iter().enumerate() {
        tally.case(format!("{i}: {}", case["text"]), spelling(case));
    }
    Ok(())
}
