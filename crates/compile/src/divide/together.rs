//! Divisions of all operations of a program at once, and which results never leave the scratchpads.
//!
//! A result may stay in the scratchpads when its producer and all its readers give every core the same
//! part of it. Whether they do is a matter of their divisions, so divisions and residency are one
//! choice: every step has a few divisions, every result is kept or not, and the total latency is
//! a sum over steps. The least is found by elimination, as for layouts. Room in the scratchpads is not
//! part of it: what does not fit is put back into memory when buffers are placed.

use super::Policy;
use super::ways::Ways;
use crate::choose::{FORBIDDEN, Problem, solve};
use crate::decisions::Decisions;
use crate::error::Result;
use crate::program::{BufferId, Origin, Place, Program};
use std::collections::HashMap;

/// Tables of at most this many entries.
const LIMIT: usize = 1 << 18;

/// A result that could stay in the scratchpads: who makes it, who reads it, and as which tensor.
#[derive(Debug)]
pub(crate) struct Keepable {
    pub(crate) buffer: BufferId,
    pub(crate) producer: (usize, usize),
    pub(crate) readers: Vec<(usize, usize)>,
}

/// Results that are read whole, by operations whose loops are known, and by nobody else.
pub(crate) fn keepable(program: &Program, ways: &Ways) -> Vec<Keepable> {
    let mut list: Vec<Option<Keepable>> = program.buffers.iter().map(|_| None).collect();
    let known = |step: usize| {
        !program.steps[step].load && ways.forms[step].as_ref().is_some_and(|f| f.loops.is_some())
    };
    for (i, step) in program.steps.iter().enumerate() {
        for (k, b) in step.writes.iter().enumerate() {
            if known(i) && program.buffer(*b).origin == Origin::Result {
                let producer = (i, step.reads.len() + k);
                list[b.0] = Some(Keepable { buffer: *b, producer, readers: Vec::new() });
            }
        }
        for (k, read) in step.reads.iter().enumerate() {
            let whole = read.laid == program.buffer(read.buffer).laid;
            match &mut list[read.buffer.0] {
                Some(keep) if whole && known(i) => keep.readers.push((i, k)),
                other => *other = None,
            }
        }
    }
    for output in &program.outputs {
        list[output.buffer.0] = None;
    }
    for (i, buffer) in program.buffers.iter().enumerate() {
        if let Place::Over(of) = buffer.place {
            list[i] = None;
            list[of.0] = None;
        }
    }
    list.into_iter().flatten().filter(|k| !k.readers.is_empty()).collect()
}

/// What was decided: a way for every step, and the results that stay in the scratchpads.
pub(crate) struct Together {
    pub(crate) ways: Ways,
    pub(crate) chosen: Vec<usize>,
    pub(crate) kept: Vec<Keepable>,
    /// Whether nothing that was considered takes less.
    pub(crate) optimal: bool,
}

/// Divides all steps of a program together, or as they were decided in a program like it.
///
/// # Errors
/// Tensors that kernels cannot read as they lie.
pub(crate) fn together(program: &Program, like: Option<&Decisions>) -> Result<Together> {
    let (mut ways, exact) = Ways::of(program, like)?;
    let options = &program.options;
    let mut candidates =
        if options.scratchpads.is_some() { keepable(program, &ways) } else { Vec::new() };
    if let Some(like) = like {
        let kept = like.kept();
        candidates.retain(|k| kept.contains(program.buffer(k.buffer).name.as_str()));
        if exact && stay(program, &ways, &candidates) {
            let chosen = vec![0; ways.ways.len()];
            return Ok(Together { ways, chosen, kept: candidates, optimal: like.optimal() });
        }
    } else if options.policy == Policy::Best {
        for keep in &candidates {
            for reader in &keep.readers {
                ways.suggest(options, keep.producer, *reader);
            }
        }
        for keep in candidates.iter().rev() {
            for reader in &keep.readers {
                ways.suggest(options, *reader, keep.producer);
            }
        }
    }
    let solved = solved(program, ways, candidates)?;
    Ok(Together { optimal: solved.optimal && like.is_none(), ..solved })
}

/// Whether all of these can stay in the scratchpads, every step divided in its first way.
fn stay(program: &Program, ways: &Ways, kept: &[Keepable]) -> bool {
    let agree = |k: &Keepable| {
        let (from, tensor) = k.producer;
        k.readers.iter().all(|(to, read)| ways.agree((from, 0, tensor), (*to, 0, *read)))
    };
    let mut tensors: Vec<Vec<usize>> = vec![Vec::new(); program.steps.len()];
    for (step, tensor) in kept.iter().flat_map(|k| k.readers.iter().chain([&k.producer])) {
        tensors[*step].push(*tensor);
    }
    let accounted = |(i, list): (usize, &Vec<usize>)| {
        let form = ways.forms[i].as_ref();
        list.is_empty() || form.is_some_and(|f| f.kept(&ways.ways[i][0], list).is_some())
    };
    kept.iter().all(agree) && tensors.iter().enumerate().all(accounted)
}

/// The least total over the ways of all steps and what may stay.
fn solved(program: &Program, ways: Ways, candidates: Vec<Keepable>) -> Result<Together> {
    let options = &program.options;
    let mut problem = Problem::new();
    for list in &ways.ways {
        problem.variable(list.len());
    }
    // Value 0 keeps a result: of equal totals, the one with less traffic.
    let vars: Vec<usize> = candidates.iter().map(|_| problem.variable(2)).collect();
    let mut costs: HashMap<(usize, usize, Vec<usize>), u64> = HashMap::new();
    for (i, step) in program.steps.iter().enumerate() {
        let mine: Vec<(usize, usize)> = candidates
            .iter()
            .enumerate()
            .flat_map(|(c, keep)| {
                let all = keep.readers.iter().chain([&keep.producer]);
                all.filter(|(s, _)| *s == i).map(move |(_, tensor)| (c, *tensor))
            })
            .collect();
        let mut scope = vec![i];
        for (c, _) in &mine {
            if !scope.contains(&vars[*c]) {
                scope.push(vars[*c]);
            }
        }
        let load = step.load;
        problem.cost(&scope, |values| {
            let stays = |c: usize| {
                scope.iter().position(|v| *v == vars[c]).is_some_and(|at| values[at] == 0)
            };
            let tensors: Vec<usize> =
                mine.iter().filter(|(c, _)| stays(*c)).map(|(_, t)| *t).collect();
            let key = (ways.class[i], values[0], tensors);
            if let Some(known) = costs.get(&key) {
                return if load { known / 1024 } else { *known };
            }
            let way = &ways.ways[i][values[0]];
            let work = match (&key.2[..], &ways.forms[i]) {
                ([], _) => Some(way.work.clone()),
                (list, Some(form)) => form.kept(way, list),
                (_, None) => None,
            };
            let cycles = work.map_or(FORBIDDEN, |w| options.hardware.latency(&w).cycles);
            costs.insert(key, cycles);
            if load { cycles / 1024 } else { cycles }
        })?;
    }
    let mut agreed: HashMap<(usize, usize, usize, usize, usize, usize), bool> = HashMap::new();
    for (keep, var) in candidates.iter().zip(&vars) {
        for (reader, tensor) in &keep.readers {
            let (from, to) = (keep.producer, (*reader, *tensor));
            problem.cost(&[from.0, to.0, *var], |v| {
                if v[2] == 1 {
                    return 0;
                }
                let key = (ways.class[from.0], v[0], from.1, ways.class[to.0], v[1], to.1);
                let same = *agreed
                    .entry(key)
                    .or_insert_with(|| ways.agree((from.0, v[0], from.1), (to.0, v[1], to.1)));
                if same { 0 } else { FORBIDDEN }
            })?;
        }
    }
    let solution = solve(&problem, LIMIT)?;
    let optimal = solution.is_optimal();
    let stays = |at: usize| solution.values[vars[at]] == 0;
    let kept: Vec<Keepable> =
        candidates.into_iter().enumerate().filter(|(at, _)| stays(*at)).map(|(_, k)| k).collect();
    let chosen = solution.values[..ways.ways.len()].to_vec();
    Ok(Together { ways, chosen, kept, optimal })
}
