//! Compares `Einsum` of any number of operands with its definition: a sum over every value of every
//! letter.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod common;

use common::*;
use std::collections::BTreeMap;
use zellige_device::{Card, KeptDtypes};
use zellige_onnx::{OnnxModel, WeightData};
use zellige_run::{HostArray, run_graph_eagerly};

/// Numbers that look random and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    /// Some letters in some order.
    fn letters(&mut self, of: &[char], most: usize) -> Vec<char> {
        let mut left = of.to_vec();
        let count = self.below(most.min(left.len()) + 1);
        (0..count).map(|_| left.remove(self.below(left.len()))).collect()
    }
}

struct Case {
    equation: String,
    terms: Vec<Vec<char>>,
    result: Vec<char>,
    extents: BTreeMap<char, usize>,
    /// Elements that are so small that every sum of their products is exact.
    elements: Vec<Vec<f32>>,
}

impl Case {
    fn random(numbers: &mut Numbers) -> Case {
        let extents: BTreeMap<char, usize> =
            ('a'..='f').map(|l| (l, 1 + numbers.below(3))).collect();
        let all: Vec<char> = extents.keys().copied().collect();
        let terms: Vec<Vec<char>> =
            (0..1 + numbers.below(5)).map(|_| numbers.letters(&all, 4)).collect();
        let mut there: Vec<char> = terms.concat();
        there.sort_unstable();
        there.dedup();
        let result = numbers.letters(&there, 4);
        let texts: Vec<String> = terms.iter().map(|t| t.iter().collect()).collect();
        let equation = format!("{}->{}", texts.join(","), result.iter().collect::<String>());
        let count = |t: &Vec<char>| t.iter().map(|l| extents[l]).product();
        let elements = terms
            .iter()
            .map(|t| (0..count(t)).map(|_| numbers.below(3) as f32 - 1.0).collect())
            .collect();
        Case { equation, terms, result, extents, elements }
    }

    fn size(&self, letters: &[char]) -> Vec<i64> {
        letters.iter().map(|l| self.extents[l] as i64).collect()
    }

    /// The sum over every value of every letter.
    fn defined(&self) -> Vec<f32> {
        let letters: Vec<char> = self.extents.keys().copied().collect();
        let there: Vec<char> =
            letters.into_iter().filter(|l| self.terms.iter().any(|t| t.contains(l))).collect();
        let place = |of: &[char], at: &BTreeMap<char, usize>| {
            of.iter().fold(0, |sum, l| sum * self.extents[l] + at[l])
        };
        let mut sums = vec![0.0; self.result.iter().map(|l| self.extents[l]).product()];
        for number in 0..there.iter().map(|l| self.extents[l]).product() {
            let mut rest: usize = number;
            let mut at = BTreeMap::new();
            for l in &there {
                at.insert(*l, rest % self.extents[l]);
                rest /= self.extents[l];
            }
            let factors = self.terms.iter().zip(&self.elements).map(|(t, e)| e[place(t, &at)]);
            sums[place(&self.result, &at)] += factors.product::<f32>();
        }
        sums
    }

    fn net(&self) -> Net {
        let names: Vec<String> = (0..self.terms.len()).map(|k| format!("x{k}")).collect();
        let mut net = Net::new(17);
        for (name, term) in names.iter().zip(&self.terms) {
            net = net.input(name, F32, &self.size(term));
        }
        let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
        let equation: &'static str = self.equation.clone().leak();
        net.node("Einsum", &inputs, &["y"], &[A::S("equation", equation)]).output("y")
    }

    fn made(&self) -> (Vec<i64>, Vec<f32>) {
        let file = self.net().file();
        let imported = OnnxModel::read_model(&file).unwrap().import_graph(&BTreeMap::new());
        let imported = imported.unwrap_or_else(|e| panic!("{}: {e}", self.equation));
        let card = Card::builder().keep_dtypes(KeptDtypes::ALL).build().unwrap();
        let made = run_graph_eagerly(&imported.graph, &card, |name| {
            if let Some(w) = imported.weights.iter().find(|w| w.name == name) {
                let WeightData::Owned(bytes) = &w.data else { panic!("{name} is in no file") };
                return HostArray::from_contiguous(bytes.clone(), &w.size, w.dtype);
            }
            let k: usize = name[1..].parse().unwrap();
            Ok(HostArray::from_f32(&self.size(&self.terms[k]), &self.elements[k]))
        });
        let made = made.unwrap_or_else(|e| panic!("{}: {e}", self.equation));
        (made[0].size().to_vec(), made[0].to_f32().unwrap())
    }
}

#[test]
fn random_equations_give_what_their_definition_gives() {
    let mut numbers = Numbers(7);
    let mut several = 0;
    for _ in 0..300 {
        let case = Case::random(&mut numbers);
        let (size, made) = case.made();
        assert_eq!(size, case.size(&case.result), "{} {:?}", case.equation, case.extents);
        assert_eq!(made, case.defined(), "{} {:?}", case.equation, case.extents);
        several += usize::from(case.terms.len() > 2);
    }
    assert!(several > 100, "{several} of three operands or more");
}

/// A chain of products is multiplied in the order with the smallest intermediate tensors.
#[test]
fn a_chain_begins_where_its_products_are_small() {
    let net = Net::new(17)
        .input("a", F32, &[1000, 2])
        .input("b", F32, &[2, 1000])
        .input("c", F32, &[1000, 3])
        .node("Einsum", &["a", "b", "c"], &["y"], &[A::S("equation", "ij,jk,kl->il")])
        .output("y");
    let graph = net.import().unwrap().graph;
    let largest = graph.tensors().map(|(_, t)| t.size.iter().product::<i64>()).max();
    assert_eq!(largest, Some(3000));
}

#[test]
fn operands_that_do_not_agree_are_refused() {
    let net = |equation: &'static str, last: &[i64]| {
        Net::new(17)
            .input("a", F32, &[2, 3])
            .input("b", F32, &[3, 4])
            .input("c", F32, last)
            .node("Einsum", &["a", "b", "c"], &["y"], &[A::S("equation", equation)])
            .output("y")
            .refusal()
    };
    let told = net("ij,jk,ki->j", &[4, 5]);
    assert!(told.contains("operand 2 `c`: `i` is 5 here and 2 in operand 0"), "{told}");
    let told = net("ij,jk,ki->j", &[4]);
    assert!(told.contains("[4] for 2 letters"), "{told}");
    let told = net("ij,jk->ik", &[4]);
    assert!(told.contains("operand"), "{told}");
    let all = vec!["a"; 65];
    let equation: &'static str = vec!["i"; 65].join(",").leak();
    let many = Net::new(17).input("a", F32, &[2]);
    let told =
        many.node("Einsum", &all, &["y"], &[A::S("equation", equation)]).output("y").refusal();
    assert!(told.contains("65 operands; accepted: at most 64"), "{told}");
}
