//! Why a tensor has its layout: what the whole graph would cost with each of the others.
//!
//! For each layout that the tensor may have, the choice is solved again with the tensor held to it and everything else
//! free. The difference to the chosen one is the price of that layout. Prices are sums of costs, every operation in its
//! default division; the program is chosen by its time, so that another layout may have the smaller sum.

use super::layout_summary::{describe_layout, summarize_layout};
use super::to_microseconds;
use crate::choose::choose_layouts;
use crate::divide::AnsweredSteps;
use crate::error::{CompileError, Result};
use crate::lower::lower_graph;
use crate::options::CompilePolicy;
use crate::program::CompiledProgram;
use crate::propagate::{GraphCandidates, propagate_layouts};
use std::rc::Rc;
use zellige_device::TensorLayout;
use zellige_graph::{InputRole, TensorId, TensorOrigin};
use zellige_report::{CandidateLayout, LayoutExplanation, RequiredMove};

/// Explains the layout of a tensor of the program's graph; of a view, that of its base.
///
/// # Errors
/// A name that the graph has not.
pub fn explain_layout(program: &CompiledProgram, name: &str) -> Result<LayoutExplanation> {
    let graph = &program.graph;
    let Some(asked) = graph.tensor_id(name) else {
        let reason =
            format!("the compiled graph has no such tensor{}", find_similar_names(program, name));
        return Err(CompileError::BadTensor { tensor: name.into(), reason });
    };
    let (id, view) = graph.base_and_view(asked);
    let candidates = propagate_layouts(graph, &program.options)?;
    let chosen = program.assignment.tensors[id.0].as_ref();
    let t = graph.get(id);
    let mut options = Vec::new();
    for layout in &candidates.tensors[id.0] {
        let held = candidates.with_held_tensor(graph, id, layout);
        let laid = TensorLayout::new(program.options.storage, t.dtype, layout)?;
        let mut option = CandidateLayout {
            layout: summarize_layout(&laid),
            text: describe_layout(&laid),
            chosen: chosen == Some(layout),
            cost: None,
            extra: None,
            extra_us: None,
            least_sum: false,
            moves: Vec::new(),
            refused: None,
        };
        match solve_least_cost(program, &held) {
            Ok((cost, least_sum, moves)) => {
                (option.cost, option.least_sum, option.moves) = (Some(cost), least_sum, moves);
            }
            Err(e) => option.refused = Some(e.to_string()),
        }
        options.push(option);
    }
    let unit = program.assignment.unit;
    let base = options.iter().find(|o| o.chosen).and_then(|o| o.cost);
    for option in &mut options {
        let (Some(cost), Some(base)) = (option.cost, base) else { continue };
        let extra = i64::try_from(i128::from(cost) - i128::from(base)).unwrap_or(i64::MAX);
        option.extra = Some(extra);
        if unit == "cycles" {
            let time =
                to_microseconds(program.options.hardware.cycles_to_time(extra.unsigned_abs()));
            option.extra_us = Some(if extra < 0 { -time } else { time });
        }
    }
    options.sort_by_key(|o| (o.cost.unwrap_or(u64::MAX), !o.chosen));
    let (decided_by, why) = explain_choice(program, id, &options);
    Ok(LayoutExplanation {
        tensor: t.name.clone(),
        view: view.map(|_| name.into()),
        dtype: t.dtype.name().into(),
        decided_by: decided_by.into(),
        why,
        unit: unit.into(),
        options,
    })
}

/// The least cost of the whole graph, whether that is proved, and the moves of every run.
fn solve_least_cost(
    program: &CompiledProgram,
    candidates: &GraphCandidates,
) -> Result<(u64, bool, Vec<RequiredMove>)> {
    let (graph, options) = (&program.graph, &program.options);
    let assignment = choose_layouts(graph, options, candidates)?;
    let (cost, least_sum) = (assignment.cost, assignment.is_least_sum());
    let lowered =
        lower_graph(Rc::new(graph.clone()), options, &assignment, &mut AnsweredSteps::default())?;
    let moves = lowered.run_moves().map(|(tensor, reason, time)| RequiredMove {
        tensor: graph.get(tensor).name.clone(),
        reason: reason.into(),
        us: to_microseconds(time),
    });
    let moves = moves.collect();
    Ok((cost, least_sum, moves))
}

fn explain_choice(
    program: &CompiledProgram,
    id: TensorId,
    options: &[CandidateLayout],
) -> (&'static str, String) {
    let t = program.graph.get(id);
    if t.pin.is_some() {
        return ("pin", "the programmer pinned it".into());
    }
    let only = options.len() == 1;
    match &t.def {
        TensorOrigin::Input(InputRole::Weight) if only => (
            "caller",
            "a weight whose readers need no other layout, or whose layout is given".into(),
        ),
        TensorOrigin::Input(_) => match options.iter().find(|o| !o.chosen).and_then(|o| o.extra_us)
        {
            Some(_) => ("choice", summarize_choice(program, options)),
            None => ("caller", "inputs come in the default layout".into()),
        },
        TensorOrigin::Constant(_) => ("caller", "a constant".into()),
        _ if only => ("operation", "the only layout that its operation gives".into()),
        _ => ("choice", summarize_choice(program, options)),
    }
}

fn summarize_choice(program: &CompiledProgram, options: &[CandidateLayout]) -> String {
    let others = options.iter().filter(|o| !o.chosen);
    let next = others.filter_map(|o| Some((o.extra?, o.extra_us, &o.text))).min_by_key(|o| o.0);
    match next {
        None => "no other layout has a plan".into(),
        Some((0, _, text)) => format!("as cheap as the next one ({text}), and found first"),
        Some((extra, _, text)) if extra < 0 => match program.options.policy {
            CompilePolicy::Baseline => {
                format!("this policy did not look further; {text} would be cheaper")
            }
            CompilePolicy::Best => format!(
                "the fastest program that was tried has it, although the sum of costs is smaller with another \
                     layout ({text})"
            ),
        },
        Some((_, Some(us), text)) => {
            format!(
                "the sum of costs of the whole graph is {us:.2} us larger with the next one ({text})"
            )
        }
        Some((extra, None, text)) => format!("the next one ({text}) costs {extra} more"),
    }
}

/// Names of the graph that resemble one.
fn find_similar_names(program: &CompiledProgram, name: &str) -> String {
    let tail = name.rsplit('.').next().unwrap_or(name);
    let names = program.graph.tensors().map(|(_, t)| t.name.as_str());
    let near: Vec<&str> = names.filter(|n| !tail.is_empty() && n.contains(tail)).take(5).collect();
    if near.is_empty() { String::new() } else { format!("; similar: {}", near.join(", ")) }
}
