//! Conversions between layouts of registers inside a thread block.

use super::OpAnswer;
use crate::RequestFault;
use crate::request::{Request, parse_ints};
use serde_json::{Value, json};
use zellige_block::{
    BlockConversion, BlockError, BlockFragment, ConversionRoute, SharedAddressing, SharedOrder,
    SharedPlan, print_cuda,
};

const ROUTES: [(&str, ConversionRoute); 4] = [
    ("nothing", ConversionRoute::Nothing),
    ("registers", ConversionRoute::Registers),
    ("shuffles", ConversionRoute::Shuffles),
    ("shared", ConversionRoute::SharedMemory),
];

pub(super) fn answer_block_convert(r: &Request) -> OpAnswer {
    let from = r.parse_layout("from")?;
    let to = r.parse_layout("to")?;
    let given = match r.get("shape") {
        Some(shape) => Some(parse_ints("shape", shape)?),
        None => from.default_shape().or_else(|| to.default_shape()),
    };
    let source = r.lower_layout("from", &from, given.as_deref())?;
    let shape = given.unwrap_or_else(|| source.default_shape());
    let destination = r.lower_layout("to", &to, Some(&shape))?;
    source.check_shape_size(&shape)?;
    destination.check_shape_size(&shape)?;
    let bits = r.require_dtype()?.bits();
    let fragment = |field: &str, layout| {
        BlockFragment::from_layout(layout).map_err(|e| refuse(&format!("`{field}`: "), &e))
    };
    let (source, destination) = (fragment("from", &source)?, fragment("to", &destination)?);
    let plan = match r.optional_str("route")? {
        None => BlockConversion::between(&source, &destination, bits),
        Some(name) => {
            let route = ROUTES.iter().find(|(n, _)| *n == name).ok_or_else(|| {
                let names: Vec<&str> = ROUTES.iter().map(|(n, _)| *n).collect();
                RequestFault::wrong_type("`route`", &names.join(", "), &json!(name))
            })?;
            BlockConversion::by_route(&source, &destination, bits, route.1)
        }
    };
    let plan = plan.map_err(|e| refuse("", &e))?;
    if let Some(most) = r.optional_int("shared_bytes")? {
        let given = usize::try_from(most).unwrap_or(0);
        let needed = plan.counts().shared_bytes;
        if needed > given {
            return Err(refuse("", &BlockError::SharedMemory { needed, given }));
        }
    }
    // A plan is answered only after it was run on the numbers of the elements.
    plan.check(&source, &destination).map_err(|e| refuse("", &e))?;
    let name = r.optional_str("name")?.unwrap_or("convert_registers");
    if !is_identifier(name) {
        let accepted = "a name of letters, digits and `_` that begins with a letter";
        return Err(RequestFault::wrong_type("`name`", accepted, &json!(name)));
    }
    let counts = plan.counts();
    Ok(json!({
        "route": plan.route().name(),
        "threads": source.threads().max(destination.threads()),
        "registers": [source.registers(), destination.registers()],
        "shuffles": counts.shuffles,
        "least_shuffles": counts.least_shuffles,
        "selects": counts.selects,
        "permutes": counts.permutes,
        "wavefronts": counts.wavefronts,
        "least_wavefronts": counts.least_wavefronts,
        "barriers": counts.barriers,
        "shared_bytes": counts.shared_bytes,
        "least_because": plan.least_argument(),
        "shared": plan.shared().map(shared_json),
        "code": print_cuda(&plan, &source, &destination, name),
    }))
}

fn is_identifier(name: &str) -> bool {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    first && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn shared_json(plan: &SharedPlan) -> Value {
    let order = match plan.order {
        SharedOrder::RowMajor => "row-major",
        SharedOrder::Source => "registers of the source",
        SharedOrder::Destination => "registers of the destination",
    };
    let addressing = match &plan.addressing {
        SharedAddressing::Linear { columns } => json!({"kind": "linear", "columns": columns}),
        SharedAddressing::Padded { row, padding } => {
            json!({"kind": "padded", "row": row, "padding": padding})
        }
        SharedAddressing::Swizzled { shift, mask } => {
            json!({"kind": "swizzled", "shift": shift, "mask": mask})
        }
    };
    json!({
        "order": order,
        "addressing": addressing,
        "write_vector": plan.writes.vector,
        "read_vector": plan.reads.vector,
        "write_wavefronts": plan.write_wavefronts,
        "read_wavefronts": plan.read_wavefronts,
    })
}

fn refuse(before: &str, error: &BlockError) -> RequestFault {
    let kind = match error {
        BlockError::TooLarge(_) => "too_large",
        BlockError::OtherTensor { .. } => "size_mismatch",
        _ => "bad_request",
    };
    RequestFault::new(kind, format!("{before}{error}"))
}
