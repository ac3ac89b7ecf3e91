//! Which lane sends which word to which lane, in which shuffle.
//!
//! In a shuffle every lane offers one word and reads the word of one lane. So a plan is a list of rounds in which no lane
//! has to offer two different words. Rounds with a pattern (the word that a lane reads in round `i` is `i` with bits of
//! the lane's number flipped, or `i` rotated by it) need few selects and are tried first; where none of them is enough,
//! the rounds are a colouring of the edges lane -> lane, which always exists with as many rounds as the busiest lane
//! sends or receives (König).

use crate::fragment::THREADS_OF_WARP as LANES;
use crate::plan::StepWriter;
use crate::steps::WordPart;
use std::collections::BTreeMap;

/// Of each register that a lane wants, the lane and the register that hold its element.
pub(crate) type LaneNeed = Vec<Option<(usize, usize)>>;

/// The parts of a word, of which some may be free.
type Parts = Vec<Option<WordPart>>;

/// A word that a lane receives.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Received {
    from: usize,
    /// Its parts, of the sender's words.
    parts: Parts,
}

/// Where a part of a wanted word comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartSource {
    Own(WordPart),
    /// The number among the words that the lane receives, and the part.
    Received(usize, usize),
}

/// The word and the part that an element goes to, and the register of its sender.
type WantedPart = (usize, usize, usize);

/// What a lane receives, and what its words are made of.
struct LanePlan {
    /// By position; none where the lane has the word itself, or needs none.
    received: Vec<Option<Received>>,
    words: Vec<Vec<Option<PartSource>>>,
}

/// What became of the rounds.
pub(crate) struct PlannedRounds {
    pub(crate) shuffles: usize,
    pub(crate) least_shuffles: usize,
    pub(crate) results: Vec<Option<usize>>,
}

/// Of each lane, the position that it reads in each round.
type RoundTable = Vec<[Option<usize>; LANES]>;

pub(crate) fn plan_rounds(
    writer: &mut StepWriter,
    needs: &[LaneNeed],
    result_words: usize,
) -> PlannedRounds {
    let per_word = writer.per_word();
    let lanes: Vec<LanePlan> = needs
        .iter()
        .enumerate()
        .map(|(lane, need)| plan_lane(lane, need, per_word, result_words))
        .collect();
    let least_shuffles = needs.iter().enumerate().map(|(l, n)| least_words(l, n, per_word)).max();
    let rounds = choose_rounds(&lanes);
    let mut values: Vec<BTreeMap<usize, usize>> = vec![BTreeMap::new(); LANES];
    for round in &rounds {
        let mut offered: Vec<Option<Parts>> = vec![None; LANES];
        let mut table = [0_u8; LANES];
        for (lane, at) in round.iter().enumerate() {
            // A lane that reads nothing reads itself, which is always allowed.
            table[lane] = lane_byte(lane);
            let Some(word) = at.and_then(|at| lanes[lane].received[at].as_ref()) else { continue };
            table[lane] = lane_byte(word.from);
            offered[word.from] = Some(word.parts.clone());
        }
        let Some(word) = writer.select(&offered) else { continue };
        let value = writer.shuffle(word, table);
        for (lane, at) in round.iter().enumerate() {
            if let Some(at) = at.filter(|at| lanes[lane].received[*at].is_some()) {
                values[lane].insert(at, value);
            }
        }
    }
    let results = (0..result_words).map(|word| {
        let wanted: Vec<Option<Parts>> = lanes
            .iter()
            .zip(&values)
            .map(|(lane, values)| {
                let parts = lane.words.get(word)?;
                parts.iter().any(Option::is_some).then(|| {
                    let part = |source: &Option<PartSource>| match (*source)? {
                        PartSource::Own(part) => Some(part),
                        PartSource::Received(at, part) => {
                            values.get(&at).map(|word| WordPart { word: *word, part })
                        }
                    };
                    parts.iter().map(part).collect()
                })
            })
            .collect();
        writer.select(&wanted)
    });
    let results = results.collect();
    PlannedRounds { shuffles: rounds.len(), least_shuffles: least_shuffles.unwrap_or(0), results }
}

/// The number of a lane, which is below 32.
fn lane_byte(lane: usize) -> u8 {
    u8::try_from(lane).unwrap_or(0)
}

/// Words of 32 bits that a lane cannot do without: from each other lane the elements that it needs, packed.
fn least_words(lane: usize, need: &LaneNeed, per_word: usize) -> usize {
    let mut from = [0_usize; LANES];
    for (sender, _) in need.iter().flatten().filter(|(sender, _)| *sender != lane) {
        from[*sender] += 1;
    }
    from.iter().map(|count| count.div_ceil(per_word)).sum()
}

/// What a lane receives. A wanted word whose elements are all in one lane travels as it is wanted; elements of words that
/// are made of several lanes are packed by their sender.
fn plan_lane(lane: usize, need: &LaneNeed, per_word: usize, result_words: usize) -> LanePlan {
    let source =
        |register: usize| WordPart { word: register / per_word, part: register % per_word };
    let slot = |word: usize, part: usize| need.get(word * per_word + part).copied().flatten();
    let mut words = vec![vec![None; per_word]; result_words];
    let mut whole: Vec<Option<Received>> = vec![None; result_words];
    // By sender.
    let mut mixed: BTreeMap<usize, Vec<WantedPart>> = BTreeMap::new();
    for (word, made) in words.iter_mut().enumerate() {
        let parts: Vec<Option<(usize, usize)>> = (0..per_word).map(|p| slot(word, p)).collect();
        let mut senders: Vec<usize> = parts.iter().flatten().map(|(sender, _)| *sender).collect();
        senders.sort_unstable();
        senders.dedup();
        match senders.as_slice() {
            [one] if *one != lane => {
                let parts: Parts = parts.iter().map(|p| p.map(|(_, r)| source(r))).collect();
                for (p, _) in parts.iter().enumerate().filter(|(_, part)| part.is_some()) {
                    made[p] = Some(PartSource::Received(word, p));
                }
                whole[word] = Some(Received { from: *one, parts });
            }
            _ => {
                for (p, (sender, register)) in
                    parts.iter().enumerate().filter_map(|(p, part)| part.map(|part| (p, part)))
                {
                    if sender == lane {
                        made[p] = Some(PartSource::Own(source(register)));
                    } else {
                        mixed.entry(sender).or_default().push((word, p, register));
                    }
                }
            }
        }
    }
    if mixed.is_empty() {
        return LanePlan { received: whole, words };
    }
    // With packed words, positions are counted over what travels: whole words first, then packed ones by where their
    // first element goes, so that lanes with the same pattern have the same order.
    let mut received: Vec<Option<Received>> = Vec::new();
    for (word, travels) in whole.into_iter().enumerate() {
        let Some(travels) = travels else { continue };
        for source in words[word].iter_mut().flatten() {
            if let PartSource::Received(at, _) = source {
                *at = received.len();
            }
        }
        received.push(Some(travels));
    }
    let mut packed: Vec<(usize, Vec<WantedPart>)> = mixed
        .into_iter()
        .flat_map(|(from, parts)| {
            let chunks: Vec<_> = parts.chunks(per_word).map(|c| (from, c.to_vec())).collect();
            chunks
        })
        .collect();
    packed.sort_by_key(|(_, parts)| (parts[0].0, parts[0].1));
    for (from, parts) in packed {
        let mut word: Parts = vec![None; per_word];
        for (at, (to_word, to_part, register)) in parts.into_iter().enumerate() {
            word[at] = Some(source(register));
            words[to_word][to_part] = Some(PartSource::Received(received.len(), at));
        }
        received.push(Some(Received { from, parts: word }));
    }
    LanePlan { received, words }
}

/// The rounds with the fewest shuffles, and among those with the fewest selects.
fn choose_rounds(lanes: &[LanePlan]) -> RoundTable {
    let positions = lanes.iter().map(|l| l.received.len()).max().unwrap_or(0);
    if lanes.iter().all(|l| l.received.iter().all(Option::is_none)) {
        return Vec::new();
    }
    let mut best: Option<((usize, usize), RoundTable)> = None;
    let mut consider = |table: RoundTable| {
        let Some(cost) = count_round_cost(lanes, &table) else { return };
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, drop_idle_rounds(lanes, table)));
        }
    };
    if positions.is_power_of_two() && positions <= 32 {
        let bits = positions.trailing_zeros();
        // Each bit of the position is flipped by none or one bit of the lane: 6 ways, for 5 bits at most.
        for choice in 0..6_usize.pow(bits) {
            let flip = |lane: usize| {
                let mut rest = choice;
                (0..bits).fold(0, |flipped, bit| {
                    let by = rest % 6;
                    rest /= 6;
                    let lane_bit = if by == 0 { 0 } else { lane >> (by - 1) & 1 };
                    flipped | lane_bit << bit
                })
            };
            consider(pattern_rounds(positions, |round, lane| round ^ flip(lane)));
        }
    }
    for shift in 0..5 {
        for forward in [true, false] {
            consider(pattern_rounds(positions, |round, lane| {
                let by = (lane >> shift) % positions;
                if forward {
                    (round + by) % positions
                } else {
                    (round + positions - by) % positions
                }
            }));
        }
    }
    consider(color_edges(lanes));
    best.map(|(_, table)| table).unwrap_or_default()
}

fn pattern_rounds(positions: usize, read: impl Fn(usize, usize) -> usize) -> RoundTable {
    (0..positions).map(|round| std::array::from_fn(|lane| Some(read(round, lane)))).collect()
}

/// Shuffles and selects of a table; none where a lane would have to offer two words in one round.
fn count_round_cost(lanes: &[LanePlan], table: &RoundTable) -> Option<(usize, usize)> {
    let (mut shuffles, mut selects) = (0, 0);
    // The rounds in which each position arrives.
    let mut arrivals: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, round) in table.iter().enumerate() {
        let mut offered: [Option<&Parts>; LANES] = [None; LANES];
        let mut distinct: Vec<&Parts> = Vec::new();
        for (lane, at) in round.iter().enumerate() {
            let Some(at) = *at else { continue };
            let Some(word) = lanes[lane].received.get(at).and_then(Option::as_ref) else {
                continue;
            };
            match offered[word.from] {
                None => offered[word.from] = Some(&word.parts),
                Some(other) if *other == word.parts => {}
                Some(_) => return None,
            }
            if !distinct.contains(&&word.parts) {
                distinct.push(&word.parts);
            }
            let rounds = arrivals.entry(at).or_default();
            if !rounds.contains(&number) {
                rounds.push(number);
            }
        }
        shuffles += usize::from(!distinct.is_empty());
        selects += distinct.len().saturating_sub(1);
    }
    selects += arrivals.values().map(|rounds| rounds.len() - 1).sum::<usize>();
    Some((shuffles, selects))
}

/// Rounds in which no lane receives anything are left out, and so are positions that a lane does not have.
fn drop_idle_rounds(lanes: &[LanePlan], mut table: RoundTable) -> RoundTable {
    for round in &mut table {
        for (lane, at) in round.iter_mut().enumerate() {
            *at = at.filter(|at| lanes[lane].received.get(*at).is_some_and(Option::is_some));
        }
    }
    table.retain(|round| round.iter().any(Option::is_some));
    table
}

/// A colouring of the edges lane -> lane with as many colours as the largest degree: every edge takes a colour that is
/// free at both ends, or one that becomes free by exchanging two colours along a path.
fn color_edges(lanes: &[LanePlan]) -> RoundTable {
    let edges: Vec<(usize, usize, usize)> = lanes
        .iter()
        .enumerate()
        .flat_map(|(to, lane)| {
            let words = lane.received.iter().enumerate();
            words.filter_map(move |(at, word)| word.as_ref().map(|w| (w.from, to, at)))
        })
        .collect();
    let degree = |end: fn(&(usize, usize, usize)) -> usize| {
        let mut count = [0_usize; LANES];
        edges.iter().for_each(|e| count[end(e)] += 1);
        count.into_iter().max().unwrap_or(0)
    };
    let colors = degree(|e| e.0).max(degree(|e| e.1));
    // By lane and colour, the edge: of senders, then of receivers.
    let mut used = [vec![vec![None; colors]; LANES], vec![vec![None; colors]; LANES]];
    let mut color_of = vec![0_usize; edges.len()];
    for (edge, (from, to, _)) in edges.iter().enumerate() {
        let free = |side: usize, lane: usize, used: &[Vec<Vec<Option<usize>>>; 2]| {
            used[side][lane].iter().position(Option::is_none).unwrap_or(0)
        };
        let (a, b) = (free(0, *from, &used), free(1, *to, &used));
        if a != b && used[1][*to][a].is_some() {
            // The path from the receiver whose edges have colours a, b, a, .. in turn does not reach the sender, so that
            // after exchanging them a is free at both ends.
            let (mut side, mut lane, mut color) = (1, *to, a);
            let mut path = Vec::new();
            while let Some(next) = used[side][lane][color] {
                path.push(next);
                let (f, t, _): (usize, usize, usize) = edges[next];
                (side, lane) = if side == 1 { (0, f) } else { (1, t) };
                color = if color == a { b } else { a };
            }
            for next in &path {
                let (f, t, _) = edges[*next];
                used[0][f][color_of[*next]] = None;
                used[1][t][color_of[*next]] = None;
            }
            for next in &path {
                let (f, t, _) = edges[*next];
                color_of[*next] = if color_of[*next] == a { b } else { a };
                used[0][f][color_of[*next]] = Some(*next);
                used[1][t][color_of[*next]] = Some(*next);
            }
        }
        color_of[edge] = a;
        used[0][*from][a] = Some(edge);
        used[1][*to][a] = Some(edge);
    }
    let mut table: RoundTable = vec![[None; LANES]; colors];
    for ((_, to, at), color) in edges.iter().zip(&color_of) {
        table[*color][*to] = Some(*at);
    }
    table
}
