//! Every request, by name.

mod algebra;
mod analysis;
mod block;
mod compile;
mod copies;
mod cute;
mod draw;
mod exchange;
mod ktir;
mod layouts;
mod linear;
mod moves;
mod predict;
mod program;
mod proof;
mod reshard;
mod scale_factors;
mod spyre;
mod view;

pub(crate) use draw::paint_cells;
pub use moves::MoveRequest;
pub(crate) use moves::read_move_request as move_request;
pub(crate) use predict::answer_predict as predict_time;

use crate::{RequestFault, request::Request};
use serde_json::{Value, json};

type OpAnswer = Result<Value, RequestFault>;

/// A request: its name, its fields, and what it answers.
#[derive(Debug, Clone, Copy)]
pub struct RequestOperation {
    /// The name in `op`.
    pub name: &'static str,
    /// Its fields; `?` marks those that may be left out.
    pub fields: &'static str,
    /// What it answers.
    pub answers: &'static str,
    run: fn(&Request) -> OpAnswer,
}

macro_rules! operations {
    ($($name:literal, $fields:literal, $answers:literal, $run:path;)*) => {
        &[$(RequestOperation { name: $name, fields: $fields, answers: $answers, run: $run }),*]
    };
}

/// Every request that is answered, in the order of the documentation.
pub const OPERATIONS: &[RequestOperation] = operations! {
    "parse", "layout, shape?", "layout, notation, size, axes, span; null, with a note, for a text of any shape without one", algebra::answer_parse;
    "apply", "layout, shape?, coords", "points: the set of places of each coordinate", algebra::answer_apply;
    "canonicalize", "layout, target?", "layout", algebra::answer_canonicalize;
    "coalesce", "layout, target?", "layout", cute::answer_coalesce;
    "group", "layout, shape", "layout, seps", algebra::answer_group;
    "group_many", "layout, shapes", "layout, seps", algebra::answer_group_many;
    "tile", "inner, outer, outer_shape, inner_shape", "layout", algebra::answer_tile;
    "is_tile_inner", "layout, tiled, tiled_shape, inner_shape", "layout or null", algebra::answer_is_tile_inner;
    "is_tile_outer", "layout, tiled, tiled_shape, outer_shape", "layout or null", algebra::answer_is_tile_outer;
    "direct_sum", "right, left, left_shape, right_shape", "layout", algebra::answer_direct_sum;
    "is_direct_sum_right", "layout, sum, shape, other_shape?", "layout or null", algebra::answer_is_direct_sum_right;
    "is_direct_sum_left", "layout, sum, shape, other_shape?", "layout or null", algebra::answer_is_direct_sum_left;
    "slice", "layout, shape, region", "layout, or null with reason and the general form", algebra::answer_slice;
    "permute_dims", "layout, perm", "layout", algebra::answer_permute_dims;
    "permute_by_groups", "layout, seps, perm", "layout", algebra::answer_permute_by_groups;
    "storage", "layout", "layout", algebra::answer_storage;
    "pack", "layout, num, axis?", "layout; axis is m by default, TCol packs columns of tensor memory", algebra::answer_pack;
    "unpack", "layout, num, axis?", "layout", algebra::answer_unpack;
    "broadcast", "layout, num, pos, axis?", "layout", algebra::answer_broadcast;
    "tile_to", "layout, to_shape, shape", "layout", algebra::answer_tile_to;
    "compose", "a, b", "layout", cute::answer_compose;
    "inverse", "layout", "layout, axes, shape", cute::answer_inverse;
    "right_inverse", "layout", "layout, axes, shape", cute::answer_right_inverse;
    "left_inverse", "layout", "layout, axes, shape", cute::answer_left_inverse;
    "complement", "layout, cosize", "layout", cute::answer_complement;
    "composition", "a, b? or tiler?", "layout", cute::answer_composition;
    "logical_divide", "a, b? or tiler?", "layout", cute::logical_divide;
    "zipped_divide", "a, b? or tiler?", "layout", cute::zipped_divide;
    "tiled_divide", "a, b? or tiler?", "layout", cute::tiled_divide;
    "flat_divide", "a, b? or tiler?", "layout", cute::flat_divide;
    "logical_product", "a, b? or tiler?", "layout", cute::logical_product;
    "zipped_product", "a, b? or tiler?", "layout", cute::zipped_product;
    "tiled_product", "a, b? or tiler?", "layout", cute::tiled_product;
    "flat_product", "a, b? or tiler?", "layout", cute::flat_product;
    "blocked_product", "a, b", "layout", cute::answer_blocked_product;
    "raked_product", "a, b", "layout", cute::answer_raked_product;
    "equal", "a, b, shape?", "equal, witness", proof::answer_equal;
    "differences", "a, b, shape?, count?", "equal, differences: coordinate and both answers of the first ones, complete", proof::answer_differences;
    "linear", "call, a?, b?, order?, dims?, in_dims?, out_dims?, dim?, size?, shape?, points?, in_dim?, out_dim?, stride?, out_size?, bitwidth?, layout?", "linear or null; facts; points; conflicts; padding", linear::answer_linear;
    "refine", "layouts, shape", "extents, layouts", proof::answer_refine;
    "lookup", "layout, shape?, place", "state: element, padding, gap or outside; coords", proof::answer_lookup;
    "facts", "layout, shape?", "injective, surjective, bijective, size, span, extent, padding, gaps, contiguous, replicas, scope, clash, unused, gap", proof::answer_facts;
    "span", "layout, axis?", "span, extent", proof::answer_span;
    "scope", "layout", "scope: [inner, outer] or null", proof::answer_scope;
    "analyze", "layout, shape?, dtype?, access?, vector?", "vector, sectors in all and sectors_per_warp at most, banks, owners, lints; dtype where the text does not say it", analysis::answer_analyze;
    "conflicts", "layout, shape?, dtype?, access, vector?", "ways, conflict_free, phases", analysis::answer_conflicts;
    "swizzle_for", "layout, shape?, dtype?, accesses, vector?", "layout, ways, before, remedy", analysis::answer_swizzle_for;
    "explain", "layout, shape?, dtype?", "text, words, padding_bytes, lints", analysis::answer_explain;
    "physical_order", "layout, shape?, dtype?", "order, padded_elements", analysis::answer_physical_order;
    "convert", "layout, shape?, dtype?, to", "text, or not_expressible with the reason, and refined where finer dimensions have a text", analysis::answer_convert;
    "conversions", "layout, shape?, dtype?, to?", "shape, conversions: of every notation, or of the one in to, its title, relation and text or reason", analysis::answer_conversions;
    "index_code", "layout, shape?, language: c, cuda or python", "code: one function per axis from the indices of an element to its place", analysis::answer_index_code;
    "layouts", "text", "layouts: name, layout, notation and the uses (shape, element, dtype) of each; refused: message and span of what was not read", layouts::answer_layouts;
    "notations", "", "notations: name, doc, example", analysis::answer_notations;
    "presets", "name?", "presets: name, title, shape, dtype, layout; atoms: the names of MMA and copy atoms, or for one of them atom", analysis::answer_presets;
    "scale_factors", "rows, groups, bits?, sf_per_mma?, reuse?, pipe_depth?", "layout in tensor memory, shape, epc: factors of a 32-bit cell at most, columns: cells of a lane", scale_factors::scale_factors;
    "host_facts", "size, stride?, offset?", "row_major, column_major, channels_last, dense, own_strides, canonical, addresses", view::answer_host_facts;
    "view", "size, stride?, offset?, call, args? or dim, dim0, dim1, dims, start, end, step, index, sizes, shape, length", "size, stride, offset, or needs_copy", view::answer_view;
    "dma", "size, stride?, offset?, tensor_stride?, dtype, device_size, stride_map, device_stride?, stick_dims?, direction?", "nests with host and device named, dci", moves::answer_dma;
    "move", "src, dst, shape, dtype, to_dtype?, fill?", "nests, fills, bytes_read, bytes_written, runs, cost, text, fill, conversion", moves::answer_move;
    "copies", "src, dst, shape, dtype, to_dtype?, fill?, first?, count?", "total, copies: source and destination of each, in order", copies::answer_copies;
    "reshard", "shape, dtype, mesh, from, to_mesh?, to, bandwidth?", "ranks, pairs: bytes from rank to rank, sent, kept, seconds, chain of collectives; from and to: mesh, copies, and the ranks that hold each cell of the tensor", reshard::answer_reshard;
    "exchange", "shape, dtype, source, destination, cores?, stack?, carrier?", "movement, remote_bytes, local_bytes, sends: source core, destination cores, ranges and bytes of each, busiest_sender, busiest_receiver, busiest_link_bytes, time_us and its terms, governed_by: the side that decides it; of unfinished sums also additions: layer, source core, adding core, ranges and bytes of each", exchange::answer_exchange;
    "block_convert", "from, to, shape?, dtype, route?, shared_bytes?, name?", "route, shuffles, selects, permutes, wavefronts, barriers, shared_bytes, their least, why no plan takes less, and the CUDA code, for two layouts on the registers of threads", block::answer_block_convert;
    "sheets", "layout, shape?, dtype?, color_by?, color_layout?, sticks?", "layout, notation, note, shape, axes, tones, sheets: the drawings and their extents", draw::answer_sheets;
    "cells", "layout, shape?, dtype?, color_by?, color_layout?, sticks?, side, box?, rows, cols", "caption, row_labels, col_labels, cells", draw::answer_cells;
    "inspect", "layout, shape?, dtype?, color_by?, color_layout?, sticks?, coord or side, box?, row, col", "state, place, elements: coordinate, steps and spots of each", draw::answer_inspect;
    "find", "layout, shape?, dtype?, color_by?, color_layout?, sticks?, place", "count, elements: coordinate and spots of those with a copy at these coordinates; axes that place does not name may have any", draw::answer_find;
    "lanes", "layout, shape?, dtype?, color_by?, sticks?, access, vector?", "lanes, elements, touched: lane, coordinate and spots of each", draw::answer_lanes;
    "draw", "layout, shape?, dtype?, color_by?, sticks?, title?, max_cells?", "svg, notes", draw::answer_draw;
    "swizzle", "layout, shape?, dtype?, mode", "layout", draw::answer_swizzle;
    "spyre_layout", "size, stride?, dtype, dim_order?", "device_size, stride_map, device_dtype, bytes, text", spyre::answer_spyre_layout;
    "spyre_dim_map", "size, stride?, device_size, stride_map or dim_map", "the other one", spyre::answer_dim_map;
    "spyre_dtype", "device_size, stride_map, dtype, to_dtype, stick_extent?", "device_size, stride_map, device_dtype, bytes, text", spyre::answer_spyre_dtype;
    "restickify_layout", "size, stride?, dtype, device_size, stride_map, to_dim", "device_size, stride_map", spyre::answer_restickify;
    "work_division", "kind, sizes, reduced?, dtype, cores?, policy?, hint?", "splits, cores_used, span_bytes, cost_us, latency_us, decided_by, reason", compile::answer_work_division;
    "lx_plan", "limit?, alignment?, buffers, policy?", "addresses, spilled, spilled_bytes, peak_bytes, optimal, bound_bytes", compile::answer_lx_plan;
    "compile", "graph?, file?, options?, explain?", "summary, certificate, tensors, moves, steps, lx, pool, notes as in docs/schemas/report.schema.json; with explain, why that tensor has its layout", program::answer_compile;
    "predict", "operation?, shapes?, dtype?, attributes?, division?, layouts?, graph?, file?, bind?, cores?, lx?, lx_fraction?, stack?, policy?, profile?", "time_us, kernel_us, launches, bound: the term that counts most, why, terms: name, meaning, unit, alone and counted, whose sum is the time; steps: the same of each with its division", predict::answer_predict;
    "ktir_check", "text", "kernels: name, grid, cores, arguments with their types and, where views say them, shapes and elements", ktir::answer_check;
    "ktir_run", "text, kernel?, arrays?, scalars?, hardware?, pipeline?, compat?", "arrays: elements, shape and values of each as the kernel left it; report: cycles by core and category, roofline", ktir::answer_run;
};

pub(crate) fn answer_operation(request: &Request) -> OpAnswer {
    let op = request.op()?;
    if let Some(operation) = OPERATIONS.iter().find(|o| o.name == op) {
        let answer = (operation.run)(request);
        match &answer {
            // Behind the operation, because which fields it knows is what it has looked at: no second list can
            // disagree.
            Ok(_) => request.refuse_unknown_fields()?,
            // A field that is missing is often there, misspelt.
            Err(fault) if fault.kind == "bad_request" => {
                request.refuse_misspelt(operation.fields, fault)?;
            }
            Err(_) => {}
        }
        return answer;
    }
    let names: Vec<_> = OPERATIONS.iter().map(|o| o.name).collect();
    let shown: String = op.chars().take(60).collect();
    Err(RequestFault {
        kind: "unknown_op",
        message: format!("unknown request `{shown}`; known: {}", names.join(", ")),
        witness: json!({"op": shown}),
    })
}
