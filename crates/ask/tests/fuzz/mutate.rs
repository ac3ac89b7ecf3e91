//! Changes of numbers, fields, types, texts and bytes of a request.

use crate::generate::{FRAGMENTS, count, extreme, plausible};
use crate::rng::Rng;
use crate::seeds::SEEDS;
use serde_json::{Map, Value, json};
use zellige_notation::Notation;

/// Runs `f` on the node with that number, depth first.
pub(crate) fn visit(v: &mut Value, at: &mut usize, f: &mut dyn FnMut(&mut Value)) {
    if *at == 0 {
        f(v);
        *at = usize::MAX;
        return;
    }
    *at -= 1;
    let children: Vec<&mut Value> = match v {
        Value::Array(list) => list.iter_mut().take(64).collect(),
        Value::Object(map) => map.values_mut().collect(),
        _ => return,
    };
    for child in children {
        visit(child, at, f);
        if *at == usize::MAX {
            return;
        }
    }
}

pub(crate) fn number(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

pub(crate) fn mutate(request: &mut Value, rng: &mut Rng, texts: &[String]) {
    let mut at = rng.below(count(request));
    visit(request, &mut at, &mut |node| match node {
        _ if rng.one_in(12) => {
            *node = match rng.below(8) {
                0 => Value::Null,
                1 => json!(true),
                2 => json!(texts[rng.below(texts.len())]),
                3 => json!([]),
                4 => json!({}),
                5 => json!(1.5),
                6 => json!([[extreme(rng)]]),
                _ => number(extreme(rng)),
            };
        }
        Value::Number(_) => *node = number(extreme(rng)),
        Value::String(s) => *s = mutate_text(s, rng, texts),
        Value::Array(list) => match rng.below(6) {
            0 if !list.is_empty() => drop(list.remove(rng.below(list.len()))),
            1 if !list.is_empty() => list.push(list[rng.below(list.len())].clone()),
            2 if !list.is_empty() && rng.one_in(20) => {
                let one = list[0].clone();
                let n = 10usize.pow(u32::try_from(1 + rng.below(4)).unwrap_or(1));
                list.extend(std::iter::repeat_n(one, n));
            }
            3 => list.reverse(),
            4 => list.push(number(extreme(rng))),
            _ => list.clear(),
        },
        Value::Object(map) => {
            let keys: Vec<String> = map.keys().cloned().collect();
            let Some(key) = (!keys.is_empty()).then(|| keys[rng.below(keys.len())].clone()) else {
                return;
            };
            match rng.below(4) {
                0 => drop(map.shift_remove(&key)),
                1 => {
                    let v = map.shift_remove(&key).unwrap_or(Value::Null);
                    map.insert(
                        rng.pick(&["shape", "layout", "axis", "as", "vector", "x"]).to_string(),
                        v,
                    );
                }
                2 => {
                    let other: Map<String, Value> =
                        serde_json::from_str(rng.pick(SEEDS)).expect("seeds are JSON");
                    map.extend(other);
                }
                _ => {
                    let mut names: Vec<&str> =
                        Notation::all_notations().map(Notation::name).collect();
                    names.push("");
                    let field = rng.pick(&["as", "notation", "to"]);
                    map.insert(field.into(), json!(rng.pick(&names)));
                }
            }
        }
        _ => {}
    });
}

pub(crate) fn boundary(s: &str, rng: &mut Rng) -> usize {
    let mut i = rng.below(s.len() + 1);
    while !s.is_char_boundary(i) {
        i -= 1;
    }
    i
}

pub(crate) fn mutate_text(s: &str, rng: &mut Rng, texts: &[String]) -> String {
    let at = boundary(s, rng);
    match rng.below(10) {
        0..=3 => {
            // Another number in the place of one of its numbers.
            let starts: Vec<usize> = s
                .char_indices()
                .filter(|(i, c)| {
                    c.is_ascii_digit() && !s[..*i].ends_with(|p: char| p.is_ascii_digit())
                })
                .map(|(i, _)| i)
                .collect();
            let Some(start) = (!starts.is_empty()).then(|| rng.pick(&starts)) else {
                return extreme(rng).into();
            };
            let end = s[start..].find(|c: char| !c.is_ascii_digit()).map_or(s.len(), |i| start + i);
            let with = if rng.one_in(2) { extreme(rng).into() } else { plausible(rng).to_string() };
            format!("{}{with}{}", &s[..start], &s[end..])
        }
        4 => s[..at].to_string(),
        5 => s[at..].to_string(),
        6 => format!("{}{}{}", &s[..at], rng.pick(FRAGMENTS), &s[at..]),
        7 => {
            let other = &texts[rng.below(texts.len())];
            let cut = boundary(other, rng);
            format!("{}{}", &s[..at], &other[cut..])
        }
        8 if rng.one_in(10) => {
            let piece =
                rng.pick(FRAGMENTS).repeat(10usize.pow(u32::try_from(rng.below(5)).unwrap_or(0)));
            format!("{}{piece}{}", &s[..at], &s[at..])
        }
        _ => texts[rng.below(texts.len())].clone(),
    }
}
