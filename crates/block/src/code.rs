//! A plan as a device function of CUDA C++, without templates or headers.

use crate::fragment::{BlockFragment, THREADS_OF_WARP};
use crate::plan::{BlockConversion, ConversionRoute};
use crate::shared::{SharedAccesses, SharedPlan};
use crate::steps::{ConversionStep, WordPart};
use std::fmt::Write;

/// The function of a plan. `src` and `dst` are words of 32 bits with the elements of a thread in the order of its
/// registers, the first in the lowest bits.
pub fn print_cuda(
    plan: &BlockConversion,
    from: &BlockFragment,
    to: &BlockFragment,
    name: &str,
) -> String {
    let parts = plan.bits.div_ceil(32);
    let source = from.split_elements(parts).with_threads(plan.threads);
    let wanted = to.split_elements(parts).with_threads(plan.threads);
    let words = |fragment: &BlockFragment| fragment.registers().div_ceil(plan.per_word).max(1);
    let c = plan.counts();
    let mut text = format!(
        "// {} threads, {} elements of {} bits in registers; {}.\n",
        plan.threads,
        from.elements(),
        plan.bits,
        match plan.route() {
            ConversionRoute::Nothing => "every word is in its thread already".to_string(),
            ConversionRoute::SharedMemory => format!(
                "through {} bytes of shared memory, {} wavefronts (at least {})",
                c.shared_bytes, c.wavefronts, c.least_wavefronts
            ),
            _ => format!(
                "{} shuffles (at least {}), {} selects, {} byte permutations",
                c.shuffles, c.least_shuffles, c.selects, c.permutes
            ),
        }
    );
    if plan.route() == ConversionRoute::SharedMemory {
        text += "// smem is aligned to 16 bytes, and no thread uses it for something else at the same time.\n";
    } else {
        text += "// All lanes of a warp call it together.\n";
    }
    let memory = if plan.shared.is_some() { ", char* smem" } else { "" };
    let _ = writeln!(
        text,
        "__device__ __forceinline__ void {name}(const unsigned (&src)[{}], unsigned (&dst)[{}]{memory}) {{",
        words(&source),
        words(&wanted)
    );
    match &plan.shared {
        Some(shared) => print_shared(&mut text, plan, shared, &source, &wanted),
        None => print_steps(&mut text, plan),
    }
    text += "}\n";
    text
}

fn print_steps(text: &mut String, plan: &BlockConversion) {
    let value = |number: usize| match number.checked_sub(plan.source_words) {
        None => format!("src[{number}]"),
        Some(step) => format!("v{step}"),
    };
    let uses_lane = plan.steps.iter().any(|s| !matches!(s, ConversionStep::Pack { .. }));
    if uses_lane {
        *text += "  const unsigned lane = threadIdx.x & 31;\n";
    }
    for (number, step) in plan.steps.iter().enumerate() {
        let made = match step {
            ConversionStep::Pack { parts } => print_pack(parts, plan.per_word, &value),
            ConversionStep::Select { options } => {
                let last = options.len().saturating_sub(1);
                let mut e = options.last().map_or("0".into(), |(_, word)| value(*word));
                for (mask, word) in options[..last].iter().rev() {
                    e = format!("({mask:#010x}u >> lane & 1) ? {} : {e}", value(*word));
                }
                e
            }
            ConversionStep::Shuffle { word, lanes } => {
                let table: Vec<usize> = lanes.iter().map(|l| usize::from(*l)).collect();
                match linear_form(&table, "lane") {
                    Some(lane) => format!("__shfl_sync(0xffffffffu, {}, {lane})", value(*word)),
                    None => {
                        let list: Vec<String> = lanes.iter().map(u8::to_string).collect();
                        let _ = writeln!(
                            text,
                            "  static const unsigned char from{number}[32] = {{{}}};",
                            list.join(", ")
                        );
                        format!("__shfl_sync(0xffffffffu, {}, from{number}[lane])", value(*word))
                    }
                }
            }
        };
        let _ = writeln!(text, "  const unsigned v{number} = {made};");
    }
    for (word, result) in plan.results.iter().enumerate() {
        if let Some(result) = result {
            let _ = writeln!(text, "  dst[{word}] = {};", value(*result));
        }
    }
}

/// Bytes of words, two words for an instruction.
fn print_pack(
    parts: &[Option<WordPart>],
    per_word: usize,
    value: &impl Fn(usize) -> String,
) -> String {
    let part_bytes = 4 / per_word;
    // Of each byte of the result, the word and its byte.
    let bytes: Vec<Option<(usize, usize)>> = (0..4)
        .map(|b| parts[b / part_bytes].map(|p| (p.word, p.part * part_bytes + b % part_bytes)))
        .collect();
    let mut words: Vec<usize> = bytes.iter().flatten().map(|(word, _)| *word).collect();
    words.sort_unstable();
    words.dedup();
    let Some((first, rest)) = words.split_first() else { return "0".into() };
    // Made so far: the bytes of the words that were taken, at their places.
    let mut made = value(*first);
    let mut placed = false;
    let selector = |high: Option<usize>, placed: bool| {
        (0..4).rev().fold(0_u32, |nibbles, b| {
            let nibble = match bytes[b] {
                Some((word, byte)) if Some(word) == high => 4 + byte,
                Some((word, byte)) if word == *first && !placed => byte,
                // A byte that is placed already, or that nobody needs.
                _ => b,
            };
            nibbles << 4 | u32::try_from(nibble).unwrap_or(0)
        })
    };
    for word in rest {
        made = format!(
            "__byte_perm({made}, {}, {:#06x})",
            value(*word),
            selector(Some(*word), placed)
        );
        placed = true;
    }
    if rest.is_empty() {
        made = format!("__byte_perm({made}, 0, {:#06x})", selector(None, false));
    }
    made
}

/// A table by number as XORs of shifted bits, if it is one: the entry of 0, and what each bit changes.
fn linear_form(table: &[usize], name: &str) -> Option<String> {
    if !table.len().is_power_of_two() {
        return None;
    }
    let bits = table.len().trailing_zeros() as usize;
    let base = table[0];
    let change: Vec<usize> = (0..bits).map(|b| table[1 << b] ^ base).collect();
    let linear = |i: usize| (0..bits).filter(|b| i >> b & 1 == 1).fold(base, |x, b| x ^ change[b]);
    if !(0..table.len()).all(|i| linear(i) == table[i]) {
        return None;
    }
    let mut terms = Vec::new();
    let mut bit = 0;
    while bit < bits {
        if change[bit] == 0 {
            bit += 1;
            continue;
        }
        // Neighbouring bits that move by the same distance are one term.
        let mut end = bit + 1;
        let single = change[bit].is_power_of_two();
        while single && end < bits && change[end] == change[end - 1] << 1 {
            end += 1;
        }
        let (low, mask) = (bit, (1_usize << (end - bit)) - 1);
        let field = if low == 0 && end == bits && single {
            name.to_string()
        } else if low == 0 {
            format!("({name} & {mask})")
        } else {
            format!("({name} >> {low} & {mask})")
        };
        terms.push(match (single, change[bit].trailing_zeros()) {
            (true, 0) => field,
            (true, by) => format!("({field} << {by})"),
            (false, _) => format!("({field} * {})", change[bit]),
        });
        bit = end;
    }
    if base != 0 || terms.is_empty() {
        terms.push(base.to_string());
    }
    Some(terms.join(" ^ "))
}

fn print_shared(
    text: &mut String,
    plan: &BlockConversion,
    shared: &SharedPlan,
    source: &BlockFragment,
    wanted: &BlockFragment,
) {
    *text += "  const unsigned thread = threadIdx.x;\n";
    print_side(text, plan, shared, source, &shared.writes, "w", true);
    *text += "  __syncthreads();\n";
    print_side(text, plan, shared, wanted, &shared.reads, "r", false);
}

fn print_side(
    text: &mut String,
    plan: &BlockConversion,
    shared: &SharedPlan,
    fragment: &BlockFragment,
    accesses: &SharedAccesses,
    prefix: &str,
    writes: bool,
) {
    let unit = 32 / plan.per_word;
    let bytes = accesses.vector * unit / 8;
    for (number, first) in accesses.firsts.iter().enumerate() {
        let starts: Vec<Option<usize>> = (0..plan.threads)
            .map(|thread| {
                let element = fragment.element(thread, *first)?;
                Some(shared.address(element as usize) * unit / 8)
            })
            .collect();
        if starts.iter().all(Option::is_none) {
            continue;
        }
        let addresses: Vec<usize> = starts.iter().map(|s| s.unwrap_or(0)).collect();
        let name = format!("{prefix}{number}");
        // Where every thread takes part, its address may be a formula; else, and for odd shapes, it is a table.
        let all = starts.iter().all(Option::is_some);
        let address = match linear_form(&addresses, "thread").filter(|_| all) {
            Some(formula) => formula,
            None => {
                let list: Vec<String> = addresses.iter().map(usize::to_string).collect();
                let _ = writeln!(
                    text,
                    "  static const unsigned {name}[{}] = {{{}}};",
                    list.len(),
                    list.join(", ")
                );
                format!("{name}[thread]")
            }
        };
        let guard = if all {
            String::new()
        } else {
            let warps: Vec<String> = starts
                .chunks(THREADS_OF_WARP)
                .map(|warp| {
                    let bits = warp.iter().enumerate().filter(|(_, s)| s.is_some());
                    format!("{:#010x}u", bits.fold(0_u32, |mask, (lane, _)| mask | 1 << lane))
                })
                .collect();
            let _ = writeln!(
                text,
                "  static const unsigned {name}_active[{}] = {{{}}};",
                warps.len(),
                warps.join(", ")
            );
            format!("if ({name}_active[thread >> 5] >> (thread & 31) & 1) ")
        };
        let array = if writes { "src" } else { "dst" };
        let word = first / plan.per_word;
        let place = |kind: &str| format!("*reinterpret_cast<{kind}*>(smem + ({address}))");
        match bytes {
            4 | 8 | 16 => {
                let count = bytes / 4;
                let kind = ["unsigned", "uint2", "", "uint4"][count - 1];
                let words: Vec<String> =
                    (word..word + count).map(|w| format!("{array}[{w}]")).collect();
                let line = match (writes, count) {
                    (true, 1) => format!("{} = {};", place(kind), words[0]),
                    (true, _) => format!("{} = make_{kind}({});", place(kind), words.join(", ")),
                    (false, 1) => format!("{} = {};", words[0], place(kind)),
                    (false, _) => {
                        let fields = ["x", "y", "z", "w"];
                        let sets: Vec<String> = words
                            .iter()
                            .zip(fields)
                            .map(|(w, f)| format!("{w} = {name}_value.{f};"))
                            .collect();
                        format!(
                            "{{ const {kind} {name}_value = {}; {} }}",
                            place(kind),
                            sets.join(" ")
                        )
                    }
                };
                let _ = writeln!(text, "  {guard}{line}");
            }
            _ => {
                let kind = if bytes == 2 { "unsigned short" } else { "unsigned char" };
                let shift = first % plan.per_word * unit;
                if writes {
                    let _ = writeln!(
                        text,
                        "  {guard}{} = ({kind})({array}[{word}] >> {shift});",
                        place(kind)
                    );
                } else {
                    // The first part of a word sets it, the others are added.
                    let sign = if shift == 0 { "=" } else { "|=" };
                    let _ = writeln!(
                        text,
                        "  {guard}{array}[{word}] {sign} (unsigned){} << {shift};",
                        place(kind)
                    );
                }
            }
        }
    }
}
