//! Moves and transfers.

use super::Answer;
use crate::Fault;
use crate::request::Request;
use serde_json::{Value, json};
use zellige_layout::{StickLayout, Strided};
use zellige_movement::{Direction, Fill, Plan, Transfer};

fn too_many(plan: &Plan) -> Result<(), Fault> {
    let starts: usize = plan.nests().iter().map(|n| n.starts.len()).sum();
    if starts <= 1 << 16 {
        return Ok(());
    }
    Err(Fault::new(
        "too_large",
        format!("the plan has {starts} nests, and an answer lists at most 65536"),
    ))
}

pub(super) fn dma(r: &Request) -> Answer {
    let size = r.ints("size")?;
    let offset = r.opt_int("offset")?.unwrap_or(0);
    let stride = r.opt_ints("stride")?;
    let host = match &stride {
        Some(stride) => Strided::new(&size, stride, offset)?,
        None => Strided::new(&size, Strided::contiguous(&size)?.stride(), offset)?,
    };
    let dtype = r.dtype()?;
    let stick = StickLayout::explicit(
        &r.ints("device_size")?,
        &r.ints("stride_map")?,
        dtype.device_format()?,
    )?;
    let stick = match r.opt_ints("tensor_stride")? {
        Some(own) => stick.with_own_strides(&size, &own)?,
        None => stick.with_host(&size, stride.as_deref())?,
    };
    let direction = match r.opt_str("direction")?.unwrap_or("h2d") {
        "h2d" => Direction::HostToDevice,
        "d2h" => Direction::DeviceToHost,
        other => {
            let shown: String = other.chars().take(40).collect();
            let message = format!("unknown direction `{shown}`; known: h2d, d2h");
            return Err(Fault {
                kind: "bad_request",
                message,
                witness: json!({"field": "direction"}),
            });
        }
    };
    let transfer = Transfer::new(&host, &stick, dtype, direction)?;
    too_many(transfer.plan())?;
    Ok(json!({"nests": transfer.nests(), "dci": transfer.descriptor("DCI-Tensor-0")?}))
}

pub(super) fn plan(r: &Request) -> Answer {
    let shape = r.ints("shape")?;
    let src = r.lower("src", &r.parsed("src")?, Some(&shape))?;
    let dst = r.lower("dst", &r.parsed("dst")?, Some(&shape))?;
    let bits = r.dtype()?.bits();
    let fill = match r.opt_str("fill")?.unwrap_or("leave") {
        "leave" => Fill::Leave,
        "padding" | "zero" => Fill::Padding,
        other => {
            let shown: String = other.chars().take(40).collect();
            let message = format!("unknown fill `{shown}`; known: leave, zero");
            return Err(Fault { kind: "bad_request", message, witness: json!({"field": "fill"}) });
        }
    };
    let plan = Plan::between(&src, &dst, &shape, fill)?;
    too_many(&plan)?;
    // Elements narrower than a byte are counted as bits and rounded up at the end.
    let cost = plan.cost(bits, bits);
    let nests: Vec<Value> = plan
        .nests()
        .iter()
        .flat_map(|n| {
            n.starts.iter().map(|(a, b)| {
                json!({
                    "ranges": n.loops.iter().map(|l| l.range).collect::<Vec<_>>(),
                    "src_strides": n.loops.iter().map(|l| l.src).collect::<Vec<_>>(),
                    "dst_strides": n.loops.iter().map(|l| l.dst).collect::<Vec<_>>(),
                    "src_offset": a,
                    "dst_offset": b,
                })
            })
        })
        .collect();
    let runs: Vec<Value> = plan
        .run_lengths()
        .iter()
        .map(|(run, count)| json!({"elements": run, "count": count}))
        .collect();
    let bytes = plan.cost((bits / 8).max(1), (bits / 8).max(1));
    Ok(json!({
        "nests": nests,
        "fills": plan.fills().len(),
        "bytes_read": (cost.bytes_read + 7) / 8,
        "bytes_written": (cost.bytes_written + 7) / 8,
        "runs": runs,
        "cost": {"lines": bytes.lines, "runs": bytes.runs},
        "text": plan.to_string(),
    }))
}
