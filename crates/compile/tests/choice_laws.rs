//! Choices of layouts against enumeration, on random small graphs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use zellige_compile::choose::{assign_layouts, choose_by_beam};
use zellige_compile::propagate::{
    GraphCandidates, OpAlternative, OperandLayout, propagate_layouts,
};
use zellige_compile::{CompilerOptions, OutputLayoutRule};
use zellige_device::TensorLayout;
use zellige_float::Dtype;
use zellige_graph::{Graph, GraphBuilder, GraphOperand, InputRole, TensorId, TensorOrigin};
use zellige_layout::{Layout, StridedLayout};
use zellige_machine::WorkKind;
use zellige_stick::StickLayout;

/// One operation to add: what, and which tensors so far.
type Step = (u8, usize, usize);

fn steps() -> impl Strategy<Value = (Vec<i64>, Vec<Step>, bool)> {
    let side = prop_oneof![Just(3i64), Just(64), Just(70), Just(128)];
    let size = (side, 1usize..4).prop_map(|(side, rank)| vec![side; rank]);
    let step = (0u8..10, 0usize..12, 0usize..12);
    (size, prop::collection::vec(step, 1..6), any::<bool>())
}

/// Extents are equal, so that transposes fit each other; every tensor is there turned, too.
fn build(size: &[i64], steps: &[Step]) -> Option<Graph> {
    let rank = size.len();
    let mut b = GraphBuilder::new("small");
    let turn = |b: &mut GraphBuilder, pool: &mut Vec<TensorId>, x: TensorId| {
        pool.push(x);
        if rank > 1 && b.tensor(x).size == size {
            let dims = json!({"dim0": 0, "dim1": rank - 1}).as_object().unwrap().clone();
            let name = format!("{}.t", b.tensor(x).name);
            pool.push(
                b.add_op("transpose", &[GraphOperand::Tensor(x)], &dims, &[&name]).unwrap()[0],
            );
        }
    };
    let mut pool: Vec<TensorId> = Vec::new();
    for name in ["a", "b"] {
        let x = b.add_input(name, size, Dtype::Float16, InputRole::Input).unwrap();
        turn(&mut b, &mut pool, x);
    }
    let mut last = None;
    for (k, (what, x, y)) in steps.iter().enumerate() {
        let (x, y) = (pool[x % pool.len()], pool[y % pool.len()]);
        let (op, list, attributes): (&str, Vec<TensorId>, Value) = match what {
            0..=4 => ("add", vec![x, y], Value::Null),
            5 if rank > 1 => ("matmul", vec![x, y], Value::Null),
            6 => ("softmax", vec![x], json!({"dim": 0})),
            7 => ("exp", vec![x], Value::Null),
            8 => ("sum", vec![x], json!({"dim": rank - 1, "keepdim": true})),
            _ => ("mul", vec![x, y], Value::Null),
        };
        let list: Vec<GraphOperand> = list.into_iter().map(GraphOperand::Tensor).collect();
        let map = if let Value::Object(map) = attributes { map } else { Map::new() };
        let made = b.add_op(op, &list, &map, &[&format!("t{k}")]).ok()?[0];
        last = Some(made);
        turn(&mut b, &mut pool, made);
    }
    b.finish_graph(&[last?]).ok()
}

/// A tensor, its layout, and the layout that a reader needs.
type ReadPlace = (TensorId, *const StickLayout, *const OperandLayout);

/// What a choice of one alternative for every operation costs: what the operations take, and every copy
/// that some reader needs, once. Written down here anew, from the definition.
struct Costs<'a> {
    graph: &'a Graph,
    options: &'a CompilerOptions,
    candidates: &'a GraphCandidates,
    /// What the caller wants of outputs.
    callers: Vec<(TensorId, OperandLayout)>,
    /// Pairs of copies that were compared. Wants live as long as the candidates, so that their places name them.
    same: RefCell<HashMap<(TensorId, [*const OperandLayout; 2]), bool>>,
    /// What a reader pays where a tensor has this layout, if no other reader has made the copy: nothing where it needs
    /// none.
    paid: RefCell<HashMap<ReadPlace, Option<u64>>>,
}

impl<'a> Costs<'a> {
    fn new(
        graph: &'a Graph,
        options: &'a CompilerOptions,
        candidates: &'a GraphCandidates,
    ) -> Costs<'a> {
        let wanted = |output: &TensorId| {
            let t = graph.get(*output);
            let layout = StickLayout::default_for_dtype(&t.size, t.dtype).unwrap();
            (*output, OperandLayout { view: None, layout })
        };
        let callers = match options.outputs {
            OutputLayoutRule::Default => graph.outputs().iter().map(wanted).collect(),
            OutputLayoutRule::AsComputed => Vec::new(),
        };
        let (same, paid) = (RefCell::default(), RefCell::default());
        Costs { graph, options, candidates, callers, same, paid }
    }

    fn chosen_layout(&self, values: &[usize], id: TensorId) -> &'a StickLayout {
        match self.graph.get(id).def {
            TensorOrigin::Result(node, k) => {
                &self.candidates.nodes[node.0][values[node.0]].results[k]
            }
            _ => &self.candidates.tensors[id.0][0],
        }
    }

    fn moved(&self, base: TensorId, own: &StickLayout, key: &OperandLayout) -> u64 {
        let dtype = self.graph.get(base).dtype;
        let whole = TensorLayout::new(self.options.storage, dtype, own).unwrap();
        let from = match &key.view {
            Some(view) => whole.view_layout(|_| Ok(view.clone())).unwrap(),
            None => whole,
        };
        let to = TensorLayout::new(self.options.storage, dtype, &key.layout).unwrap();
        let work = from.plan_copy_to(&to).unwrap().device_work(
            "copy",
            WorkKind::Restickify,
            self.options.cores,
        );
        let hardware = &self.options.hardware;
        // A copy is a step more, which the host launches.
        hardware.operation_latency(&work).cycles + hardware.step_launch_cycles()
    }

    /// Where a copy has the elements of the whole tensor; its views only order dimensions otherwise.
    fn bytes(&self, base: TensorId, key: &OperandLayout) -> Layout {
        let own = StridedLayout::new_contiguous(&self.graph.get(base).size).unwrap();
        let Some(view) = &key.view else { return key.layout.lower_to_layout().unwrap() };
        let copy = StridedLayout::new_contiguous(view.size()).unwrap();
        let step = |(n, s): (i64, i64)| {
            let along =
                view.sizes_and_strides().zip(copy.stride()).find(|(d, _)| n > 1 && *d == (n, s));
            along.map_or(0, |(_, step)| *step)
        };
        let strides: Vec<i64> = own.sizes_and_strides().map(step).collect();
        let seen = StridedLayout::new(own.size(), &strides, 0).unwrap();
        key.layout.lower_view(&seen).unwrap()
    }

    fn same_copy(&self, base: TensorId, a: &OperandLayout, b: &OperandLayout) -> bool {
        // Copies of one view in different layouts are different also where only extents of 1 differ.
        if a.view == b.view {
            return a == b;
        }
        let pair = (base, [std::ptr::from_ref(a), std::ptr::from_ref(b)]);
        *self.same.borrow_mut().entry(pair).or_insert_with(|| {
            let (a, b) = (self.bytes(base, a), self.bytes(base, b));
            a.find_difference(&b).is_ok_and(|d| d.is_none())
        })
    }

    /// Whether a reader finds the layout that it needs without a copy.
    fn there(&self, own: &StickLayout, key: &OperandLayout, caller: bool) -> bool {
        let places = |l: &StickLayout| l.lower_to_layout().unwrap();
        let copy = places(&key.layout);
        match &key.view {
            None => {
                key.layout == *own
                    || (caller && copy.find_difference(&places(own)).unwrap().is_none())
            }
            Some(view) => {
                let seen = own.lower_view(view);
                seen.is_ok_and(|seen| copy.find_difference(&seen).is_ok_and(|d| d.is_none()))
            }
        }
    }

    fn total<'s>(&'s self, values: &[usize]) -> u64 {
        let mut copies: Vec<(TensorId, &'s OperandLayout)> = Vec::new();
        let mut total = 0;
        let mut need = |base: TensorId, key: &'s OperandLayout, caller: bool| {
            let own = self.chosen_layout(values, base);
            let place = (base, std::ptr::from_ref(own), std::ptr::from_ref(key));
            let known = self.paid.borrow().get(&place).copied();
            let price = known.unwrap_or_else(|| {
                let there = self.there(own, key, caller);
                let price = (!there).then(|| self.moved(base, own, key));
                self.paid.borrow_mut().insert(place, price);
                price
            });
            let made =
                |(b, k): &(TensorId, &OperandLayout)| *b == base && self.same_copy(base, k, key);
            match price {
                Some(price) if !copies.iter().any(made) => {
                    copies.push((base, key));
                    price
                }
                _ => 0,
            }
        };
        for (n, node) in self.graph.nodes() {
            let chosen = &self.candidates.nodes[n.0][values[n.0]];
            total += chosen.cycles;
            for (operand, key) in node.inputs.iter().zip(&chosen.operands) {
                if let Some(key) = key {
                    total += need(self.graph.base_and_view(*operand).0, key, false);
                }
            }
        }
        for (output, key) in &self.callers {
            total += need(*output, key, true);
        }
        total
    }

    fn count(&self) -> usize {
        self.candidates.nodes.iter().fold(1usize, |n, list| n.saturating_mul(list.len()))
    }

    fn least(&self) -> u64 {
        let values = |mut i: usize| -> Vec<usize> {
            self.candidates.nodes.iter().map(|l| (i % l.len(), i /= l.len()).0).collect()
        };
        (0..self.count()).map(|i| self.total(&values(i))).min().unwrap()
    }
}

/// The least of all combinations, proved; and never above the beam's, counted in cycles.
#[test]
fn a_choice_is_the_least_of_all() {
    let mut runner = TestRunner::new(ProptestConfig { cases: 900, ..ProptestConfig::default() });
    let (tried, moved) = (Cell::new(0usize), Cell::new(0usize));
    let (proved, all) = (Cell::new(0usize), Cell::new(0usize));
    let law = |(size, steps, free): (Vec<i64>, Vec<Step>, bool)| {
        let graph = build(&size, &steps);
        prop_assume!(graph.is_some());
        let graph = graph.unwrap();
        let outputs = if free { OutputLayoutRule::AsComputed } else { OutputLayoutRule::Default };
        let options = CompilerOptions { outputs, ..CompilerOptions::default() };
        let candidates = propagate_layouts(&graph, &options).unwrap();
        let costs = Costs::new(&graph, &options, &candidates);
        let chosen = assign_layouts(&graph, &options, &candidates).unwrap();
        let position = |nodes: &[OpAlternative]| -> Vec<usize> {
            let lists = nodes.iter().zip(&candidates.nodes);
            lists.map(|(a, list)| list.iter().position(|b| a == b).unwrap()).collect()
        };
        prop_assert!(chosen.bound <= chosen.cost);
        proved.set(proved.get() + usize::from(chosen.is_least_sum()));
        all.set(all.get() + 1);
        let alone: u64 = chosen.nodes.iter().map(|a| a.cycles).sum();
        moved.set(moved.get() + usize::from(chosen.cost > alone));
        prop_assert_eq!(chosen.cost, costs.total(&position(&chosen.nodes)));
        let upstream = choose_by_beam(&graph, &options, &candidates).unwrap();
        prop_assert!(chosen.cost <= costs.total(&position(&upstream.nodes)));
        if costs.count() <= 3000 {
            tried.set(tried.get() + costs.count());
            let least = costs.least();
            prop_assert!(chosen.bound <= least && least <= chosen.cost);
            prop_assert!(!chosen.is_least_sum() || chosen.cost == least);
        }
        Ok(())
    };
    runner.run(&steps(), law).unwrap();
    // Tables stay small for nearly all of them, and then nothing is left open.
    assert!(proved.get() * 20 >= all.get() * 19, "{} of {} proved", proved.get(), all.get());
    // The law says something only where there is something to choose, and something to move.
    assert!(tried.get() > 3000, "only {} combinations", tried.get());
    assert!(moved.get() > 50, "only {} graphs move something", moved.get());
}
