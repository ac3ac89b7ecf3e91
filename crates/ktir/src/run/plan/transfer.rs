//! Loads and stores of a planned kernel: boxes become nests of loops, and gathers one nest for each index.

#![allow(clippy::needless_range_loop, reason = "dimensions index several lists at once")]

use super::super::access::{AccessMemory, BoundSubscript, KtirAccess, KtirByteSpace, KtirView};
use super::super::cost::count_merged_sticks;
use super::super::error::KtirFault;
use super::super::memory::{decode_elements, encode_elements};
use super::super::value::KtirElements;
use super::engine::Machine;
use super::program::{BoxPoints, Indirect, TileKind};
use super::store::{Piece, SharedMemory};
use crate::types::{KtirElem, KtirType};
use std::rc::Rc;

impl AccessMemory for &SharedMemory {
    fn read_index(
        &mut self,
        (place, byte): (KtirByteSpace, i64),
        elem: KtirElem,
    ) -> Result<i64, KtirFault> {
        self.read_one_integer(place, byte, elem)
    }
}

/// What an access tile was resolved to.
enum Resolved {
    /// Nests of loops, in the scratch list; the elements that they have, and whether they may share sticks.
    Pieces { elements: usize, parts: bool },
    /// Runs of elements, by the plain interpreter's definition.
    Runs(super::super::access::KtirAccessRuns),
}

impl Machine<'_> {
    pub(super) fn load(
        &mut self,
        access: u32,
        shape: usize,
        tile: &TileKind,
        data: u32,
    ) -> Result<(), KtirFault> {
        let resolved = self.resolve(access, shape)?;
        self.check_elements(&resolved, &tile.ty, tile.len)?;
        let elem = tile.elem;
        match &resolved {
            Resolved::Pieces { .. } => {
                if elem.is_float() {
                    let mut floats = self.arena.take_floats(data);
                    for piece in &self.scratch.pieces {
                        self.memory.read_floats(piece, elem, &mut floats)?;
                    }
                    self.arena.data[data as usize].floats = floats;
                } else {
                    let mut ints = self.arena.take_ints(data);
                    for piece in &self.scratch.pieces {
                        self.memory.read_ints(piece, elem, &mut ints)?;
                    }
                    self.arena.data[data as usize].ints = ints;
                }
            }
            Resolved::Runs(runs) => {
                let size = elem.byte_size() * runs.len;
                let mut raw = vec![0; runs.runs.len() * size];
                for (run, to) in runs.runs.iter().zip(raw.chunks_exact_mut(size.max(1))) {
                    self.memory.read_run(*run, to)?;
                }
                let to = &mut self.arena.data[data as usize];
                match decode_elements(&raw, elem) {
                    KtirElements::F(v) => to.floats = v,
                    KtirElements::I(v) => to.ints = v,
                }
            }
        }
        self.charge(&resolved, elem, false);
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        access: u32,
        shape: usize,
        data: u32,
        (ty, len): (&KtirType, usize),
        step: usize,
    ) -> Result<(), KtirFault> {
        let resolved = self.resolve(access, shape)?;
        self.check_elements(&resolved, ty, len)?;
        let elem = self.program.accesses[shape].elem;
        self.arena.data[data as usize].spread();
        let by = (self.core.id, step);
        let before = self.written.len();
        match &resolved {
            Resolved::Pieces { .. } => {
                let of = &self.arena.data[data as usize];
                for piece in &self.scratch.pieces {
                    self.memory.write_piece(piece, elem, &of.floats, &of.ints, by, self.written)?;
                }
            }
            Resolved::Runs(runs) => {
                let raw = encode_elements(&self.arena.data[data as usize].to_elements(), elem);
                let size = elem.byte_size() * runs.len;
                for (run, from) in runs.runs.iter().zip(raw.chunks_exact(size.max(1))) {
                    self.memory.write_run(*run, from, by, self.written)?;
                }
            }
        }
        let grown = self.written.len().saturating_sub(before);
        self.meter.take_bytes((grown * size_of::<super::store::WrittenRows>()) as u64)?;
        self.charge(&resolved, elem, true);
        Ok(())
    }

    /// Refuses a tensor of another size than the access tile.
    fn check_elements(
        &self,
        resolved: &Resolved,
        ty: &KtirType,
        n: usize,
    ) -> Result<(), KtirFault> {
        let elements = match resolved {
            Resolved::Pieces { elements, .. } => *elements,
            Resolved::Runs(runs) => runs.runs.len() * runs.len,
        };
        if elements == n {
            return Ok(());
        }
        Err(KtirFault::Invalid(format!("the access tile has {elements} elements, {ty} has {n}")))
    }

    fn charge(&mut self, resolved: &Resolved, elem: KtirElem, write: bool) {
        let (core, cores) = (self.core.id, self.program.cores);
        let ledger = &mut self.core.ledger;
        let Resolved::Pieces { parts, .. } = resolved else {
            if let Resolved::Runs(runs) = resolved {
                ledger.record_transfer(runs, elem.byte_size(), write, core, cores);
            }
            return;
        };
        let size = i64::try_from(elem.byte_size()).unwrap_or(8);
        let pieces = &self.scratch.pieces;
        let spans = &mut self.scratch.sticks;
        spans.clear();
        let mut sticks = 0;
        for piece in pieces {
            let (burst, count) = piece.bursts(size);
            match piece.place {
                KtirByteSpace::Global => {
                    ledger.record_global_bursts(burst, count, write);
                    match piece.count_sticks(size) {
                        // Sticks that several partitions share are charged to each of them.
                        Some(n) if *parts || pieces.len() == 1 => sticks += n,
                        _ if *parts => {
                            let mut own = Vec::new();
                            piece.list_sticks(size, &mut own);
                            sticks += count_merged_sticks(&mut own);
                        }
                        _ => piece.list_sticks(size, spans),
                    }
                }
                KtirByteSpace::Nowhere => {}
                KtirByteSpace::Pad(other) => {
                    for _ in 0..count {
                        ledger.record_pad_run(other, burst, core, cores);
                    }
                }
            }
        }
        sticks += count_merged_sticks(spans);
        ledger.record_sticks(sticks);
        for (of, elem) in self.scratch.index.iter_mut().zip(&self.scratch_elems) {
            ledger.record_index_reads(of, *elem, core, cores);
        }
    }

    fn resolve(&mut self, access: u32, shape: usize) -> Result<Resolved, KtirFault> {
        self.scratch.pieces.clear();
        self.scratch.index.clear();
        self.scratch_elems.clear();
        let program = self.program;
        let of = &program.accesses[shape];
        // The cost model of the card depends on the lengths of bursts, for which the plain definition is kept.
        let plain_order = of.order.as_ref().is_none_or(crate::affine::KtirAffineMap::is_identity);
        let planned = match (&of.points, &of.indirect) {
            (Some(points), None) => {
                let joined =
                    self.core.views[of.view as usize].as_ref().is_some_and(|v| v.view.joined);
                if self.exact_bursts && (joined || !plain_order) {
                    None
                } else {
                    self.plan_box(of.view, access, points)
                }
            }
            (Some(points), Some(indirect)) if !self.exact_bursts => {
                self.plan_gather(of.view, points, indirect)
            }
            _ => None,
        };
        if let Some(planned) = planned {
            let size = i64::try_from(of.elem.byte_size()).unwrap_or(8);
            let rows: u64 = self.scratch.pieces.iter().map(|p| p.bursts(size).1).sum();
            // Each row may become a record of what was written, and a range of sticks.
            self.meter.check_room(rows.saturating_mul(64))?;
            return Ok(planned);
        }
        self.scratch.pieces.clear();
        self.resolve_plainly(access, shape).map(Resolved::Runs)
    }

    /// By the definition: also where an access is refused, so that the refusal names the element.
    fn resolve_plainly(
        &mut self,
        access: u32,
        shape: usize,
    ) -> Result<super::super::access::KtirAccessRuns, KtirFault> {
        let of = &self.program.accesses[shape];
        let view_of = |slot: u32| -> Result<Rc<KtirView>, KtirFault> {
            let view = self.core.views[slot as usize].as_ref();
            let view = view.ok_or_else(|| KtirFault::Invalid("a view without a value".into()))?;
            Ok(Rc::new((*view.view).clone()))
        };
        let view = view_of(of.view)?;
        let (set, order) = (of.set.clone(), of.order.clone());
        let plain = match &of.indirect {
            None => {
                let base = self.core.bases[access as usize].clone();
                KtirAccess::Direct { view, base, set, order }
            }
            Some(indirect) => {
                let captured: Vec<i64> =
                    indirect.captured.iter().map(|r| self.core.ints[*r as usize]).collect();
                let mut subscripts = Vec::new();
                for s in &indirect.subscripts {
                    let through = match s.through {
                        Some((slot, _)) => Some(view_of(slot)?),
                        None => None,
                    };
                    let (map, captured) = (s.map.clone(), captured.clone());
                    subscripts.push(BoundSubscript { map, captured, through });
                }
                KtirAccess::Indirect { view, subscripts, set, order }
            }
        };
        let mut memory = self.memory;
        plain.resolve_runs(&mut memory, self.meter)
    }

    /// A box of a view as pieces, one for each partition that it meets.
    fn plan_box(&mut self, view: u32, access: u32, points: &BoxPoints) -> Option<Resolved> {
        let slot = self.core.views[view as usize].as_ref()?;
        let (of, base) = (&slot.view, &self.core.bases[access as usize]);
        let size = i64::try_from(of.elem.byte_size()).ok()?;
        let rank = base.len();
        let total = points.extents.iter().try_fold(1_i64, |n, e| n.checked_mul(*e))?;
        if total == 0 || points.low.len() != rank || of.shape.len() != rank {
            return None;
        }
        let corner = |d: usize| base[d].checked_add(points.low[d]);
        if !of.joined {
            let part = of.parts.first()?;
            let mut first = part.base;
            for d in 0..rank {
                let from = corner(d)?;
                if from < 0 || from.checked_add(points.extents[d])? > of.shape[d] {
                    return None;
                }
                first = first.checked_add(from.checked_mul(part.strides[d])?)?;
            }
            let loops = (0..rank).map(|d| (points.extents[d], part.strides[d], points.tile[d]));
            let piece = Piece::new(part.place, first, 0, loops)?;
            if !self.memory.holds_piece(&piece, size) {
                return None;
            }
            self.scratch.pieces.push(piece);
            return Some(Resolved::Pieces { elements: usize::try_from(total).ok()?, parts: false });
        }
        let mut covered = 0_i64;
        // Boxes of the partitions that were met, because the first partition wins where two overlap.
        let mut met: Vec<Vec<(i64, i64)>> = Vec::new();
        for (part, bounds) in of.parts.iter().zip(&slot.bounds) {
            let bounds = bounds.as_ref()?;
            let mut meet = Vec::with_capacity(rank);
            for d in 0..rank {
                let from = corner(d)?;
                let to = from.checked_add(points.extents[d])?;
                let end = bounds.low[d].checked_add(bounds.extents[d])?;
                meet.push((from.max(bounds.low[d]), to.min(end)));
            }
            if meet.iter().any(|(from, to)| from >= to) {
                continue;
            }
            let overlaps = |other: &Vec<(i64, i64)>| {
                other.iter().zip(&meet).all(|((a, b), (c, d))| a < d && c < b)
            };
            if met.iter().any(overlaps) {
                return None;
            }
            let (mut first, mut at) = (part.base, 0_i64);
            for d in 0..rank {
                let local = meet[d].0.checked_sub(bounds.low[d])?;
                first = first.checked_add(local.checked_mul(part.strides[d])?)?;
                at += (meet[d].0 - corner(d)?) * points.tile[d];
            }
            let loops = (0..rank).map(|d| (meet[d].1 - meet[d].0, part.strides[d], points.tile[d]));
            let piece = Piece::new(part.place, first, at, loops)?;
            if !self.memory.holds_piece(&piece, size) {
                return None;
            }
            covered += piece.len();
            self.scratch.pieces.push(piece);
            met.push(meet);
            if covered == total {
                break;
            }
        }
        let whole = covered == total;
        whole.then_some(Resolved::Pieces { elements: usize::try_from(total).ok()?, parts: true })
    }

    /// A gather as one piece for each combination of the variables that choose indices.
    fn plan_gather(
        &mut self,
        view: u32,
        points: &BoxPoints,
        indirect: &Indirect,
    ) -> Option<Resolved> {
        let slot = self.core.views[view as usize].as_ref()?;
        let of = slot.view.clone();
        if of.joined {
            return None;
        }
        let part = of.parts.first()?;
        let size = i64::try_from(of.elem.byte_size()).ok()?;
        let variables = points.low.len();
        let total = points.extents.iter().try_fold(1_i64, |n, e| n.checked_mul(*e))?;
        if total == 0 || indirect.subscripts.len() != of.shape.len() {
            return None;
        }
        let mut values = points.low.clone();
        values.extend(indirect.captured.iter().map(|r| self.core.ints[*r as usize]));
        let evaluate = |(k, c): &(Vec<i64>, i64), values: &[i64]| -> Option<i64> {
            k.iter().zip(values).try_fold(*c, |sum, (k, v)| sum.checked_add(k.checked_mul(*v)?))
        };
        // How far each inner variable moves in memory, and how far each coordinate reaches within the inner loops.
        let mut inner = vec![0_i64; variables];
        let mut reach = vec![(0_i64, 0_i64); of.shape.len()];
        let mut sources = Vec::new();
        for (d, s) in indirect.subscripts.iter().enumerate() {
            let forms = s.linear.as_ref()?;
            match s.through {
                Some((slot, elem)) => {
                    let index = self.core.views[slot as usize].as_ref()?.view.clone();
                    if index.joined || index.shape.len() != forms.len() {
                        return None;
                    }
                    sources.push(Some(index));
                    self.scratch.index.push(Vec::new());
                    self.scratch_elems.push(elem);
                }
                None => {
                    let (k, _) = forms.first()?;
                    for v in indirect.split..variables {
                        let step = k.get(v).copied().unwrap_or(0);
                        inner[v] = inner[v].checked_add(step.checked_mul(part.strides[d])?)?;
                        let far = step.checked_mul(points.extents[v] - 1)?;
                        if far < 0 {
                            reach[d].0 = reach[d].0.checked_add(far)?;
                        } else {
                            reach[d].1 = reach[d].1.checked_add(far)?;
                        }
                    }
                    sources.push(None);
                }
            }
        }
        let outer: i64 = points.extents[..indirect.split].iter().product();
        if self.meter.take_element_steps(u64::try_from(outer).ok()?.saturating_mul(8)).is_err() {
            return None;
        }
        let mut at = 0_i64;
        loop {
            let (mut first, mut number) = (part.base, 0);
            for (d, s) in indirect.subscripts.iter().enumerate() {
                let forms = s.linear.as_ref()?;
                let coordinate = match (&sources[d], s.through) {
                    (Some(index), Some((_, elem))) => {
                        let of = index.parts.first()?;
                        let mut element = of.base;
                        for (e, form) in forms.iter().enumerate() {
                            let i = evaluate(form, &values)?;
                            if !(0..index.shape[e]).contains(&i) {
                                return None;
                            }
                            element = element.checked_add(i.checked_mul(of.strides[e])?)?;
                        }
                        let width = i64::try_from(elem.byte_size()).ok()?;
                        let byte = element.checked_mul(width)?;
                        let value = self.memory.read_one_integer(of.place, byte, elem).ok()?;
                        self.scratch.index[number].push((of.place, byte));
                        number += 1;
                        value
                    }
                    _ => evaluate(forms.first()?, &values)?,
                };
                let (low, high) = reach[d];
                if coordinate.checked_add(low)? < 0 || coordinate.checked_add(high)? >= of.shape[d]
                {
                    return None;
                }
                first = first.checked_add(coordinate.checked_mul(part.strides[d])?)?;
            }
            let loops =
                (indirect.split..variables).map(|v| (points.extents[v], inner[v], points.tile[v]));
            let piece = Piece::new(part.place, first, at, loops)?;
            if !self.memory.holds_piece(&piece, size) {
                return None;
            }
            self.scratch.pieces.push(piece);
            let mut d = indirect.split;
            loop {
                if d == 0 {
                    let elements = usize::try_from(total).ok()?;
                    return Some(Resolved::Pieces { elements, parts: false });
                }
                d -= 1;
                values[d] += 1;
                at += points.tile[d];
                if values[d] < points.low[d] + points.extents[d] {
                    break;
                }
                at -= points.tile[d] * points.extents[d];
                values[d] = points.low[d];
            }
        }
    }
}
